"""Results of the admission of a task, for every kind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from evaluation.types import Interval, Reason, TaskCheck, Verdict

SPREAD_BOUND = 0.05
"""Largest relative difference of a speedup measured twice."""
MAX_REPEATS = 3
"""Measurements to compare with an earlier one, on a busy machine."""


@dataclass(frozen=True)
class Attempt:
    """One judged implementation, and whether the verdict was right.

    `seconds` excludes its build.
    """

    name: str
    role: str
    note: str
    verdict: Verdict
    reason: Reason | None
    message: str
    seconds: float
    as_expected: bool
    expect: Reason | None = None
    """Expected reason of failure, where the implementation names one."""


@dataclass(frozen=True)
class Admission:
    """All results of the admission of a task; it is refused for its `problems`.

    `repeat` is the ratio of a speedup to an earlier one, and None where nothing can be timed;
    `retained` that of a kernel's speedup on neighbours of the seen cases to that on these.
    """

    task: str
    task_hash: str
    judge_version: str
    attempts: tuple[Attempt, ...]
    repeat: Interval | None
    problems: tuple[str, ...]
    admitted: bool
    checks: tuple[TaskCheck, ...] = ()
    retained: Interval | None = None
    self_test: bool = False
    """True where trivial submissions and the operator's own mutants were judged."""
    only_unsteady: bool = False
    """True where its one problem is that times do not repeat, as on a busy machine."""


def problems(checks: Sequence[TaskCheck]) -> Iterator[str]:
    """Yield a line for each check that is not ok."""
    for check in checks:
        if not check.ok:
            yield f"{check.name}: {check.message}"


def is_steady(ratio: Interval) -> bool:
    """Return whether a speedup that was measured twice is the same, by the ratio of both."""
    return 1 / (1 + SPREAD_BOUND) <= ratio.speedup <= 1 + SPREAD_BOUND
