"""Tests of the spread across devices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from arena.leaderboard.analysis.estimates import NotEnough
from arena.leaderboard.analysis.spread import Spread, spread

Row = tuple[int, int, float, str]


def compared(rows: list[Row]) -> Spread:
    found = spread(*columns(rows))
    assert isinstance(found, Spread)
    return found


def columns(rows: list[Row]) -> tuple[Any, ...]:
    entry, device, speedup, category = zip(*rows, strict=True)
    return np.array(entry), np.array(device), np.log(speedup), category


def test_spread_is_the_highest_speedup_over_the_lowest() -> None:
    found = compared(
        [
            (1, 7, 2.0, "a"), (1, 8, 1.0, "a"), (1, 9, 4.0, "a"),
            (2, 7, 3.0, "b"), (2, 8, 2.0, "b"),
            (3, 7, 9.0, "a"),
        ]
    )  # fmt: skip
    assert (found.devices, found.median.count) == (3, 2)
    assert found.median.value == pytest.approx((4.0 + 1.5) / 2)
    assert found.median.low is None  # of two results
    assert [(name, each.count, each.value) for name, each in found.categories] == [
        ("a", 1, pytest.approx(4.0)), ("b", 1, pytest.approx(1.5)),
    ]  # fmt: skip
    assert found.mixed.count == 0 and found.mixed.total == 2


def test_repeats_on_one_device_share_a_result() -> None:
    found = compared([(1, 7, 1.0, "a"), (1, 7, 4.0, "a"), (1, 8, 6.0, "a")])
    assert found.median.value == pytest.approx(3.0)


def test_result_faster_here_and_slower_there_is_mixed() -> None:
    found = compared(
        [(1, 7, 2.0, "a"), (1, 8, 0.5, "a"), (2, 7, 2.0, "a"), (2, 8, 1.0, "a")]
    )  # fmt: skip
    assert (found.mixed.count, found.mixed.total) == (1, 2)


def test_pair_has_the_statistics_of_the_results_that_both_devices_have() -> None:
    dice = np.random.default_rng(2)
    first = dice.normal(0.5, 0.4, 30)
    second = 0.8 * first + dice.normal(0, 0.1, 30)
    rows: list[Row] = [(n, 7, float(np.exp(x)), "a") for n, x in enumerate(first)]
    rows += [(n, 8, float(np.exp(x)), "a") for n, x in enumerate(second)]
    rows += [(50, 7, 5.0, "a"), (50, 9, 1.0, "a")]
    pair, other = compared(rows).pairs
    assert (pair.first, pair.second, pair.ratio.count) == (7, 8, 30)
    paired = stats.ttest_rel(first, second).confidence_interval()
    assert pair.ratio.value == pytest.approx(np.exp(np.mean(first - second)))
    assert (pair.ratio.low, pair.ratio.high) == pytest.approx(tuple(np.exp(paired)))
    assert pair.correlation is not None
    fisher = np.arctanh(np.corrcoef(first, second)[0, 1]) + np.array([-1, 1]) * 1.959964 / 27**0.5
    assert (pair.correlation.low, pair.correlation.high) == pytest.approx(tuple(np.tanh(fisher)))
    assert (other.first, other.second, other.correlation) == (7, 9, None)
    assert other.ratio.value == pytest.approx(5.0) and other.ratio.low is None


def test_results_of_one_device_give_a_reason() -> None:
    found = spread(*columns([(1, 7, 2.0, "a"), (2, 8, 1.0, "a")]))
    assert isinstance(found, NotEnough) and "two devices" in found.reason
    assert isinstance(spread(np.zeros(0), np.zeros(0), np.zeros(0), []), NotEnough)
