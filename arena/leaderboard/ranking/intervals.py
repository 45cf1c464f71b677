"""Arithmetic on speedups with 95% confidence intervals, done in log space.

The interval of a verdict covers the variation within it, and how far verdicts on a case typically
lie from their mean. `measured` widens it by the variation from one verdict to the next, so that
runs and agents can be compared; the result is too wide rather than too narrow.
"""

from __future__ import annotations

import math

from evaluation.types import Interval

RUN_LOG_STD, CASE_LOG_STD = 0.004, 0.006
"""Standard deviation of the log speedup from one verdict to the next, of a submission and of one
case. Source: 53 runs on H200 (0.4% and 0.6%) and ten verdicts on a CPU (0.4% and 1.2%).
"""
Z_95 = 1.96


def measured(
    speedup: float, low: float | None, high: float | None, log_std: float = RUN_LOG_STD
) -> Interval:
    """Return the speedup of one verdict, its interval widened by the verdict-to-verdict spread."""
    below, above = (
        math.hypot(math.log(max(ratio, 1.0)), Z_95 * log_std)
        for ratio in (speedup / (low or speedup), (high or speedup) / speedup)
    )
    return Interval(speedup, speedup * math.exp(-below), speedup * math.exp(above))


def ratio(one: Interval, other: Interval) -> Interval:
    """Return the ratio of two independent speedups."""
    below = math.hypot(math.log(one.speedup / one.low), math.log(other.high / other.speedup))
    above = math.hypot(math.log(one.high / one.speedup), math.log(other.speedup / other.low))
    speedup = one.speedup / other.speedup
    return Interval(speedup, speedup * math.exp(-below), speedup * math.exp(above))


def faster(first: str, second: str, over: Interval) -> str:
    """Describe in words which of two is faster, given the speed of the second over the first."""
    if over.low <= 1 <= over.high:
        return f"{second} and {first} do not differ significantly"
    if over.speedup > 1:
        return f"{second} is {over.speedup:.2f} times as fast as {first}"
    return f"{first} is {1 / over.speedup:.2f} times as fast as {second}"
