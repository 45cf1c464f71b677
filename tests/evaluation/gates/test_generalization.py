"""Generalization: hidden cases are checked, and half of those of the seen ones' size timed."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from evaluation.gates.generalization import (
    MIN_TIMED,
    SAMPLED,
    TIMED_NAMES,
    TIMED_SAMPLED,
    hidden_cases,
    timed_cases,
    work_range,
)
from evaluation.languages import languages
from evaluation.tasks.spec import OPEN_TRACK, Task, find_operators, folder_of, self_tested
from evaluation.tracks.load import load_operator, load_task
from evaluation.types import Case, Split

TASKS = Path(__file__).resolve().parents[3] / "tasks"
TESTED = self_tested(TASKS)
# The cases of a short operator are made by rule: those of one track are enough.
KINDS = [
    pytest.param(f"{name}/{track.slug}", kind, id=f"{name}/{track.slug}-{kind}")
    for name in find_operators(TASKS)
    for track in (
        *(load_operator(folder_of(TASKS, name)).tracks if name in TESTED else ()),
        OPEN_TRACK,
    )
    for kind in languages()[track.target].kinds
]


def comparable(task: Task, cases: list[Case]) -> list[Case]:
    return [case for case in cases if case in work_range(task)]


@pytest.mark.parametrize(("slug", "kind"), KINDS)
def test_task_has_enough_hidden_cases_of_the_size_of_the_seen_ones(slug: str, kind: str) -> None:
    name, track = slug.split("/")
    task = load_task(TASKS, name, track, kind)
    for seed in range(3):
        cases = hidden_cases(task, seed, secret=bytes([seed]))
        sampled = [case for case in cases if case.split is Split.SAMPLED]
        assert len(sampled) == SAMPLED
        assert len(comparable(task, sampled)) >= TIMED_SAMPLED
    written = comparable(task, list(task.cases(Split.UNSEEN)))
    assert len(written) >= 5
    assert all(case.kind != "edge" for case in written), "an edge times the call, not the work"
    assert comparable(task, list(task.cases(Split.SEEN))) == list(task.cases(Split.SEEN))


@pytest.mark.parametrize("name", ["softmax", "rms_norm"])
def test_timed_hidden_cases_are_a_secret_half_of_the_comparable_ones(name: str) -> None:
    task = load_task(TASKS, name, "triton-to-triton", "gpu")
    halves, written = set(), set()
    for number in range(60):
        secret = bytes([number])
        cases = hidden_cases(task, 1, secret)
        alike = comparable(task, cases)
        assert len(alike) > MIN_TIMED
        timed = timed_cases(task, cases, secret)
        names = {case.name for case in timed}
        assert len(names) == len(timed) == max(MIN_TIMED, len(alike) // 2) >= 4
        assert {*TIMED_NAMES} <= names <= {case.name for case in alike}
        halves.add(frozenset(names))
        written |= {case.name for case in comparable(task, list(task.cases(Split.UNSEEN)))} - names
    assert len(halves) > 10
    assert written == {case.name for case in comparable(task, list(task.cases(Split.UNSEEN)))}


def test_every_verdict_on_one_machine_times_the_same_hidden_cases() -> None:
    task = load_task(TASKS, "rms_norm", "triton-to-triton", "gpu")
    drawn = [hidden_cases(task, seed, b"machine") for seed in (1, 2)]
    assert timed_cases(task, drawn[0], b"machine") == timed_cases(task, drawn[1], b"machine")
    assert drawn[0] != drawn[1], "those that are checked only are drawn anew"


@pytest.mark.parametrize(("count", "timed"), [(0, 0), (3, 3), (4, 4), (6, 4), (9, 4), (12, 6)])
def test_few_comparable_hidden_cases_are_timed_all(count: int, timed: int) -> None:
    task = load_task(TASKS, "softmax", "triton-to-triton", "gpu")
    (seen, *_) = task.cases(Split.SEEN)
    cases = [
        dataclasses.replace(seen, name=f"case-{number}", split=Split.UNSEEN)
        for number in range(count)
    ]
    assert len(timed_cases(task, cases, b"")) == timed
