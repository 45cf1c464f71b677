"""Tests of the computation outside requests."""

from __future__ import annotations

import subprocess
import time
from typing import Any

import numpy as np
import pytest

from arena.leaderboard.analysis import background
from arena.leaderboard.analysis.background import Answer, Background, computed_apart
from arena.leaderboard.analysis.deviance import Deviance
from arena.leaderboard.analysis.estimates import NotEnough
from arena.leaderboard.analysis.statistics import Rounds, Runs, Sample, statistics


def sample(count: int = 60) -> Sample:
    number = np.arange(count)
    passed = number % 3 > 0
    nothing = np.zeros(0)
    return Sample(
        Runs(
            task=number // 2,
            task_version=number // 2,
            category=["a" if n < count // 2 else "b" for n in range(count)],
            agent=number % 2,
            hardware=np.zeros(count, int),
            passed=passed,
            unseen_speedup=np.where(passed, 2.0, np.nan),
            failure=["" if each else "compile" for each in passed],
            failures=("compile", "correctness"),
        ),
        Rounds(*[nothing] * 6),
    )


def answer(kept: Background, state: Any, filters: str = "") -> Answer:
    """Ask until there is an answer for this state."""
    end = time.monotonic() + 60
    while not (found := kept.ask(filters, state, sample)).current:
        assert time.monotonic() < end
        time.sleep(0.02)
    return found


def test_process_apart_computes_what_this_one_does() -> None:
    found = computed_apart(sample())
    assert found == statistics(sample())
    assert (found.runs, found.failures.categories[0].failed) == (60, [10, 0])
    assert isinstance(found.deviance, Deviance)
    assert isinstance(found.refinement, NotEnough) and isinstance(found.spread, NotEnough)


def test_statistics_of_no_runs_give_reasons() -> None:
    found = statistics(sample(0))
    parts = (found.deviance, found.refinement, found.spread, found.failures)
    assert all(isinstance(part, NotEnough) and part.reason for part in parts)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Sample]:
    """Record the samples that are computed, each in an instant."""
    made: list[Sample] = []
    results = statistics(sample(0))

    def compute(given: Sample) -> Any:
        made.append(given)
        return results

    monkeypatch.setattr(background, "computed_apart", compute)
    return made


def test_statistics_are_computed_once_for_a_state(calls: list[Sample]) -> None:
    kept = Background()
    first = kept.ask("", 1, sample)
    assert (first.found, first.current, first.failed) == (None, False, False)
    found = answer(kept, 1)
    assert found.found is not None and answer(kept, 1).found is found.found
    assert len(calls) == 1
    assert answer(kept, 1, filters="other").current and len(calls) == 2


def test_older_statistics_are_shown_until_newer_ones_are_there(
    calls: list[Sample], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Background()
    answer(kept, 1)
    older = kept.ask("", 2, sample)
    assert older.found is not None and not older.current
    assert len(calls) == 1  # too soon for another computation
    monkeypatch.setattr(background, "MIN_AGE_SECONDS", 0)
    assert answer(kept, 2).current and len(calls) == 2


def test_failed_computation_is_said_and_tried_again_later(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(background, "COMMAND", ("false",))
    kept = Background()
    found = answer(kept, 1)
    assert found.failed and found.found is None
    assert "could not be computed" in caplog.text
    monkeypatch.setattr(background, "computed_apart", statistics)
    assert kept.ask("", 1, sample).failed  # too soon
    monkeypatch.setattr(background, "MIN_AGE_SECONDS", 0)
    while kept.ask("", 1, sample).failed:
        time.sleep(0.02)
    assert answer(kept, 1).found is not None


def test_process_that_takes_too_long_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "COMMAND", ("sleep", "60"))
    monkeypatch.setattr(background, "MAX_SECONDS", 0.1)
    with pytest.raises(subprocess.TimeoutExpired):
        computed_apart(sample())


def test_many_filters_at_once_start_a_bounded_number_of_computations(calls: list[Sample]) -> None:
    kept = Background()
    with kept.one_at_a_time:
        for number in range(20):
            kept.ask(f"filter-{number}", 1, sample)
        assert len(kept.waiting) == background.MAX_WAITING
    answer(kept, 1, "filter-19")
    assert len(calls) <= 20


def test_sample_that_cannot_be_read_does_not_block_its_filters(calls: list[Sample]) -> None:
    kept = Background()

    def unreadable() -> Sample:
        raise OSError("the database is away")

    with pytest.raises(OSError, match="is away"):
        kept.ask("all", 1, unreadable)
    assert kept.waiting == set()
