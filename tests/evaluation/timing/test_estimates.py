"""Windows become a speedup whose interval means what it says."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest

from evaluation.timing.estimates import (
    Block,
    combine,
    excess,
    half_width,
    less_empty,
    speedup_of,
)
from evaluation.timing.estimates import blocks as measured
from evaluation.timing.plan import Plan, launches_for, plan_for
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


def test_the_interval_is_that_of_the_mean_over_all_draws() -> None:
    """Of ten written cases and four that are drawn, over and over; the mean to find is 1.5."""
    random = np.random.default_rng(0)
    written, held = [Interval(1.5, 1.5, 1.5)] * 10, 0
    for _ in range(1000):
        drawn = [float(x) for x in 1.5 * np.exp(random.normal(0, 0.4, 4))]
        total = combine([*written, *(Interval(x, x, x) for x in drawn)], drawn)
        assert total is not None
        held += total.low <= 1.5 <= total.high
    assert 930 <= held <= 970


def test_of_a_single_draw_nothing_is_said() -> None:
    one = Interval(1.5, 1.4, 1.6)
    assert combine([one], [1.5]) == combine([one])
    alike = combine([one] * 4, [1.5] * 4)
    assert alike is not None and half_width(alike) == pytest.approx(half_width(one) / 2)


def windows(*times: float) -> Callable[[], float]:
    """A contestant whose windows take these times in turn, for ever."""
    return itertools.cycle(times).__next__


PLAN = Plan(0.001, min_blocks=5, max_blocks=9, narrow=0.01, max_seconds=60.0)


def test_a_block_is_candidate_baseline_baseline_candidate() -> None:
    asked: list[str] = []

    def window(name: str) -> Callable[[], float]:
        return lambda: asked.append(name) or {"A": 10.0, "B": 20.0}[name]  # type: ignore[func-returns-value]

    (block, *_) = measured(window("A"), window("B"), PLAN)
    assert asked[:4] == ["A", "B", "B", "A"]
    assert block == Block(10.0, 20.0)


def test_a_clock_that_drifts_evenly_moves_both_alike() -> None:
    drift = itertools.count(100)
    found = measured(lambda: float(next(drift)), lambda: float(next(drift)), PLAN)
    assert all(block.log_ratio == 0.0 for block in found)


def test_measuring_stops_as_soon_as_the_interval_is_narrow() -> None:
    assert len(measured(windows(100.0), windows(150.0), PLAN)) == PLAN.min_blocks


def test_measuring_stops_at_the_most_blocks_when_it_never_gets_narrow() -> None:
    noisy = windows(100.0, 100.0, 200.0, 200.0, 50.0, 50.0)
    assert len(measured(noisy, windows(100.0), PLAN)) == PLAN.max_blocks


def test_measuring_stops_at_its_time_but_not_before_the_least_blocks() -> None:
    noisy, late = windows(100.0, 100.0, 200.0, 200.0), dataclasses.replace(PLAN, max_seconds=0.0)
    assert len(measured(noisy, windows(100.0), late)) == PLAN.min_blocks


def test_a_gpu_is_measured_in_shorter_windows_and_the_last_round_longest() -> None:
    plans = {
        (kind, final): plan_for(kind, final) for kind in ("cpu", "gpu") for final in (False, True)
    }
    for kind in ("cpu", "gpu"):
        final, quick = plans[kind, True], plans[kind, False]
        assert final.every_regime and not quick.every_regime
        assert final.window_seconds >= quick.window_seconds and final.narrow < quick.narrow
    assert plans["gpu", True].window_seconds < plans["cpu", True].window_seconds


def test_a_window_is_long_enough_for_the_faster_and_not_too_long_for_the_slower() -> None:
    assert launches_for([1_000], 0.006) == 6_000
    assert launches_for([1_000, 3_000], 0.006) == 6_000
    assert launches_for([1_000, 60_000], 0.006) == 400, "the slower one's takes 24 ms"


def test_what_a_candidate_takes_beyond_chance_before_it_is_seen_counts() -> None:
    baseline = [500.0, 510.0, 490.0, 505.0, 495.0, 530.0, 470.0]
    assert excess(baseline, baseline) == 0.0
    assert excess([value + 5 for value in baseline], baseline) == 0.0, "no more than chance"
    assert excess([value + 200 for value in baseline], baseline) == pytest.approx(200)
    assert excess([value - 200 for value in baseline], baseline) == 0.0, "nothing is given back"


@pytest.mark.parametrize(
    ("drawn", "student"), [(2, 12.7062), (10, 2.2622), (11, 2.2281), (31, 2.0423), (101, 1.9840)]
)
def test_combine_of_drawn_cases_has_the_interval_of_their_mean(drawn: int, student: float) -> None:
    """Quantiles of Student's t from the tables of Abramowitz and Stegun."""
    speedups = [math.exp(0.1 * (-1) ** number) for number in range(drawn)]
    total = combine([Interval(x, x, x) for x in speedups], speedups)
    assert total is not None
    error = student * float(np.std(np.log(speedups), ddof=1)) / drawn**0.5
    assert math.log(total.high / total.speedup) == pytest.approx(error, rel=2e-4)
