"""Estimates: window times become latencies, and blocks of windows a speedup with its interval.

A block is four windows, candidate, baseline, baseline, candidate (A B B A), so that a clock that
drifts evenly moves both alike. The speedup of a case is exp(median of the blocks' log ratios). Its
95 % interval is a bootstrap over blocks.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from evaluation.timing.plan import Plan
from evaluation.types import Interval

RESAMPLES = 2000
STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)
"""Quantiles of Student's t for one to nine degrees of freedom, exceeded by chance in 2.5 %."""
EMPTY_TRIPS = {"cpu": 9, "cuda": 1}
"""Empty windows timed by device. On a GPU only windows without a GPU clock need them."""


@dataclass(frozen=True)
class Block:
    """Nanoseconds per launch of candidate and baseline in one A B B A block."""

    candidate: float
    baseline: float

    @property
    def log_ratio(self) -> float:
        return math.log(self.baseline / self.candidate)


APART = 0.05
"""Largest difference of the log speedups of two rings that are both trusted."""
NOISY = 0.05
"""Half the width of an interval beyond which a measurement is marked as noisy."""
ROOFLINE_MARGIN = 0.8
"""A time below this share of the roofline time is disputed; the margin covers errors of the peaks.
"""


def blocks(
    candidate: Callable[[], float], baseline: Callable[[], float], plan: Plan
) -> list[Block]:
    """Measure blocks until the interval is narrow enough or the plan's time is over.

    Each call runs one window and returns its nanoseconds per launch.
    """
    found: list[Block] = []
    ends = time.monotonic() + plan.max_seconds
    while len(found) < plan.max_blocks:
        a1, b1, b2, a2 = candidate(), baseline(), baseline(), candidate()
        found.append(Block((a1 + a2) / 2, (b1 + b2) / 2))
        if len(found) < plan.min_blocks:
            continue
        if half_width(speedup_of(found)) < plan.narrow or time.monotonic() > ends:
            break
    return found


def log_speedup(blocks: Sequence[Block]) -> float:
    return statistics.median(block.log_ratio for block in blocks)


def apart(rings: Sequence[Sequence[Block]]) -> float:
    """Return the largest difference between the log speedups of some rings; 0 for one."""
    logs = [log_speedup(blocks) for blocks in rings]
    return max(logs) - min(logs)


def excess(candidate: Sequence[float], baseline: Sequence[float]) -> float:
    """Return the nanoseconds by which a candidate's overhead exceeds a baseline's, beyond chance.

    Beyond chance is more than three standard errors of the difference of medians.
    """
    difference = statistics.median(candidate) - statistics.median(baseline)
    error = math.hypot(_error_of_median(candidate), _error_of_median(baseline))
    return difference if difference > 3 * error else 0.0


def _error_of_median(values: Sequence[float]) -> float:
    """Return the standard error of a median, from the median absolute deviation.

    Source: the normal distribution, 1.2533 x 1.4826 of the deviation.
    """
    middle = statistics.median(values)
    spread = statistics.median(abs(value - middle) for value in values)
    return 1.858 * spread / math.sqrt(len(values))


def less_empty(elapsed: float, empty: float) -> float:
    """Return a window's time without that of an empty window.

    At most half of it is subtracted, so that no time comes near zero.
    """
    return elapsed - min(empty, elapsed / 2)


def half_width(interval: Interval) -> float:
    """Return half the width of the interval of the log speedup."""
    return (math.log(interval.high) - math.log(interval.low)) / 2


def speedup_of(blocks: Sequence[Block]) -> Interval:
    """Return the speedup of a case with its 95 % block-bootstrap interval.

    Source: percentile bootstrap, Efron 1979.
    """
    ratios = np.array([block.log_ratio for block in blocks])
    random = np.random.default_rng(len(ratios))
    medians = np.median(random.choice(ratios, (RESAMPLES, len(ratios))), axis=1)
    low, high = np.quantile(medians, (0.025, 0.975))
    middle = float(np.median(ratios))
    return Interval(math.exp(middle), math.exp(min(low, middle)), math.exp(max(high, middle)))


def combine(intervals: Sequence[Interval], drawn: Sequence[float] = ()) -> Interval | None:
    """Return the geometric mean over cases with the combined interval; None without cases.

    Errors are independent and add in the log. `drawn` are the speedups of the cases that were drawn
    at random: the interval is then that of the mean over all draws.
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
    """Return half the 95 % interval of the sum of log speedups drawn at random; 0 for fewer than
    two.
    """
    count = len(speedups)
    if count < 2:
        return 0.0
    deviation = statistics.stdev(math.log(speedup) for speedup in speedups)
    return student_t(count - 1) * deviation * math.sqrt(count)


def student_t(freedom: int) -> float:
    """Return the 97.5 % quantile of Student's t with `freedom` degrees of freedom, to 0.01 %.

    Source: Abramowitz and Stegun, "Handbook of Mathematical Functions", table 26.10 and 26.7.5.
    """
    if freedom <= len(STUDENT):
        return STUDENT[freedom - 1]
    z = 1.959964
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / freedom + second / freedom**2 + third / freedom**3
