"""Results of admission: they match the tasks, and a run of the benchmark can be continued."""

from __future__ import annotations

import json
import os
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks import admission
from evaluation import JUDGE_VERSION, OLDEST_ADMISSION
from evaluation.code.languages import languages
from evaluation.judge.admission import Admission, Attempt
from evaluation.kinds.kernel.admission.admit import is_self_test
from evaluation.kinds.kernel.load import load_operator, load_task
from evaluation.tasks.spec import OPEN_TRACK, find_operators, folder_of, self_tested
from evaluation.types import Verdict, to_json

ROOT = Path(__file__).resolve().parent.parent
TASKS = ROOT / "tasks"


RESULTS = sorted((ROOT / "benchmarks/results").glob("admission-*.json"))


@pytest.mark.parametrize("kind", ["cpu", "gpu"])
def test_results_of_a_device_kind_have_all_its_tasks(kind: str) -> None:
    results = json.loads((ROOT / f"benchmarks/results/admission-{kind}.json").read_text())["tasks"]
    here = {
        f"{name}/{track.slug}"
        for name in self_tested(TASKS)
        for track in (*load_operator(folder_of(TASKS, name)).tracks, OPEN_TRACK)
        if kind in languages()[track.target].kinds
    }
    assert set(results) >= here
    # Of operators without mutants of their own, those that were checked so far.
    assert {slug.partition("/")[0] for slug in results} <= {*find_operators(TASKS)}


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.name)
def test_admitted_version_of_a_task_is_the_current_one(path: Path) -> None:
    results = json.loads(path.read_text())["tasks"]
    assert results
    for slug, result in results.items():
        task = load_task(TASKS, *slug.split("/"))
        version = result["hash"], result["answers_hash"]
        changed = f"{slug} has changed: run benchmarks/admission.py"
        assert version == (task.hash, task.answers_hash), changed
        assert int(OLDEST_ADMISSION) <= int(result["judge"]) <= int(JUDGE_VERSION), slug
        assert result["admitted"], slug


def devices(cache: Path, kinds: tuple[str, ...]) -> tuple[SimpleNamespace, ...]:
    """Return the devices of a machine without a GPU."""
    about = {"fingerprint": {}, "environment": {}, "uuid": "", "unjudged": ""}
    return (SimpleNamespace(kind="cpu", slug="cpu", **about),) if kinds == ("cpu",) else ()


class Benchmark:
    """The benchmark with a judge that refuses one task; it records the tasks, and self-tests."""

    def __init__(self) -> None:
        self.checked: list[tuple[str, bool]] = []

    def check(self, slug: str, kind: str, cache: Path, self_test: bool) -> Any:
        self.checked.append((slug, self_test))
        task = load_task(TASKS, *slug.split("/"), kind)
        probe = Attempt("zeros", "probe", "", Verdict.FAILED, None, "", 0.0, True)
        attempts = (probe,) if is_self_test(task, self_test) else ()
        admitted = slug != "rope/torch-to-cpp"
        found = Admission(slug, task.hash, JUDGE_VERSION, attempts, None, (), admitted)
        return to_json(found)

    def main(self, arguments: list[str]) -> int:
        start = lambda environment: ThreadPoolExecutor(1)  # noqa: E731
        return admission.main(arguments, devices, start, self.check)


@pytest.fixture
def benchmark() -> Benchmark:
    return Benchmark()


@pytest.mark.parametrize("changed", ["hash", "answers_hash"])
def test_benchmark_checks_only_new_and_changed_tasks(
    changed: str,
    tmp_path: Path,
    benchmark: Benchmark,
    capsys: pytest.CaptureFixture[str],
) -> None:
    output = tmp_path / "results.json"
    there = ["--output", str(output), "--cache", str(tmp_path)]
    arguments = ["rope/*cpp", "--self-test", *there]
    assert benchmark.main(arguments) == 1
    text = capsys.readouterr().out
    assert "1 of 2 tasks are admitted\nrefused: rope/torch-to-cpp\n" in text
    assert sorted(benchmark.checked) == [("rope/cpp-to-cpp", True), ("rope/torch-to-cpp", True)]
    data = json.loads(output.read_text())
    assert data["tasks"]["rope/cpp-to-cpp"]["answers"]["probe"] == 1
    data["tasks"]["rope/cpp-to-cpp"][changed] = "another"
    output.write_text(json.dumps(data))
    assert benchmark.main([*arguments, "--within", "0"]) == 1 and len(benchmark.checked) == 2
    text = capsys.readouterr().out
    assert "0 of 2" in text and "not checked: rope/cpp-to-cpp" in text
    benchmark.main(arguments)
    assert benchmark.checked[2:] == [("rope/cpp-to-cpp", True)]


def test_short_check_is_no_self_test_and_a_self_test_counts_for_both(
    tmp_path: Path, benchmark: Benchmark
) -> None:
    output = tmp_path / "results.json"
    there = ["--output", str(output), "--cache", str(tmp_path)]
    slugs = ["mse_loss/torch-to-torch", "rope/cpp-to-cpp"]
    assert benchmark.main([*slugs, *there]) == 0
    assert benchmark.checked == [(slug, False) for slug in slugs]
    assert json.loads(output.read_text())["tasks"][slugs[0]]["admitted"]
    for form in (["--self-test"], []):  # the first task has no mutants of its own to judge
        assert benchmark.main([*slugs, *there, *form]) == 0
        assert benchmark.checked[2:] == [(slugs[1], True)]


def ended(slug: str, *others: object) -> str:
    if slug == "mse_loss/torch-to-torch":
        os._exit(1)
    return "the fork server does not reply"


def test_failure_of_the_judge_skips_a_task_and_a_process_that_ends_another(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    started = []

    def pool(environment: dict[str, str]) -> ProcessPoolExecutor:
        started.append(environment)
        return ProcessPoolExecutor(1)

    there = ["--output", str(tmp_path / "results.json"), "--cache", str(tmp_path)]
    arguments = ["mse_loss/torch-to-torch", "rope/cpp-to-cpp", *there]
    assert admission.main(arguments, devices, pool, ended) == 1
    told = capsys.readouterr().err
    assert "mse_loss/torch-to-torch: not checked; its process ended" in told
    assert "rope/cpp-to-cpp: not checked; the fork server does not reply" in told
    assert len(started) == 2, "another process was started for the second task"
