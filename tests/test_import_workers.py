"""Workers of imports: cores of their own, and a second check of unsteady times."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks import import_workers
from benchmarks.import_workers import Queue, cores_of, run
from evaluation.kinds.kernel.load import load_task


def tasks(*names: str) -> list[Any]:
    return [SimpleNamespace(slug=name) for name in names]


def queue_of(*names: str, again: Sequence[Any] = (), end: float = math.inf) -> Queue:
    return Queue(tasks(*names), again, end, lambda task: task.slug.startswith("timed"))


def order(queue: Queue, times: bool) -> list[str]:
    found = []
    while item := queue.next(times):
        found.append(item[0].slug)
    return found


def test_workers_have_disjoint_cores_pairs_first() -> None:
    here = [0, 8, 1, 9, 2, 10]
    cores = cores_of(jobs=2, singles=2, here=here)
    assert [set(each.threads) for each in cores] == [{0, 8}, {1, 9}, {2}, {10}]
    assert [each.times for each in cores] == [True, True, False, False]
    with pytest.raises(ValueError, match="7 cores are needed, and this process has 6"):
        cores_of(jobs=3, singles=1, here=here)
    assert [set(each.threads) for each in cores_of(1, 0, here)] == [{0, 8, 1, 9, 2, 10}]


def test_worker_with_one_core_is_given_no_timed_task() -> None:
    queue = queue_of("a", "timed-b", "c", again=tasks("again"))
    assert order(queue, times=False) == ["a", "c"]
    assert order(queue, times=True) == ["timed-b", "again"]


def test_no_task_is_started_after_the_end() -> None:
    assert order(queue_of("a", "timed-b", end=0.0), times=True) == []


def test_unsteady_times_are_checked_once_more_after_all_others() -> None:
    names, kept = [], []

    def checked(task: Any, cache: Path) -> dict[str, Any]:
        names.append(task.slug)
        return {"admitted": False, "unsteady": task.slug == "timed-a"}

    def keep(task: Any, result: dict[str, Any]) -> None:
        kept.append((task.slug, result))

    run(queue_of("timed-a", "b"), cores_of(1, 0), Path(), keep, check=checked)
    assert names == ["timed-a", "b", "timed-a"]
    assert [result.get("checked_again") for _, result in kept] == [None, None, True]
    assert [import_workers.is_to_be_checked_again(r) for _, r in kept] == [True, False, False]


class Process:
    """A worker's process that ends without a result of `broken`."""

    def __init__(self, cache: Path) -> None:
        self.cores = os.sched_getaffinity(0)

    def checked(self, task: Any) -> dict[str, Any] | None:
        return None if task.slug == "broken" else {"cores": self.cores}

    def end(self) -> None:
        pass


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_a_task_that_ends_its_worker_is_reported_and_the_others_are_checked(
    capsys: pytest.CaptureFixture[str],
) -> None:
    kept: dict[str, dict[str, Any]] = {}
    before = os.sched_getaffinity(0)

    def keep(task: Any, result: dict[str, Any]) -> None:
        kept[task.slug] = result

    run(queue_of("a", "broken", "b", "c"), cores_of(0, 2), Path(), keep, start=Process)
    assert kept.keys() == {"a", "b", "c"}
    assert all(len(result["cores"]) == 1 for result in kept.values())
    assert all(result["beside"] == 1 for result in kept.values())
    assert "broken: not checked; its worker ended" in capsys.readouterr().out
    assert os.sched_getaffinity(0) == before


TOML = """\
title = "Copy"
category = "Math"
families = ["llm"]
arguments = [
    { name = "x", role = "input", shape = ["n"] },
    { name = "out", role = "output", shape = ["n"] },
]
[domain]
dtypes = ["float32"]
n = [1, 64]
[models]
one = { n = 48 }
[tolerance]
float32 = { c1 = 4.0, c2 = 4.0 }
"""
REFERENCE = '"""Copy."""\n\n\ndef reference(x):\n    return x[:-1]\n'


@pytest.mark.timeout(120)
def test_worker_answers_after_one_of_its_processes_has_ended(tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    folder.mkdir()
    (folder / "task.toml").write_text(TOML)
    (folder / "reference.py").write_text(REFERENCE)
    task = load_task(tmp_path, "copy", "torch-to-torch", "cpu")
    (folder / "task.toml").write_text("")
    worker = import_workers.Worker(tmp_path)
    try:
        assert worker.checked(task) is None
        (folder / "task.toml").write_text(TOML)
        result = worker.checked(task)
    finally:
        worker.end()
    assert result
    assert result["hash"] == task.hash
    assert "out must have the shape [1], got [0]" in result["problems"][0]


def test_error_in_a_problem_is_a_result(tmp_path: Path) -> None:
    def admit(*_: object, **__: object) -> None:
        raise RuntimeError("index 7 is out of bounds")

    folder = tmp_path / "copy"
    folder.mkdir()
    (folder / "task.toml").write_text(TOML)
    (folder / "reference.py").write_text(REFERENCE)
    task = load_task(tmp_path, "copy", "torch-to-torch", "cpu")
    result = import_workers.checked(task, tmp_path, admit=admit)
    assert not result["admitted"]
    assert result["problems"] == ["its code raised RuntimeError: index 7 is out of bounds"]
