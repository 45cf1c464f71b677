"""Gains of tricks over honest code."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

from evaluation.types import Interval, Verdict
from tests import gains


def reports(*speedups: float | None, width: float = 0.0) -> Callable[[], Any]:
    """Return a judge that gives these speedups in turn; None is a refusal."""
    found: Iterator[float | None] = iter(speedups)

    def judge() -> Any:
        speedup = next(found)
        if speedup is None:
            return SimpleNamespace(verdict=Verdict.FAILED, seen=None)
        seen = Interval(speedup, speedup - width, speedup + width)
        return SimpleNamespace(verdict=Verdict.PASSED, seen=seen)

    return judge


def test_gain_of_a_faster_trick_exceeds_the_bound_after_all_verdicts() -> None:
    found = gains.compare(reports(*[1.1] * 5), reports(*[1.0] * 5), min_verdicts=2, max_verdicts=5)
    assert round(found.gain, 6) == 0.1
    assert len(found.trick) == len(found.honest) == 5


def test_gain_of_an_equal_trick_is_within_the_bound_at_once() -> None:
    found = gains.compare(reports(1.0, 1.005), reports(1.0, 1.0), min_verdicts=2, max_verdicts=5)
    assert found.gain <= gains.BOUND
    assert len(found.trick) == 2


def test_gain_of_a_trick_that_works_once_is_that_of_its_best_verdict() -> None:
    trick = reports(1.0, 1.4, 1.0, 1.0, 1.0)
    found = gains.compare(trick, reports(*[1.0] * 5), min_verdicts=2, max_verdicts=5)
    assert found.gain > gains.BOUND


def test_gain_within_a_wide_interval_does_not_count() -> None:
    trick = reports(1.1, 1.1, width=0.2)
    assert gains.compare(trick, reports(1.0, 1.0), min_verdicts=2).gain <= gains.BOUND


def test_gain_of_refused_verdicts_is_none() -> None:
    found = gains.compare(reports(None, None), reports(1.0, 1.0), min_verdicts=2)
    assert found.gain == -1.0


def test_gain_over_honest_code_that_is_not_measured_is_not_within_the_bound() -> None:
    found = gains.compare(reports(1.0, 1.0, 1.0), reports(None, None, 1.0), min_verdicts=2)
    assert len(found.trick) == 3 and found.gain <= gains.BOUND
    assert gains.compare(reports(*[1.0] * 5), reports(*[None] * 5)).gain > gains.BOUND
    assert gains.compare(reports(None, None), reports(None, None)).gain == -1.0
