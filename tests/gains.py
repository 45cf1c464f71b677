"""Gain of a trick over honest code that does the same work.

Both are judged by turns, and the best verdicts are compared: an attacker hands in the same source
until it works. As for records, the trick's interval must begin above the end of the honest one. A
verdict that refuses it gains nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from evaluation.types import Report, Verdict

BOUND = 0.01
"""Gain that is accepted; below it nothing is defended (see docs/threat-model.md)."""
MIN_VERDICTS, MAX_VERDICTS = 2, 5
"""Verdicts on each of both: more where the trick seems to gain, since that may be chance."""


@dataclass
class Comparison:
    """Verdicts on a trick and on its honest counterpart, in the order in which they were given."""

    trick: list[Report] = field(default_factory=list)
    honest: list[Report] = field(default_factory=list)

    @property
    def gain(self) -> float:
        """Return the share by which the trick's best interval begins above the honest ones' end.

        It is infinite where the trick passed and honest code could not be measured.
        """
        trick, honest = max(map(low, self.trick)), max(map(high, self.honest))
        return (trick / honest if honest else math.inf) - 1 if trick else -1.0


def speedup(report: Report) -> float:
    """Return the speedup of a report that passed, else 0."""
    return report.seen.speedup if report.verdict is Verdict.PASSED and report.seen else 0.0


def low(report: Report) -> float:
    """Return the low end of the speedup of a report that passed, else 0."""
    return report.seen.low if report.verdict is Verdict.PASSED and report.seen else 0.0


def high(report: Report) -> float:
    """Return the high end of the speedup of a report that passed, else 0."""
    return report.seen.high if report.verdict is Verdict.PASSED and report.seen else 0.0


def compare(
    trick: Callable[[], Report],
    honest: Callable[[], Report],
    bound: float = BOUND,
    min_verdicts: int = MIN_VERDICTS,
    max_verdicts: int = MAX_VERDICTS,
) -> Comparison:
    """Judge a trick and its counterpart until the gain is within the bound, or often enough."""
    found = Comparison()
    while len(found.trick) < max_verdicts:
        found.trick.append(trick())
        found.honest.append(honest())
        if len(found.trick) >= min_verdicts and found.gain <= bound:
            break
    return found
