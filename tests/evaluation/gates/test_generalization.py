"""Generalization: all hidden cases are checked, and those of the seen cases' size are timed."""

from __future__ import annotations

from pathlib import Path

import pytest

from evaluation.gates.generalization import (
    MIN_TIMED_SAMPLED,
    SAMPLED,
    hidden_cases,
    work_range,
)
from evaluation.languages import languages
from evaluation.tasks.spec import OPEN_TRACK, Task, find_operators
from evaluation.tracks.load import load_operator, load_task
from evaluation.types import Case, Split

TASKS = Path(__file__).resolve().parents[3] / "tasks"
KINDS = [
    pytest.param(f"{name}/{track.slug}", kind, id=f"{name}/{track.slug}-{kind}")
    for name in find_operators(TASKS)
    for track in (*load_operator(TASKS / name).tracks, OPEN_TRACK)
    for kind in languages()[track.target].kinds
]


def timed_cases(task: Task, cases: list[Case]) -> list[Case]:
    return [case for case in cases if case in work_range(task)]


@pytest.mark.parametrize(("slug", "kind"), KINDS)
def test_task_has_enough_hidden_cases_of_the_size_of_the_seen_ones(slug: str, kind: str) -> None:
    name, track = slug.split("/")
    task = load_task(TASKS, name, track, kind)
    for seed in range(3):
        cases = hidden_cases(task, seed)
        sampled = [case for case in cases if case.split is Split.SAMPLED]
        assert len(sampled) == SAMPLED
        assert len(timed_cases(task, sampled)) >= MIN_TIMED_SAMPLED
    written = timed_cases(task, list(task.cases(Split.UNSEEN)))
    assert len(written) >= 5
    assert all(case.kind != "edge" for case in written), "an edge times the call, not the work"
    assert timed_cases(task, list(task.cases(Split.SEEN))) == list(task.cases(Split.SEEN))
