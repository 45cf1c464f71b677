"""Generalization: hidden cases are checked, and the neighbours of the seen ones timed."""

from __future__ import annotations

from pathlib import Path

from evaluation.kinds.kernel.gates.generalization import (
    SAMPLED,
    hidden_cases,
    lasting_cases,
    timed_cases,
)
from evaluation.kinds.kernel.load import load_task
from evaluation.tasks.spec import Task
from evaluation.types import Split

TASKS = Path(__file__).resolve().parents[5] / "tasks"


def rms_norm() -> Task:
    return load_task(TASKS, "rms_norm", "triton-to-triton", "gpu")


def test_every_verdict_on_one_machine_times_the_same_hidden_cases() -> None:
    task = rms_norm()
    timed = timed_cases(task, b"machine")
    assert timed == timed_cases(task, b"machine") != timed_cases(task, b"another")
    drawn = [hidden_cases(task, seed, b"machine") for seed in (1, 2)]
    assert drawn[0] != drawn[1], "those that are checked only are drawn anew"
    for cases in drawn:
        assert all(case in cases for case in timed)
        assert all(case in cases for case in lasting_cases(task, b"machine"))
        assert {case.name for case in task.cases(Split.UNSEEN)} <= {case.name for case in cases}
        assert len({case.name for case in cases}) == len(cases)


def test_hidden_cases_of_a_small_size_are_drawn_for_each_verdict() -> None:
    task = rms_norm()
    cases = hidden_cases(task, 1, b"machine", max_elements=2000)
    assert sum(case.split is Split.SAMPLED for case in cases) == SAMPLED
    assert all(task.operator.elements(case) <= 2000 for case in cases)
    assert cases == hidden_cases(task, 1, b"another", max_elements=2000)
