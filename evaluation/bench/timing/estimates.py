"""Estimates: blocks of windows become a speedup with its interval.

A block is two neighbouring windows, one of the candidate and one of the baseline. Blocks come in
pairs, A B and B A, so that a clock that drifts evenly moves both sides alike. The speedup of a case
is exp(median of the blocks' log ratios).
"""

from __future__ import annotations

import dataclasses
import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from evaluation.bench.timing.intervals import half_width, student_t
from evaluation.bench.timing.plan import Plan, Spread
from evaluation.types import Interval

PRIOR_FREEDOM = 6
"""Degrees of freedom that the typical spread of a device's blocks counts for."""
NOISY = 0.05
"""Half the width of an interval beyond which a measurement is marked as noisy."""
ROOFLINE_MARGIN = 0.8
"""Share of the roofline time below which a time is disputed. It covers errors of the peaks."""
MAX_OWN_DISTURBANCES = 3
"""Windows of the candidate that may be left out as disturbed, beyond those of the baseline.

A candidate can make its own threads wait for each other, and could so choose its windows.
"""
MAX_TRIES = 3
"""Windows, at most, until one of a block is undisturbed.

Where every second window is disturbed, three blocks of four would be left out without a second try,
and with three tries one of four.
"""
MAX_UNTYPICAL = 2.0
"""Spread of a baseline that counts, at most, as a multiple of the device's typical one."""
MAX_DECIDING = 96
"""Blocks, at most, that decide whether a candidate hides work. The medians of the overheads of as
many windows on an H200 differ by 13 us in the standard deviation, 0.6 % of a window.
"""
MAD_FACTORS = (1.0, 1.196, 1.495, 1.363, 1.206, 1.200, 1.140, 1.129, 1.107)
"""Corrections of the median absolute deviation of two to nine values.

Source: Croux and Rousseeuw, "Time-efficient algorithms for two highly robust estimators of scale",
1992.
"""


@dataclass(frozen=True)
class Block:
    """Nanoseconds per launch of two neighbouring windows, of candidate and baseline."""

    candidate: float
    baseline: float

    @property
    def log_ratio(self) -> float:
        return math.log(self.baseline / self.candidate)


@dataclass(frozen=True)
class Wait:
    """The longest wait of a thread for a core in one window."""

    process: str
    """The thread's process: candidate, baseline or judge."""
    ns: float


@dataclass(frozen=True)
class Window:
    """One timed window: nanoseconds per launch, and the wait for a core that disturbed it."""

    ns: float
    wait: Wait | None = None

    @property
    def disturbed(self) -> bool:
        return self.wait is not None


@dataclass(frozen=True)
class Blocks:
    """The blocks of a case that count, and the number of those that were disturbed.

    These are among the others where they were tolerated.
    """

    counted: Sequence[Block]
    disturbed: int = 0
    waits: Sequence[Wait] = ()
    """The waits of the disturbed windows."""
    reason: str = ""
    """Sentence part on why none counts, where that is no wait."""

    def void(self, reason: str) -> Blocks:
        """Return blocks of which none counts, for this reason."""
        return dataclasses.replace(self, counted=(), reason=reason)

    def is_noisy(self, speedup: Interval, tolerant: bool) -> bool:
        """Return whether a speedup is to be marked as noisy.

        It is where its interval is wide, or where most blocks are disturbed ones, tolerated.
        """
        tolerated = self.disturbed if tolerant else 0
        return half_width(speedup) > NOISY or tolerated > len(self.counted) / 2

    @property
    def text(self) -> str:
        """Return a sentence part on why too few blocks count.

        Of the waits, it names the process that waited in most windows, and its median wait.
        """
        pairs = self.disturbed + len(self.counted)
        text = self.reason or f"{self.disturbed} of {pairs} pairs of windows were disturbed"
        if self.reason or not self.waits:
            return text
        process = statistics.mode(wait.process for wait in self.waits)
        its = [wait.ns for wait in self.waits if wait.process == process]
        return (
            f"{text}: in {len(its)} windows a thread of the {process} waited for a core, "
            f"{statistics.median(its) / 1e6:.2f} ms in the median"
        )


def blocks(
    candidate: Callable[[], Window],
    baseline: Callable[[], Window],
    plan: Plan,
    tolerant: bool = False,
) -> Blocks:
    """Measure blocks until the interval is narrow enough or the plan's time is over.

    Each call runs one window. A disturbed one is run again, of whichever side. A block in which one
    stays disturbed is left out, and measuring goes on for up to `plan.patience_seconds` to reach
    the least number of blocks. With `tolerant` disturbed windows count as they are, so that this
    number is reached in any case.
    """
    counted: list[Block] = []
    waits: list[Wait] = []
    disturbed = own = 0
    ends = time.monotonic() + plan.max_seconds

    def run(window: Callable[[], Window], step: int) -> tuple[Window, bool]:
        """Return a window, and whether its block is left out; `step` counts a disturbed one."""
        nonlocal own
        for _ in range(MAX_TRIES):
            found = window()
            if not found.wait:
                return found, False
            own += step
            if own > MAX_OWN_DISTURBANCES:
                return found, False
            waits.append(found.wait)
            if tolerant:
                break
        return found, True

    while len(counted) < plan.max_blocks:
        a1, b1, b2, a2 = run(candidate, 1), run(baseline, -1), run(baseline, -1), run(candidate, 1)
        for (a, a_out), (b, b_out) in ((a1, b1), (a2, b2)):
            disturbed += a_out or b_out
            if tolerant or not (a_out or b_out):
                counted.append(Block(a.ns, b.ns))
        now = time.monotonic()
        if len(counted) < plan.min_blocks:
            if waits and not tolerant and now > ends + plan.patience_seconds:
                break
        elif now > ends or half_width(speedup_of(counted, plan.spread)) < plan.narrow:
            break
    return Blocks(counted, disturbed, waits)


def decided(
    found: Blocks, is_undecided: Callable[[], bool], more: Callable[[int], Blocks]
) -> Blocks:
    """Return the found blocks with as many more as decide whether the candidate hides work.

    Each time `more` measures as many again; fewer, of a machine with other work, are the last ones.
    What an honest candidate has by chance soon falls below what is free.
    """
    complete = True
    while complete and is_undecided() and 2 * (count := len(found.counted)) <= MAX_DECIDING:
        again = more(count)
        complete = len(again.counted) >= count
        found = Blocks(
            [*found.counted, *again.counted],
            found.disturbed + again.disturbed,
            [*found.waits, *again.waits],
        )
    return found


def speedup_of(blocks: Sequence[Block], spread: Spread) -> Interval:
    """Return the speedup of a case with its 95 % interval.

    It covers the variation within the verdict, and how far verdicts on one submission typically lie
    from their mean on the device.

    The spread is that of the median absolute deviation, so that a few windows at another clock rate
    do not decide the width. That of few blocks is moderated by the typical one of the device.
    Source: Smyth, "Linear models and empirical Bayes methods", 2004. The variance of a median is
    pi / 2 times that of a mean.
    """
    ratios = [block.log_ratio for block in blocks]
    middle, own = statistics.median(ratios), len(ratios) - 1
    freedom = own + PRIOR_FREEDOM
    moderated = (own * robust_spread(ratios) ** 2 + PRIOR_FREEDOM * spread.of_blocks**2) / freedom
    of_middle = moderated / len(ratios) * (math.pi / 2 if own > 1 else 1)
    error = math.sqrt(of_middle + spread.of_verdicts**2)
    half = student_t(freedom) * error
    return Interval(math.exp(middle), math.exp(middle - half), math.exp(middle + half))


def robust_spread(values: Sequence[float]) -> float:
    """Return the standard deviation that the median absolute deviation of these values stands for.

    Of normal values it is 1.4826 times that deviation, with a correction for few of them.
    """
    count, middle = len(values), statistics.median(values)
    few = count <= len(MAD_FACTORS)
    factor = MAD_FACTORS[count - 1] if few else count / (count - 0.8)
    return 1.4826 * factor * statistics.median(abs(value - middle) for value in values)


@dataclass(frozen=True)
class Excess:
    """Nanoseconds of a window by which a candidate's overhead exceeds a baseline's."""

    ns: float
    chance_ns: float
    """Excess that chance explains."""
    free_ns: float
    """Excess that is free where chance explains it."""

    @property
    def charged_ns(self) -> float:
        return self.ns if self.ns > min(self.chance_ns, self.free_ns) else 0.0

    @property
    def is_undecided(self) -> bool:
        """Return whether more windows must tell it from chance.

        Charged at once, an honest candidate would pay wherever chance is more than what is free.
        """
        return self.free_ns < self.ns <= self.chance_ns


def excess(
    candidate: Sequence[float], baseline: Sequence[float], typical_ns: float, free_ns: float
) -> Excess:
    """Return by how much a candidate's overhead exceeds a baseline's.

    Chance follows from the baseline's spread, moderated by the `typical_ns` of the device. A
    candidate's own spread would allow it what it likes, and it can make a baseline's spread, of
    which MAX_UNTYPICAL times the typical one counts at most.

    Beyond chance is as improbable as three standard errors of a difference of normal values. Source
    of the quantile: Abramowitz and Stegun, "Handbook of Mathematical Functions", 26.7.5, its first
    term. The higher of two medians counts for the candidate: work that it hides in as many windows
    as decide its time lies in half of all.
    """
    difference = statistics.median_high(candidate) - statistics.median_high(baseline)
    own = len(baseline) - 1
    freedom = own + PRIOR_FREEDOM
    spread = min(robust_spread(baseline), MAX_UNTYPICAL * typical_ns)
    moderated = math.sqrt((own * spread**2 + PRIOR_FREEDOM * typical_ns**2) / freedom)
    error = 1.2533 * moderated * math.sqrt(1 / len(candidate) + 1 / len(baseline))
    quantile = 3 + (3**3 + 3) / (4 * freedom)
    return Excess(difference, quantile * error, free_ns)
