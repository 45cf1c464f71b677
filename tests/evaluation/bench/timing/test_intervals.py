"""Geometric means of speedups and their intervals."""

from __future__ import annotations

import math

import numpy as np
import pytest

from evaluation.bench.timing.intervals import error_of_draw, geomean, half_width
from evaluation.types import Interval


def test_geomean_of_two_and_a_half_is_one() -> None:
    total = geomean([Interval(2.0, 2.0, 2.0), Interval(0.5, 0.5, 0.5)])
    assert total is not None
    assert total.speedup == pytest.approx(1.0)


def test_geomean_without_cases_is_none() -> None:
    assert geomean([]) is None


def test_geomean_of_independent_cases_cancels_part_of_their_errors() -> None:
    one = Interval(1.0, math.exp(-0.1), math.exp(0.1))
    total = geomean([one] * 4)
    assert total is not None
    assert half_width(total) == pytest.approx(0.05)
    assert total.low < 1.0 < total.high


def test_error_of_draw_covers_the_mean_over_all_draws() -> None:
    """Four drawn cases, a thousand times; the mean is 1.5."""
    random, covered = np.random.default_rng(0), 0
    for _ in range(1000):
        drawn = [float(x) for x in 1.5 * np.exp(random.normal(0, 0.4, 4))]
        error = error_of_draw(drawn)
        assert error is not None
        covered += abs(float(np.mean(np.log(drawn))) - math.log(1.5)) <= error
    assert 930 <= covered <= 970


def test_error_of_draw_is_unknown_for_one_case_and_none_for_equal_ones() -> None:
    assert error_of_draw([]) is None and error_of_draw([1.5]) is None
    assert error_of_draw([1.5] * 4) == 0


@pytest.mark.parametrize(
    ("drawn", "student"), [(2, 12.7062), (10, 2.2622), (11, 2.2281), (31, 2.0423), (101, 1.9840)]
)
def test_error_of_draw_uses_the_quantile_of_student(drawn: int, student: float) -> None:
    """Quantiles of Student's t from the tables of Abramowitz and Stegun."""
    speedups = [math.exp(0.1 * (-1) ** number) for number in range(drawn)]
    error = student * float(np.std(np.log(speedups), ddof=1)) / drawn**0.5
    assert error_of_draw(speedups) == pytest.approx(error, rel=2e-4)
