"""Measurement plans: the length and number of windows, by kind of device."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from evaluation.device_kind import GPU

SLOW_WINDOWS, MIN_SLOW_BLOCKS = 8, 2
"""A baseline is slow whose windows take this many times what is planned. Its blocks, at least."""


@dataclass(frozen=True)
class Spread:
    """Variation of log speedups on a kind of device, measured over many cases."""

    of_blocks: float
    """Typical standard deviation of the blocks of one case."""
    of_verdicts: float
    """Standard deviation of a case between verdicts, however many blocks each has."""


CPU_SPREAD, GPU_SPREAD = Spread(0.02, 0.006), Spread(0.006, 0.002)


@dataclass(frozen=True)
class Plan:
    """Extent of the measurement of one case.

    It ends between `min_blocks` and `max_blocks`, when the interval is narrow enough or
    `max_seconds` are over.
    """

    window_seconds: float
    min_blocks: int
    max_blocks: int
    narrow: float
    """Half the width of the 95 % interval of the log speedup at which measuring stops."""
    max_seconds: float
    spread: Spread
    patience_seconds: float = 0.0
    """Further seconds to reach `min_blocks` while other work on the machine disturbs blocks."""
    every_regime: bool = True
    """Whether to measure with warm caches, and without a CUDA graph, too."""

    def of(self, blocks: int) -> Plan:
        """Return the plan for exactly so many blocks."""
        return dataclasses.replace(self, min_blocks=blocks, max_blocks=blocks)

    def for_windows(self, seconds: float) -> Plan:
        """Return the plan for a baseline whose windows take so long: fewer blocks if they are slow.

        A window far longer than planned varies less, so that a few are as precise. The candidate's
        own time changes nothing.
        """
        slow = seconds > SLOW_WINDOWS * self.window_seconds
        fitting = int(self.max_seconds / seconds) if slow else self.min_blocks
        return dataclasses.replace(
            self, min_blocks=min(self.min_blocks, max(MIN_SLOW_BLOCKS, fitting))
        )


# Many short windows: other work on a machine changes within tens of milliseconds.
FINAL_PLAN = Plan(0.005, 14, 80, 0.02, 1.5, CPU_SPREAD, patience_seconds=3.0)
# A quick plan is for rounds, and for hidden cases, of which there are many.
QUICK_PLAN = Plan(0.005, 10, 40, 0.03, 0.6, CPU_SPREAD, patience_seconds=2.0, every_regime=False)
# The GPU clock is precise to some microseconds, so shorter windows are enough.
GPU_FINAL_PLAN = Plan(0.002, 6, 18, 0.015, 0.5, GPU_SPREAD)
GPU_QUICK_PLAN = Plan(0.002, 4, 14, 0.02, 0.2, GPU_SPREAD, every_regime=False)


def plan_for(kind: str, final: bool) -> Plan:
    if kind == GPU:
        return GPU_FINAL_PLAN if final else GPU_QUICK_PLAN
    return FINAL_PLAN if final else QUICK_PLAN


def launches_for(times: Sequence[float], seconds: float) -> float:
    """Return the launches of a window for processes with these nanoseconds per launch.

    The fastest one's window takes `seconds`, unless the slowest one's would take over four times
    that.
    """
    target = seconds * 1e9
    return min(target / min(times), 4 * target / max(times))
