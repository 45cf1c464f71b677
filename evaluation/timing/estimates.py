"""Estimates: blocks of windows become a speedup with its interval.

A block is four windows, candidate, baseline, baseline, candidate (A B B A), so that a clock that
drifts evenly moves both alike. The speedup of a case is exp(median of the blocks' log ratios).
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from evaluation.intervals import half_width, student_t
from evaluation.timing.plan import Plan, Spread
from evaluation.types import Interval

PRIOR_FREEDOM = 6
"""Degrees of freedom that the typical spread of a device's blocks counts for."""
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
        if half_width(speedup_of(found, plan.spread)) < plan.narrow or time.monotonic() > ends:
            break
    return found


def speedup_of(blocks: Sequence[Block], spread: Spread) -> Interval:
    """Return the speedup of a case with its 95 % interval.

    It covers the variation within the verdict, and how far verdicts on one submission typically lie
    from their mean on the device.

    The variance of few blocks is moderated by the typical one of the device, and is never less than
    their own. Source: Smyth, "Linear models and empirical Bayes methods", 2004. The variance of a
    median is pi / 2 times that of a mean.
    """
    ratios = [block.log_ratio for block in blocks]
    middle, own = statistics.median(ratios), len(ratios) - 1
    squares = sum((ratio - statistics.fmean(ratios)) ** 2 for ratio in ratios)
    freedom = own + PRIOR_FREEDOM
    moderated = (squares + PRIOR_FREEDOM * spread.of_blocks**2) / freedom
    variance = max(moderated, squares / own) if own else moderated
    of_middle = variance / len(ratios) * (math.pi / 2 if own > 1 else 1)
    error = math.sqrt(of_middle + spread.of_verdicts**2)
    half = student_t(freedom) * error
    return Interval(math.exp(middle), math.exp(middle - half), math.exp(middle + half))


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
