"""Reward of a verdict for training loops: one number from -1 to 1.

A refused trick gets the lowest value. A kernel that is not correct gets a fixed value below 0, by
the gate that stopped it. A correct one gets 0 to 1 by the logarithm of its speedup. The speedup
counts by the lower end of its interval, so that a lucky measurement gains nothing. A correct one
whose measurement is noisy has no reward.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from evaluation.types import GateName, Reason, Verdict

REFUSED = -1.0
"""Reward of a trick: a rule violated, or a result faster than the roofline."""
STOPPED = {
    GateName.INTEGRITY: -0.8,
    GateName.COMPILE: -0.65,
    GateName.CORRECTNESS: -0.5,
    GateName.PERFORMANCE: -0.35,
    GateName.GENERALIZATION: -0.2,
}
"""Reward of a kernel that failed, by the gate that stopped it."""
PARITY = 0.5
"""Reward of a correct kernel that is as fast as the baseline."""
MAX_SPEEDUP = 16.0
"""Speedup from which the reward is 1; its inverse, and any slower kernel, has 0."""
TRICKS = (Verdict.REJECTED, Verdict.DISPUTED)
TRICK_REASONS = (Reason.FORBIDDEN, Reason.FASTER_THAN_ROOFLINE)


FORMULA = {
    "refused": REFUSED,
    "stopped": [(gate.value, value) for gate, value in STOPPED.items()],
    "parity": PARITY,
    "max_speedup": MAX_SPEEDUP,
}
"""Constants for the methodology page."""


@dataclass(frozen=True)
class Outcome:
    """Part of an evaluation that its reward depends on.

    `gate` is the last gate that ran. `lows` are the lower ends of the 95 % intervals of the
    geometric-mean speedups: of the public cases, and in a final verdict of the held-out ones.
    """

    verdict: str
    reason: str = ""
    gate: str = ""
    noisy: bool = False
    lows: Sequence[float] = ()


def reward(outcome: Outcome) -> float | None:
    """Return the reward; None without a verdict on the kernel, or without a sure measurement."""
    if outcome.verdict in TRICKS:
        return REFUSED
    if outcome.verdict == Verdict.FAILED:
        if outcome.reason in TRICK_REASONS:
            return REFUSED
        return STOPPED.get(GateName(outcome.gate)) if outcome.gate else min(STOPPED.values())
    if outcome.verdict == Verdict.PASSED and not outcome.noisy:
        return reward_of_speedup(min(outcome.lows, default=0.0))
    return None


def reward_of_speedup(low: float) -> float:
    """Return the reward of a correct kernel whose speedup is at least `low`.

    It is `PARITY + (1 - PARITY) * log(low) / log(MAX_SPEEDUP)`, from 0 to 1.
    """
    if not low > 0.0:
        return 0.0
    share = math.log(low) / math.log(MAX_SPEEDUP)
    return PARITY + (1 - PARITY) * max(-1.0, min(1.0, share))
