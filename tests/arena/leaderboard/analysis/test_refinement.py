"""Tests of refinement by round."""

from __future__ import annotations

import math
import random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from arena.leaderboard.analysis.best_rounds import MAX_ROUNDS
from arena.leaderboard.analysis.estimates import NotEnough
from arena.leaderboard.analysis.refinement import (
    ALL,
    FAILING,
    FIXED,
    RESCUED,
    Refinement,
    refinement,
)
from arena.runs.scoring.best import best_so_far

Round = float | str | None
"""A speedup; "wrong", "untimed", "uncompiled"; None for a round without a verdict."""


def follow(*runs: list[Round]) -> Refinement:
    found = refinement(*columns(*runs))
    assert isinstance(found, Refinement)
    return found


def columns(*runs: list[Round]) -> list[Any]:
    rows = [
        (
            number,
            position,
            outcome != "uncompiled",
            outcome == "untimed" or isinstance(outcome, float),
            outcome if isinstance(outcome, float) else math.nan,
            outcome * 0.9 if isinstance(outcome, float) else math.nan,
        )
        for number, outcomes in enumerate(runs)
        for position, outcome in enumerate(outcomes, start=1)
        if outcome is not None
    ]
    random.Random(1).shuffle(rows)
    return [np.array(column) for column in zip(*rows, strict=True)]


def test_mean_falls_while_every_run_gets_faster() -> None:
    """The rescued run joins the mean in the second round; the fixed ones alone get faster."""
    found = follow([4.0, 4.4], [4.0, 4.4], ["wrong", 1.0], ["uncompiled", "wrong"], [2.0])
    assert found.single == 1
    assert [(group.name, group.runs) for group in found.groups] == [
        (ALL, 4), (FIXED, 2), (RESCUED, 1), (FAILING, 1),
    ]  # fmt: skip

    def means(name: str) -> list[float | None]:
        return [step.speedup and step.speedup.value for step in found.of(name).steps]

    assert means(ALL) == pytest.approx([4.0, (4.4**2) ** (1 / 3)])
    assert means(FIXED) == pytest.approx([4.0, 4.4])
    assert means(RESCUED) == [None, pytest.approx(1.0)]
    assert means(FAILING) == [None, None]
    assert [(step.compiled, step.correct) for step in found.of(ALL).steps] == [(3, 2), (4, 3)]
    assert found.gain is not None
    assert (found.gain.count, found.gain.value) == (2, pytest.approx(1.1))


def test_rescued_runs_are_compared_with_the_fixed_at_the_end() -> None:
    found = follow([2.0, 2.0], [4.0, 8.0], ["wrong", 1.0], ["wrong", 2.0])
    assert found.rescued_ratio is not None
    assert found.rescued_ratio.value == pytest.approx(math.sqrt(2) / 4)
    assert follow([2.0, 2.0], ["wrong", 1.0]).rescued_ratio is None


def test_run_keeps_its_best_after_its_last_round_and_after_a_failure() -> None:
    found = follow([3.0, 2.0, "wrong", "uncompiled"], [1.0, 1.5])
    steps = found.of(ALL).steps
    assert [step.correct for step in steps] == [step.compiled for step in steps] == [2] * 4
    assert [step.speedup.value for step in steps if step.speedup] == pytest.approx(
        [math.sqrt(3.0), *[math.sqrt(4.5)] * 3]
    )


def test_round_without_a_verdict_and_untimed_rounds_are_kept_apart() -> None:
    found = follow([None, "wrong", 2.0], ["untimed", "untimed"])
    assert [step.correct for step in found.of(ALL).steps] == [1, 1, 2]
    assert [step.compiled for step in found.of(ALL).steps] == [1, 2, 2]
    assert (found.of(RESCUED).runs, found.of(FIXED).runs) == (1, 1)
    assert found.of(FIXED).steps[-1].speedup is None and found.gain is None


def test_best_so_far_is_that_of_the_rule_of_the_arena() -> None:
    dice = random.Random(4)
    runs: list[list[Round]] = [
        [dice.choice(["wrong", "untimed", dice.choice([1.0, 1.5, 2.0])]) for _ in range(6)]
        for _ in range(40)
    ]
    expected: list[list[float]] = [[] for _ in range(6)]
    for outcomes in runs:
        judged = [
            SimpleNamespace(
                verdict="failed" if outcome == "wrong" else "passed",
                low=outcome * 0.9 if isinstance(outcome, float) else None,
                speedup=outcome,
            )
            for outcome in outcomes
        ]
        for column, best in enumerate(best_so_far(judged)):
            if best:
                expected[column].append(math.log(best.speedup))
    steps = follow(*runs).of(ALL).steps
    for step, logs in zip(steps, expected, strict=True):
        assert step.speedup is not None and step.speedup.count == len(logs)
        assert step.speedup.value == pytest.approx(math.exp(sum(logs) / len(logs)))


def test_last_step_of_a_long_run_has_all_later_rounds() -> None:
    wrong: list[Round] = ["wrong"] * (MAX_ROUNDS + 5)
    found = follow([*wrong, 2.0], [1.0, 1.0])
    assert len(found.of(ALL).steps) == MAX_ROUNDS
    assert [step.correct for step in found.of(ALL).steps[-2:]] == [1, 2]
    assert found.of(RESCUED).runs == 1


def test_runs_of_one_round_alone_give_a_reason() -> None:
    found = refinement(*columns([2.0], ["wrong"]))
    assert isinstance(found, NotEnough) and "2 of one" in found.reason
    assert isinstance(refinement(*[np.zeros(0)] * 6), NotEnough)
