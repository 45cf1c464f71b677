"""Geometric means of speedups with 95 % intervals. Without numpy, so that web pages use it too."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from evaluation.types import Interval

STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)
"""97.5 % quantiles of Student's t for one to nine degrees of freedom."""


def half_width(interval: Interval) -> float:
    """Return half the width of the interval of the log speedup."""
    return (math.log(interval.high) - math.log(interval.low)) / 2


def geomean(intervals: Sequence[Interval]) -> Interval | None:
    """Return the geometric mean of independent speedups with its interval; None for none.

    Errors add in squares, in the log.
    """
    if not intervals:
        return None
    count = len(intervals)
    middle = sum(math.log(i.speedup) for i in intervals) / count
    below = math.hypot(*(math.log(i.speedup) - math.log(i.low) for i in intervals)) / count
    above = math.hypot(*(math.log(i.high) - math.log(i.speedup) for i in intervals)) / count
    return Interval(math.exp(middle), math.exp(middle - below), math.exp(middle + above))


def error_of_draw(speedups: Sequence[float]) -> float | None:
    """Return half the 95 % interval of the mean log speedup over all draws of a case.

    `speedups` are those of some randomly drawn cases; None for fewer than two.
    """
    count = len(speedups)
    if count < 2:
        return None
    deviation = statistics.stdev(math.log(speedup) for speedup in speedups)
    return student_t(count - 1) * deviation / math.sqrt(count)


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
