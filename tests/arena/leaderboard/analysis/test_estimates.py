"""Tests of shares, means and medians with intervals."""

from __future__ import annotations

import math

import numpy as np
import pytest

from arena.leaderboard.analysis.estimates import (
    geometric_mean,
    median,
    proportions,
    ratio_of_means,
)

Z, STUDENT_2 = 1.959964, 4.302653
"""97.5% quantiles of the normal distribution and of Student's t with two degrees of freedom."""


def test_proportion_has_the_interval_of_wilson() -> None:
    [found] = proportions(np.array([7]), np.array([10]))
    middle, root = 0.7 + Z**2 / 20, Z * math.sqrt(0.7 * 0.3 / 10 + Z**2 / 400)
    assert found.share == 0.7
    assert found.low == pytest.approx((middle - root) / (1 + Z**2 / 10), rel=1e-6)
    assert found.high == pytest.approx((middle + root) / (1 + Z**2 / 10), rel=1e-6)


def test_proportion_of_all_or_none_stays_between_zero_and_one() -> None:
    none, every = proportions(np.array([0, 4]), np.array([4, 4]))
    assert (none.low, every.high) == (0, 1)
    assert none.high == pytest.approx(1 - every.low) and 0.4 < none.high < 0.6
    assert proportions(np.array([], int), np.array([], int)) == []


def test_geometric_mean_has_the_interval_of_student() -> None:
    logs = np.log([1.0, 2.0, 4.0])
    found = geometric_mean(np.append(logs, np.nan))
    assert found is not None
    assert (found.count, found.value) == (3, pytest.approx(2.0))
    half = STUDENT_2 * math.log(2) / math.sqrt(3)
    assert found.low == pytest.approx(2 * math.exp(-half), rel=1e-5)
    assert found.high == pytest.approx(2 * math.exp(half), rel=1e-5)


def test_geometric_mean_of_one_value_or_equal_values_has_no_interval() -> None:
    for logs in (np.zeros(1), np.zeros(5)):
        found = geometric_mean(logs)
        assert found is not None
        assert (found.count, found.value, found.low) == (len(logs), 1.0, None)
    assert geometric_mean(np.array([np.nan])) is None


def test_ratio_of_means_has_the_interval_of_welch() -> None:
    """Two samples of three with equal spread: four degrees of freedom, quantile 2.776445."""
    found = ratio_of_means(np.log([2.0, 4.0, 8.0]), np.log([1.0, 2.0, 4.0]))
    assert found is not None
    half = 2.776445 * math.log(2) * math.sqrt(2 / 3)
    assert (found.count, found.value) == (6, pytest.approx(2.0))
    assert found.high == pytest.approx(2 * math.exp(half), rel=1e-5)
    assert ratio_of_means(np.zeros(1), np.zeros(9)) is None


def test_median_of_few_values_has_no_interval() -> None:
    assert median(np.array([])) is None
    few, many = median(np.arange(9.0)), median(np.arange(101.0))
    assert few is not None and many is not None
    assert (few.count, few.value, few.low) == (9, 4.0, None)
    assert many.low is not None and many.high is not None
    assert 35 < many.low < many.value == 50 < many.high < 65
