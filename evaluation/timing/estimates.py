"""Estimates: blocks of windows become a speedup with its interval.

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
from typing import TypeVar

import numpy as np

from evaluation.intervals import half_width
from evaluation.timing.plan import Plan
from evaluation.types import Interval

T = TypeVar("T")
RESAMPLES = 2000
MAX_DISAGREEMENT = 0.05
"""Largest difference of the log speedups of rings that agree."""
NOISY = 0.05
"""Half the width of an interval beyond which a measurement is marked as noisy."""
ROOFLINE_MARGIN = 0.8
"""Share of the roofline time below which a time is disputed. It covers errors of the peaks."""


@dataclass(frozen=True)
class Block:
    """Nanoseconds per launch of candidate and baseline in one A B B A block."""

    candidate: float
    baseline: float

    @property
    def log_ratio(self) -> float:
        return math.log(self.baseline / self.candidate)


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


def agreeing(measure: Callable[[], T], rings: int, key: Callable[[T], float]) -> list[T]:
    """Measure in `rings` rings, and return the results that agree.

    `key` gives the log speedup of a result. Where they disagree, one more ring is measured, and the
    result furthest from the median is left out.
    """
    results = [measure() for _ in range(rings)]
    logs = [key(result) for result in results]
    if max(logs) - min(logs) > MAX_DISAGREEMENT:
        results.append(measure())
        logs.append(key(results[-1]))
        middle = statistics.median(logs)
        del results[max(range(len(logs)), key=lambda number: abs(logs[number] - middle))]
    return results


def speedup_of(blocks: Sequence[Block]) -> Interval:
    """Return the speedup of a case with its 95 % interval.

    Source: percentile bootstrap over blocks, Efron 1979.
    """
    ratios = np.array([block.log_ratio for block in blocks])
    random = np.random.default_rng(len(ratios))
    medians = np.median(random.choice(ratios, (RESAMPLES, len(ratios))), axis=1)
    low, high = np.quantile(medians, (0.025, 0.975))
    middle = float(np.median(ratios))
    return Interval(math.exp(middle), math.exp(min(low, middle)), math.exp(max(high, middle)))


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
