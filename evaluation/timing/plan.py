"""Measurement plans: the length and number of windows, by kind of device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evaluation.device_kind import GPU


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
    every_regime: bool = True
    """Whether to measure with warm caches, and without a CUDA graph, too."""
    rings: int = 1
    """Number of measurements, each in memory of its own."""
    overlap_check_share: float = 0.0
    """Share of windows with an untimed window before them (see `late_inputs`)."""
    overlap_checks_after: int = 0
    """Untimed windows after all others, of each kind of check."""


# Many short windows: other work on a machine changes within tens of milliseconds.
FINAL_PLAN = Plan(
    0.005, 9, 101, 0.003, 3.0, rings=2, overlap_check_share=0.05, overlap_checks_after=2
)
# A quick plan is for rounds, and for hidden cases, of which there are many.
QUICK_PLAN = Plan(
    0.005, 5, 15, 0.015, 1.5, every_regime=False, overlap_check_share=0.05, overlap_checks_after=1
)
# The GPU clock is precise to some microseconds, so shorter windows are enough.
GPU_FINAL_PLAN = Plan(0.002, 5, 21, 0.004, 1.0, overlap_check_share=0.4, overlap_checks_after=2)
GPU_QUICK_PLAN = Plan(
    0.001, 5, 9, 0.02, 0.3, every_regime=False, overlap_check_share=0.15, overlap_checks_after=1
)


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
