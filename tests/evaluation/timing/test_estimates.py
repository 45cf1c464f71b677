"""Blocks of windows become a speedup with a 95 % interval."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest

from evaluation.intervals import half_width
from evaluation.timing import estimates
from evaluation.timing.estimates import Block, agreeing, excess, speedup_of
from evaluation.timing.plan import Plan
from evaluation.types import Interval

PLAN = Plan(0.001, min_blocks=5, max_blocks=9, narrow=0.01, max_seconds=60.0)


def noisy_blocks(speedup: float, noise: float, count: int, seed: int) -> list[Block]:
    random = np.random.default_rng(seed)
    return [
        Block(100.0, 100.0 * speedup * math.exp(noise * random.standard_normal()))
        for _ in range(count)
    ]


def windows(*times: float) -> Callable[[], float]:
    """Return a process whose windows take these times in turn, for ever."""
    return itertools.cycle(times).__next__


def test_speedup_is_baseline_time_over_candidate_time() -> None:
    interval = speedup_of([Block(candidate=50.0, baseline=100.0)] * 5)
    assert interval == Interval(2.0, 2.0, 2.0)


def test_speedup_with_one_slow_block_stays() -> None:
    steady = [Block(100.0, 150.0)] * 8
    assert speedup_of([*steady, Block(100.0, 15000.0)]).speedup == pytest.approx(1.5)


def test_interval_of_noisy_blocks_covers_the_true_speedup_at_its_rate() -> None:
    covered = 0
    for seed in range(200):
        interval = speedup_of(noisy_blocks(1.3, 0.05, 15, seed))
        covered += interval.low <= 1.3 <= interval.high
    assert 170 <= covered <= 200


def test_interval_of_more_blocks_is_narrower() -> None:
    few, many = (half_width(speedup_of(noisy_blocks(1.3, 0.05, n, seed=1))) for n in (7, 200))
    assert many < few / 2


def test_block_runs_candidate_baseline_baseline_candidate() -> None:
    order: list[str] = []

    def window(name: str) -> Callable[[], float]:
        return lambda: order.append(name) or {"A": 10.0, "B": 20.0}[name]  # type: ignore[func-returns-value]

    (block, *_) = estimates.blocks(window("A"), window("B"), PLAN)
    assert order[:4] == ["A", "B", "B", "A"]
    assert block == Block(10.0, 20.0)


def test_block_of_a_clock_that_drifts_evenly_has_no_speedup() -> None:
    drift = itertools.count(100)
    found = estimates.blocks(lambda: float(next(drift)), lambda: float(next(drift)), PLAN)
    assert all(block.log_ratio == 0.0 for block in found)


def test_blocks_with_a_narrow_interval_stop_at_the_minimum() -> None:
    assert len(estimates.blocks(windows(100.0), windows(150.0), PLAN)) == PLAN.min_blocks


def test_blocks_with_a_wide_interval_stop_at_the_maximum() -> None:
    noisy = windows(100.0, 100.0, 200.0, 200.0, 50.0, 50.0)
    assert len(estimates.blocks(noisy, windows(100.0), PLAN)) == PLAN.max_blocks


def test_blocks_beyond_their_time_stop_at_the_minimum() -> None:
    noisy, late = windows(100.0, 100.0, 200.0, 200.0), dataclasses.replace(PLAN, max_seconds=0.0)
    assert len(estimates.blocks(noisy, windows(100.0), late)) == PLAN.min_blocks


def agreeing_speedups(rings: int, *speedups: float) -> list[float]:
    """Return the speedups that count of rings with these, all of which must be needed."""
    given = list(speedups)
    results = agreeing(lambda: given.pop(0), rings, math.log)
    assert not given
    return results


def test_rings_that_agree_all_count() -> None:
    assert agreeing_speedups(2, 2.0, 2.06) == [2.0, 2.06]


@pytest.mark.parametrize(
    ("speedups", "kept"),
    [
        ([2.0, 3.0, 2.05], [2.0, 2.05]),
        ([3.0, 2.0, 2.05], [2.0, 2.05]),
        ([2.0, 0.5, 2.0], [2.0] * 2),
    ],
)
def test_rings_that_disagree_lose_the_odd_one(speedups: list[float], kept: list[float]) -> None:
    assert agreeing_speedups(2, *speedups) == pytest.approx(kept)


def test_single_ring_counts() -> None:
    assert agreeing_speedups(1, 3.0) == [3.0]


def test_excess_of_a_candidate_counts_only_beyond_chance() -> None:
    baseline = [500.0, 510.0, 490.0, 505.0, 495.0, 530.0, 470.0]
    assert excess(baseline, baseline) == 0.0
    assert excess([value + 5 for value in baseline], baseline) == 0.0, "no more than chance"
    assert excess([value + 200 for value in baseline], baseline) == pytest.approx(200)
    assert excess([value - 200 for value in baseline], baseline) == 0.0, "never negative"
