"""Stages of a verdict add up to the seconds of the parts that they belong to."""

from __future__ import annotations

import threading

import pytest

from benchmarks.stages import PARTS, STAGES, Stopwatch, watched


class Clock:
    """A clock that each reading moves on by a second."""

    def __init__(self) -> None:
        self.now = -1.0

    def __call__(self) -> float:
        self.now += 1
        return self.now


def test_stage_counts_without_those_within_it() -> None:
    stopwatch = Stopwatch(Clock())
    with (
        stopwatch.span("performance"),  # 0 to 7
        stopwatch.span(stage="a window"),  # 1 to 6
    ):
        for _ in range(2):  # 2 to 3, 4 to 5
            with stopwatch.span(stage="launch"):
                pass
    assert stopwatch.seconds == {
        ("performance", "rest"): 2,
        ("performance", "a window"): 3,
        ("performance", "launch"): 2,
    }
    assert stopwatch.calls["performance", "launch"] == 2
    *_, total = stopwatch.rows()
    assert total == ("all", "7.00", "7.00", "")


def test_part_within_another_has_its_own_column() -> None:
    stopwatch = Stopwatch(Clock())
    with stopwatch.span("performance"), stopwatch.span("staged"), stopwatch.span(stage="launch"):
        pass
    assert stopwatch.seconds == {
        ("performance", "rest"): 2,
        ("staged", "rest"): 2,
        ("staged", "launch"): 1,
    }


def test_threads_do_not_lie_within_one_another() -> None:
    stopwatch = Stopwatch(Clock())

    def prepare() -> None:
        with stopwatch.span("preparation"):
            pass

    with stopwatch.span("correctness"):
        thread = threading.Thread(target=prepare)
        thread.start()
        thread.join()
    assert stopwatch.seconds == {("preparation", "rest"): 1, ("correctness", "rest"): 3}


def test_time_outside_of_all_parts_counts_nowhere() -> None:
    stopwatch = Stopwatch()
    with stopwatch.span(stage="launch"):
        pass
    assert not stopwatch.seconds


def test_every_part_and_stage_is_a_function_and_is_restored() -> None:
    places = [place for _, place in (*PARTS, *STAGES)]
    before = [vars(owner)[name] for owner, name in places]
    with watched(Stopwatch()):
        within = [vars(owner)[name] for owner, name in places]
    assert all(a is not b for a, b in zip(before, within, strict=True))
    assert [vars(owner)[name] for owner, name in places] == before


def test_failure_is_timed_and_passed_on() -> None:
    stopwatch = Stopwatch(Clock())
    with pytest.raises(KeyError), stopwatch.span("performance"):
        raise KeyError
    assert stopwatch.seconds == {("performance", "rest"): 1}
