"""The judge's clock: how windows become latencies, and blocks of windows a speedup with its
interval.

A block is four windows, candidate, baseline, baseline, candidate (A B B A), so that a clock that
drifts evenly moves both arms alike. The speedup of a case is exp(median of the blocks' log ratios);
its 95 % interval is a bootstrap over blocks.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from evaluation.device_kind import GPU
from evaluation.types import Interval

RESAMPLES = 2000
STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)
"""What Student's t of one, two and more degrees of freedom exceeds by chance in 2.5 %."""
EMPTY_TRIPS = {"cpu": 9, "cuda": 1}
"""On a GPU they matter only to windows that were not clocked by sight."""


@dataclass(frozen=True)
class Block:
    """Nanoseconds per launch of each arm in one A B B A block."""

    candidate: float
    baseline: float

    @property
    def log_ratio(self) -> float:
        return math.log(self.baseline / self.candidate)


@dataclass(frozen=True)
class Plan:
    """How long to measure one case: at least and at most so many blocks, until the interval is
    narrow enough.
    """

    window_seconds: float
    least_blocks: int
    most_blocks: int
    narrow: float
    """Half the width of the 95 % interval of the log speedup at which measuring stops."""
    most_seconds: float
    every_regime: bool = True
    """Measure with warm caches, and one call after the other, besides."""
    rings: int = 1
    """Measure so often, each time in memory of its own and for so many seconds."""
    looked_at_between: float = 0.0
    """So large a share of windows has one before it that is looked at (see `arrivals`)."""
    looked_at_after: int = 0
    """And so many of the candidate's come after all of them, in each of the ways there are."""


FINAL_PLAN = Plan(0.005, 9, 101, 0.003, 3.0, rings=2, looked_at_between=0.05, looked_at_after=2)
"""Many short windows: what else a machine does changes within tens of milliseconds, and takes the
less of a block the sooner its four windows follow each other.
"""
QUICK_PLAN = Plan(
    0.005, 5, 15, 0.015, 1.5, every_regime=False, looked_at_between=0.05, looked_at_after=1
)
"""For rounds, of which only the last will count, and for hidden cases, of which there are many."""
GPU_FINAL_PLAN = Plan(0.002, 5, 21, 0.004, 1.0, looked_at_between=0.4, looked_at_after=2)
GPU_QUICK_PLAN = Plan(
    0.001, 5, 9, 0.02, 0.3, every_regime=False, looked_at_between=0.15, looked_at_after=1
)
"""What is clocked by sight is known to some microseconds, so short windows say enough."""
APART = 0.05
"""Log speedups in two rings that differ by more are not both right."""
NOISY = 0.05
"""Half an interval wider than this marks a measurement as noisy."""
ROOFLINE_MARGIN = 0.8
"""A time below this share of the roofline's is disputed: what is left allows for the error of the
measured peaks.
"""


def plan_for(kind: str, final: bool) -> Plan:
    """How long to measure on a kind of device."""
    if kind == GPU:
        return GPU_FINAL_PLAN if final else GPU_QUICK_PLAN
    return FINAL_PLAN if final else QUICK_PLAN


def blocks(
    candidate: Callable[[], float], baseline: Callable[[], float], plan: Plan
) -> list[Block]:
    """Blocks of four windows, until the interval is narrow enough or the plan's time is up. Each
    call is one window and returns its nanoseconds per launch.
    """
    found: list[Block] = []
    ends = time.monotonic() + plan.most_seconds
    while len(found) < plan.most_blocks:
        a1, b1, b2, a2 = candidate(), baseline(), baseline(), candidate()
        found.append(Block((a1 + a2) / 2, (b1 + b2) / 2))
        if len(found) < plan.least_blocks:
            continue
        if half_width(speedup_of(found)) < plan.narrow or time.monotonic() > ends:
            break
    return found


def log_speedup(blocks: Sequence[Block]) -> float:
    return statistics.median(block.log_ratio for block in blocks)


def apart(rings: Sequence[Sequence[Block]]) -> float:
    """How far the log speedups of some rings lie apart; 0 for one."""
    logs = [log_speedup(blocks) for blocks in rings]
    return max(logs) - min(logs)


def unseen(candidate: Sequence[float], baseline: Sequence[float]) -> float:
    """Nanoseconds that a candidate takes longer for each window than a baseline, off the clock or
    besides its launches, where that is more than chance: three standard errors of the difference of
    medians.
    """
    difference = statistics.median(candidate) - statistics.median(baseline)
    error = math.hypot(_error_of_median(candidate), _error_of_median(baseline))
    return difference if difference > 3 * error else 0.0


def _error_of_median(values: Sequence[float]) -> float:
    """The standard error of a median, by the values' median absolute deviation from it. Source: the
    normal distribution, 1.2533 x 1.4826 of it.
    """
    middle = statistics.median(values)
    spread = statistics.median(abs(value - middle) for value in values)
    return 1.858 * spread / math.sqrt(len(values))


def less_empty(elapsed: float, empty: float) -> float:
    """A window less the least empty round trip, of which a busy machine makes many out of one.

    At most half a window is taken for empty, so that no time comes near zero.
    """
    return elapsed - min(empty, elapsed / 2)


def launches_for(times: Sequence[float], seconds: float) -> float:
    """Launches of a window for contestants that take so many nanoseconds each, the same for all:
    the fastest one's window takes `seconds`, unless the slowest one's would take over four times
    that.
    """
    target = seconds * 1e9
    return min(target / min(times), 4 * target / max(times))


def half_width(interval: Interval) -> float:
    """Half the width of an interval of the log speedup."""
    return (math.log(interval.high) - math.log(interval.low)) / 2


def speedup_of(blocks: Sequence[Block]) -> Interval:
    """The speedup of a case and its 95 % block-bootstrap interval. Source: percentile bootstrap,
    Efron 1979.
    """
    ratios = np.array([block.log_ratio for block in blocks])
    random = np.random.default_rng(len(ratios))
    medians = np.median(random.choice(ratios, (RESAMPLES, len(ratios))), axis=1)
    low, high = np.quantile(medians, (0.025, 0.975))
    middle = float(np.median(ratios))
    return Interval(math.exp(middle), math.exp(min(low, middle)), math.exp(max(high, middle)))


def combine(intervals: Sequence[Interval], drawn: Sequence[float] = ()) -> Interval | None:
    """The geometric mean over cases, with the interval of independent errors added in the log; None
    of none.

    `drawn` are the speedups of those cases among them that were drawn at random: the interval is
    that of the mean over all draws, of which this is one.
    """
    if not intervals:
        return None
    count = len(intervals)
    middle = sum(math.log(i.speedup) for i in intervals) / count
    errors = _error_of_draw(drawn)
    below = math.hypot(errors, *(math.log(i.speedup) - math.log(i.low) for i in intervals)) / count
    above = math.hypot(errors, *(math.log(i.high) - math.log(i.speedup) for i in intervals)) / count
    return Interval(math.exp(middle), math.exp(middle - below), math.exp(middle + above))


def _error_of_draw(speedups: Sequence[float]) -> float:
    """Half the 95 % interval of the sum of log speedups drawn at random; one alone tells none."""
    count = len(speedups)
    if count < 2:
        return 0.0
    deviation = statistics.stdev(math.log(speedup) for speedup in speedups)
    return STUDENT[count - 2] * deviation * math.sqrt(count)
