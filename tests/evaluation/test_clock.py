"""Windows become a speedup whose interval means what it says."""

from __future__ import annotations

import math

import numpy as np
import pytest

from evaluation.clock import Block, combine, half_width, less_empty, speedup_of
from evaluation.types import Interval


def blocks(speedup: float, noise: float, count: int, seed: int) -> list[Block]:
    random = np.random.default_rng(seed)
    return [
        Block(100.0, 100.0 * speedup * math.exp(noise * random.standard_normal()))
        for _ in range(count)
    ]


def test_the_speedup_is_baseline_time_over_candidate_time() -> None:
    interval = speedup_of([Block(candidate=50.0, baseline=100.0)] * 5)
    assert interval == Interval(2.0, 2.0, 2.0)


def test_one_slow_block_does_not_move_the_speedup() -> None:
    steady = [Block(100.0, 150.0)] * 8
    assert speedup_of([*steady, Block(100.0, 15000.0)]).speedup == pytest.approx(1.5)


def test_the_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    covered = 0
    for seed in range(200):
        interval = speedup_of(blocks(1.3, 0.05, 15, seed))
        covered += interval.low <= 1.3 <= interval.high
    assert 170 <= covered <= 200


def test_a_window_is_never_nothing_but_its_round_trip() -> None:
    assert less_empty(1_000_000, 50_000) == 950_000
    assert less_empty(40_000, 50_000) == 20_000


def test_more_blocks_narrow_the_interval() -> None:
    few, many = (half_width(speedup_of(blocks(1.3, 0.05, n, seed=1))) for n in (7, 200))
    assert many < few / 2


def test_a_task_is_the_geometric_mean_of_its_cases() -> None:
    total = combine([Interval(2.0, 2.0, 2.0), Interval(0.5, 0.5, 0.5)])
    assert total is not None
    assert total.speedup == pytest.approx(1.0)
    assert combine([]) is None


def test_errors_of_independent_cases_partly_cancel() -> None:
    one = Interval(1.0, math.exp(-0.1), math.exp(0.1))
    total = combine([one] * 4)
    assert total is not None
    assert half_width(total) == pytest.approx(0.05)
    assert total.low < 1.0 < total.high
