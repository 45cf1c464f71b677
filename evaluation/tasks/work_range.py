"""Work of cases: a speedup on unseen cases is compared with that on seen ones of like size."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from evaluation.tasks.operator import Operator
from evaluation.types import Case

WORK_FACTOR = 4.0
"""Timed cases have the least work of a seen case over this, at least, and at most the most times
it.
"""


@dataclass(frozen=True)
class WorkRange:
    """Bytes moved and operations of the cases whose times can be compared with the seen ones.

    On much smaller cases the time is that of a call, not of the work: a compiled kernel looks many
    times as fast as PyTorch there, whatever it is worth on the sizes that it is for.
    """

    operator: Operator
    bytes: tuple[float, float]
    operations: tuple[float, float]

    @classmethod
    def around(cls, operator: Operator, seen: Iterable[Case]) -> WorkRange:
        """Return the range around the work of these cases, one or more."""
        work = [operator.module().cost(case) for case in seen]
        ends = [
            (min(values) / WORK_FACTOR, max(values) * WORK_FACTOR)
            for values in zip(*work, strict=True)
        ]
        return cls(operator, *ends)

    def __contains__(self, case: Case) -> bool:
        moved, operations = self.operator.module().cost(case)
        (least, most), (fewest, greatest) = self.bytes, self.operations
        return bool(least <= moved <= most and fewest <= operations <= greatest)
