"""Blocks of windows become a speedup with a 95 % interval."""

from __future__ import annotations

import dataclasses
import itertools
import math
import random
from collections.abc import Callable

import numpy as np
import pytest

from evaluation.bench.timing import estimates
from evaluation.bench.timing.estimates import (
    MAX_OWN_DISTURBANCES,
    MAX_TRIES,
    Block,
    Blocks,
    Wait,
    Window,
    excess,
    robust_spread,
    speedup_of,
)
from evaluation.bench.timing.intervals import half_width
from evaluation.bench.timing.plan import CPU_SPREAD, GPU_SPREAD, Plan, Spread

SPREAD = Spread(of_blocks=0.01, of_verdicts=0.005)
PLAN = Plan(0.001, min_blocks=10, max_blocks=18, narrow=0.02, max_seconds=60.0, spread=SPREAD)


def noisy_blocks(speedup: float, noise: float, count: int, seed: int) -> list[Block]:
    drawn = np.random.default_rng(seed)
    return [
        Block(100.0, 100.0 * speedup * math.exp(noise * drawn.standard_normal()))
        for _ in range(count)
    ]


def windows(*times: float) -> Callable[[], Window]:
    """Return a process whose windows take these times in turn, for ever; negative: disturbed.

    In those a thread of the judge waits a million times as long.
    """
    waits = {time: Wait("judge", -1e6 * time) for time in times if time < 0}
    return (Window(abs(time), waits.get(time)) for time in itertools.cycle(times)).__next__


def test_speedup_is_baseline_time_over_candidate_time() -> None:
    interval = speedup_of([Block(candidate=50.0, baseline=100.0)] * 5, SPREAD)
    assert interval.speedup == pytest.approx(2.0)
    assert interval.low < 2.0 < interval.high
    assert interval.low * interval.high == pytest.approx(2.0**2), "symmetric in the log"


def test_speedup_with_one_slow_block_stays() -> None:
    steady = [Block(100.0, 150.0)] * 8
    found = speedup_of([*steady, Block(100.0, 15000.0)], SPREAD)
    assert found.speedup == pytest.approx(1.5)


@pytest.mark.parametrize(
    ("ratios", "quantile", "variance"),
    [
        # Two blocks: 1.4826 * 1.196 * 0.02 is their spread; 6 * 0.01 ** 2 is the typical one's.
        ([0.28, 0.32], 2.365, (0.0354639**2 + 0.0006) / 7),
        # Three, and more: the variance of a median is pi / 2 times that of a mean.
        ([0.27, 0.3, 0.33], 2.306, (2 * 0.0664946**2 + 0.0006) / 8 * math.pi / 2),
        ([0.29, 0.31] * 10, 2.060, (19 * 0.0154437**2 + 0.0006) / 25 * math.pi / 2),
        # One far block of many does not count.
        ([0.3] * 19 + [9.0], 2.060, 0.0006 / 25 * math.pi / 2),
        # Without any variation the typical one of the device remains: 6 * 0.01 ** 2.
        ([0.3, 0.3], 2.365, 0.0006 / 7),
        ([0.3] * 20, 2.060, 0.0006 / 25 * math.pi / 2),
    ],
)
def test_half_width_of_an_interval_is_the_moderated_error_times_its_quantile(
    ratios: list[float], quantile: float, variance: float
) -> None:
    blocks = [Block(100.0, 100.0 * math.exp(ratio)) for ratio in ratios]
    expected = quantile * math.sqrt(variance / len(ratios) + 0.005**2)
    found = speedup_of(blocks, SPREAD)
    assert half_width(found) == pytest.approx(expected, rel=3e-4)
    assert math.log(found.speedup) == pytest.approx(0.3)


@pytest.mark.parametrize("spread", [CPU_SPREAD, GPU_SPREAD], ids=["cpu", "gpu"])
@pytest.mark.parametrize("count", [2, 3, 9])
def test_interval_covers_the_speedup_of_another_verdict_at_its_rate(
    spread: Spread, count: int
) -> None:
    random, covered, turns = np.random.default_rng(count), 0, 1000
    for seed in range(turns):
        offset = math.exp(spread.of_verdicts * random.standard_normal())
        interval = speedup_of(noisy_blocks(1.3 * offset, spread.of_blocks, count, seed), spread)
        covered += interval.low <= 1.3 <= interval.high
    assert 0.92 * turns <= covered <= 0.995 * turns


def test_interval_of_more_blocks_is_narrower_down_to_that_of_verdicts() -> None:
    few, many = (
        half_width(speedup_of(noisy_blocks(1.3, 0.05, count, seed=1), SPREAD))
        for count in (7, 4000)
    )
    assert many < few / 2
    assert many == pytest.approx(1.96 * SPREAD.of_verdicts, rel=0.03)


def test_robust_spread_of_normal_values_is_their_standard_deviation() -> None:
    random = np.random.default_rng(0)
    for count in (2, 3, 5, 9, 10, 40):
        spreads = [robust_spread(list(random.standard_normal(count))) for _ in range(4000)]
        assert 0.9 < sum(spreads) / len(spreads) < 1.1, count


def test_blocks_run_candidate_baseline_and_baseline_candidate() -> None:
    order: list[str] = []

    def window(name: str) -> Callable[[], Window]:
        def run() -> Window:
            order.append(name)
            return Window({"A": 10.0, "B": 20.0}[name])

        return run

    found = estimates.blocks(window("A"), window("B"), PLAN)
    assert order[:4] == ["A", "B", "B", "A"]
    assert found.counted[:2] == [Block(10.0, 20.0)] * 2


def test_blocks_of_a_clock_that_drifts_evenly_have_no_speedup() -> None:
    drift = itertools.count(1000)

    def window() -> Window:
        return Window(float(next(drift)))

    found = estimates.blocks(window, window, PLAN)
    assert speedup_of(found.counted, SPREAD).speedup == pytest.approx(1.0, abs=1e-4)


def test_blocks_with_a_narrow_interval_stop_at_the_minimum() -> None:
    found = estimates.blocks(windows(100.0), windows(150.0), PLAN)
    assert len(found.counted) == PLAN.min_blocks and found.disturbed == 0


def test_blocks_with_a_wide_interval_stop_at_the_maximum() -> None:
    noisy = windows(100.0, 100.0, 200.0, 200.0, 50.0, 50.0)
    assert len(estimates.blocks(noisy, windows(100.0), PLAN).counted) == PLAN.max_blocks


def test_blocks_beyond_their_time_stop_at_the_minimum() -> None:
    noisy, late = windows(100.0, 100.0, 200.0, 200.0), dataclasses.replace(PLAN, max_seconds=0.0)
    assert len(estimates.blocks(noisy, windows(100.0), late).counted) == PLAN.min_blocks


def test_disturbed_windows_of_both_sides_are_run_again() -> None:
    candidate = windows(100.0, 100.0, -300.0, 100.0)
    baseline = windows(150.0, 150.0, 150.0, -450.0)
    found = estimates.blocks(candidate, baseline, PLAN)
    assert len(found.counted) == PLAN.min_blocks and found.disturbed == 0 and found.waits
    assert set(found.counted) == {Block(100.0, 150.0)}


def test_blocks_in_which_a_window_stays_disturbed_are_left_out_and_measured_again() -> None:
    candidate = windows(*[100.0] * 3, *[-300.0] * MAX_TRIES)
    baseline = windows(*[150.0] * 3, *[-450.0] * MAX_TRIES)
    found = estimates.blocks(candidate, baseline, dataclasses.replace(PLAN, patience_seconds=60.0))
    assert (len(found.counted), found.disturbed) == (11, 3)
    assert set(found.counted) == {Block(100.0, 150.0)}


def test_half_of_all_windows_disturbed_leave_out_few_blocks() -> None:
    drawn = random.Random(1)

    def window() -> Window:
        return Window(100.0, Wait("judge", 3e6) if drawn.random() < 0.5 else None)

    many = dataclasses.replace(PLAN, min_blocks=200, max_blocks=200, patience_seconds=60.0)
    found = estimates.blocks(window, window, many)
    assert len(found.counted) >= 200 and found.disturbed < 100


def test_blocks_of_a_busy_machine_end_when_patience_is_over() -> None:
    hurried = dataclasses.replace(PLAN, max_seconds=0.0, patience_seconds=0.0)
    found = estimates.blocks(windows(-100.0), windows(-100.0), hurried)
    assert not found.counted and found.disturbed == 2
    assert found.text == (
        "2 of 2 pairs of windows were disturbed: in 12 windows a thread of the judge waited for a "
        "core, 100.00 ms in the median"
    )


def test_text_of_disturbed_blocks_names_the_process_delayed_in_the_majority() -> None:
    waits = [
        Wait("judge", 9e6),
        Wait("baseline", 1e6),
        Wait("baseline", 2e6),
        Wait("baseline", 4e6),
    ]
    text = Blocks([Block(1.0, 1.0)], disturbed=3, waits=waits).text
    assert text == (
        "3 of 4 pairs of windows were disturbed: in 3 windows a thread of the baseline waited for "
        "a core, 2.00 ms in the median"
    )


def test_void_blocks_have_their_reason_as_text() -> None:
    found = Blocks([Block(1.0, 1.0)], disturbed=1, waits=[Wait("judge", 1e6)]).void("of a reason")
    assert not found.counted and found.text == "of a reason"


def test_disturbed_blocks_that_count_are_measured_up_to_the_minimum() -> None:
    hurried = dataclasses.replace(PLAN, max_seconds=0.0, patience_seconds=0.0)
    found = estimates.blocks(windows(-100.0), windows(100.0), hurried, tolerant=True)
    assert len(found.counted) == PLAN.min_blocks > 2


def test_candidate_that_disturbs_its_own_slow_windows_cannot_have_them_left_out() -> None:
    """Its own threads wait for each other in one of two windows, which is the slow one."""
    candidate, baseline = windows(-200.0, 100.0), windows(100.0)
    found = estimates.blocks(candidate, baseline, PLAN)
    assert len(found.waits) == MAX_OWN_DISTURBANCES
    assert sum(block.candidate == 200.0 for block in found.counted) >= 3


EVEN = [500.0, 510.0, 490.0, 505.0, 495.0, 530.0, 470.0]


def test_excess_of_a_candidate_counts_only_beyond_chance() -> None:
    def charged(more: float) -> float:
        return excess([value + more for value in EVEN], EVEN, 15.0, 1000.0).charged_ns

    assert charged(0) == charged(5) == 0.0, "no more than chance"
    assert charged(200) == pytest.approx(200)
    assert charged(-200) == 0.0, "never negative"


def test_excess_beyond_the_most_is_charged_for_any_error() -> None:
    assert excess([value + 20 for value in EVEN], EVEN, 15.0, 25.0).charged_ns == 0.0
    undecided = excess([value + 20 for value in EVEN], EVEN, 15.0, 15.0)
    assert undecided.charged_ns == pytest.approx(20) and undecided.is_undecided
    assert not excess([value + 200 for value in EVEN], EVEN, 15.0, 15.0).is_undecided


def test_excess_of_a_candidate_with_a_wide_spread_counts() -> None:
    """Its own spread does not make its excess a chance, nor one that it gives the baseline."""
    wide = [value + 200 + 400 * (number % 2) for number, value in enumerate(EVEN)]
    assert excess(wide, EVEN, 15.0, 1000.0).charged_ns >= 200
    disturbed = [value + 400 * (number % 2) for number, value in enumerate(EVEN)]
    assert excess([value + 200 for value in disturbed], disturbed, 15.0, 1000.0).charged_ns >= 200


def test_tolerated_blocks_count_and_are_told_apart() -> None:
    found = estimates.blocks(windows(-100.0), windows(-150.0), PLAN, tolerant=True)
    assert len(found.counted) == found.disturbed == PLAN.min_blocks
