"""Tests of the computation outside requests."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from arena.leaderboard.analysis import background
from arena.leaderboard.analysis.background import Answer, Background, computed_apart
from arena.leaderboard.analysis.deviance import Deviance
from arena.leaderboard.analysis.estimates import NotEnough
from arena.leaderboard.analysis.statistics import (
    Rounds,
    Runs,
    Sample,
    Statistics,
    statistics,
)
from tests.processes import everything
from tests.waiting import until


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
    found: list[Answer] = []

    def is_current() -> bool:
        found.append(kept.ask(filters, state, sample))
        return found[-1].current

    until(is_current, "statistics of this state")
    return found[-1]


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


class Counted(Background):
    """Statistics that are computed in an instant, on a clock that is set by hand."""

    def __init__(self) -> None:
        self.calls: list[Sample] = []
        self.seconds = 0.0
        super().__init__(self.computed, lambda: self.seconds)

    def computed(self, given: Sample) -> Statistics:
        self.calls.append(given)
        return statistics(sample(0))


@pytest.fixture
def kept() -> Counted:
    return Counted()


def test_statistics_are_computed_once_for_a_state(kept: Counted) -> None:
    first = kept.ask("", 1, sample)
    assert (first.found, first.current, first.failed) == (None, False, False)
    found = answer(kept, 1)
    assert found.found is not None and answer(kept, 1).found is found.found
    assert len(kept.calls) == 1
    assert answer(kept, 1, filters="other").current and len(kept.calls) == 2


def test_older_statistics_are_shown_until_newer_ones_are_there(kept: Counted) -> None:
    answer(kept, 1)
    kept.seconds = background.MIN_AGE_SECONDS - 1
    older = kept.ask("", 2, sample)
    assert older.found is not None and not older.current
    assert len(kept.calls) == 1 and not kept.waiting  # too soon for another computation
    kept.seconds += 1
    assert answer(kept, 2).current and len(kept.calls) == 2


def test_failed_computation_is_said_and_tried_again_later(
    kept: Counted, caplog: pytest.LogCaptureFixture
) -> None:
    kept.compute = partial(computed_apart, command=("false",))
    found = answer(kept, 1)
    assert found.failed and found.found is None
    assert "could not be computed" in caplog.text
    kept.compute = statistics
    assert kept.ask("", 1, sample).failed and not kept.waiting  # too soon
    kept.seconds = background.MIN_AGE_SECONDS
    until(lambda: not kept.ask("", 1, sample).failed, "another try")
    assert answer(kept, 1).found is not None


def test_process_that_takes_too_long_is_ended() -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        computed_apart(sample(), ("sleep", "600"), max_seconds=0.1)


ASK = f"""
import subprocess
with subprocess.Popen({list(background.COMMAND)!r}) as apart:
    print(apart.pid, flush=True)
"""


def test_process_apart_ends_with_the_process_that_started_it(repository: Path) -> None:
    reader, writer = os.pipe()  # it waits for a sample, and no end of the input ends it
    asking = subprocess.Popen(
        [sys.executable, "-c", ASK], stdin=reader, stdout=subprocess.PIPE, cwd=repository
    )
    assert asking.stdout
    pid = int(asking.stdout.readline())
    priority = partial(os.getpriority, os.PRIO_PROCESS)
    until(lambda: priority(pid) > priority(0), "the start of the process apart")
    asking.kill()
    asking.communicate()
    until(lambda: pid not in {p.pid for p in everything() if p.state != "Z"}, "its end")
    for end in (reader, writer):
        os.close(end)


def test_many_filters_at_once_start_a_bounded_number_of_computations(kept: Counted) -> None:
    with kept.one_at_a_time:
        for number in range(20):
            kept.ask(f"filter-{number}", 1, sample)
        assert len(kept.waiting) == background.MAX_WAITING
    answer(kept, 1, "filter-19")
    assert len(kept.calls) <= 20


def test_sample_that_cannot_be_read_does_not_block_its_filters(kept: Counted) -> None:

    def unreadable() -> Sample:
        raise OSError("the database is away")

    with pytest.raises(OSError, match="is away"):
        kept.ask("all", 1, unreadable)
    assert kept.waiting == set()
