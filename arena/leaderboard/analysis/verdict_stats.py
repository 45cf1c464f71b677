"""Counts over verdicts: pass rate by gate and category, failure classes, and best by round.

A verdict is one evaluation, of a round or final. Its gates run in order until one does not pass.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from arena.leaderboard.analysis.best_rounds import MAX_ROUNDS, best_so_far
from arena.leaderboard.analysis.verdicts import GATES, Verdicts

SPEEDUP_THRESHOLDS = (0.0, 1.0, 1.25, 1.5, 2.0)
"""The p of the fast_p curves; 0 counts every run that passed a round."""


@dataclass(frozen=True)
class GateCount:
    """The number of verdicts that reached a gate, and that passed it."""

    gate: str
    reached: int
    passed: int


@dataclass(frozen=True)
class FailureClass:
    """One reason of failure at one gate: its count, its agents, the newest run and round."""

    gate: str
    verdict: str
    reason: str
    count: int
    agents: int
    run: str
    round: int


@dataclass(frozen=True)
class CategoryCount:
    """The verdicts of one category of operators; `worst` is the most frequent failure reason."""

    name: str
    passed: int
    total: int
    worst: str


@dataclass(frozen=True)
class FastShares:
    """The share of runs whose best after a round reaches each of SPEEDUP_THRESHOLDS."""

    round: int
    shares: tuple[float, ...]

    @property
    def with_thresholds(self) -> list[tuple[float, float]]:
        return list(zip(SPEEDUP_THRESHOLDS, self.shares, strict=True))


@dataclass(frozen=True)
class VerdictStats:
    """All counts of the analysis page."""

    verdicts: int
    runs: int
    gates: list[GateCount]
    failures: list[FailureClass]
    categories: list[CategoryCount]
    fast: list[FastShares]


def verdict_stats(found: Verdicts) -> VerdictStats:
    """Count these verdicts."""
    return VerdictStats(
        verdicts=len(found),
        runs=len(np.unique(found.run)),
        gates=_gates(found),
        failures=_failures(found),
        categories=_categories(found),
        fast=_fast(found.among(~found.final)),
    )


def _gates(found: Verdicts) -> list[GateCount]:
    return [
        GateCount(gate, *(int((column >> number & 1).sum()) for column in columns))
        for columns in [(found.reached, found.passed)]
        for number, gate in enumerate(GATES)
    ]


def _failures(found: Verdicts) -> list[FailureClass]:
    """Return the classes, most frequent first."""
    keys = np.stack([found.gate, found.failed_verdict, found.failed_reason])
    classes, of_class = np.unique(keys, axis=1, return_inverse=True)
    counts = np.bincount(of_class.reshape(-1), minlength=classes.shape[1])
    listed = []
    for number, (gate, verdict, reason) in enumerate(classes.T.tolist()):
        verdicts = found.failure[of_class.reshape(-1) == number]
        newest = verdicts[np.argmax(found.evaluation[verdicts])]
        listed.append(
            FailureClass(
                gate=GATES[gate],
                verdict=found.names[verdict],
                reason=found.names[reason],
                count=int(counts[number]),
                agents=len(np.unique(found.agent[verdicts])),
                run=found.run_ids[found.run[newest]],
                round=int(found.round[newest]),
            )
        )
    return sorted(listed, key=lambda each: (-each.count, each.gate, each.reason))


def _categories(found: Verdicts) -> list[CategoryCount]:
    """Return the categories, lowest pass rate first."""
    failed = found.failed
    totals = np.bincount(found.category, minlength=len(found.categories))
    counted = np.zeros((len(found.categories), len(found.names)), int)
    np.add.at(counted, (found.category[failed], found.reason[failed]), 1)
    by_name = np.argsort(np.array(found.names, "O"))  # of equals, the first by name is the worst
    rows = []
    for number in np.flatnonzero(totals).tolist():
        failures = counted[number]
        worst = by_name[np.argmax(failures[by_name])] if failures.any() else None
        total = int(totals[number])
        reason = "" if worst is None else found.names[worst]
        rows.append(
            CategoryCount(found.categories[number], total - int(failures.sum()), total, reason)
        )
    return sorted(rows, key=lambda each: (each.passed / each.total, each.name))


def _fast(rounds: Verdicts) -> list[FastShares]:
    """Return the shares by round; a run keeps its best after its last round."""
    runs, of_run = np.unique(rounds.run, return_inverse=True)
    passed = np.flatnonzero(~rounds.failed)
    if not len(passed):
        return []
    passed = passed[np.lexsort((rounds.round[passed], of_run[passed]))]
    timed, low = rounds.speedup[passed], rounds.low[passed]
    best = best_so_far(of_run[passed], low >= 0, low)
    speedups = np.where(best >= 0, np.nan_to_num(timed[best]), 0.0)
    number = rounds.round[passed]
    last = min(MAX_ROUNDS, int(number.max()))
    held = np.full((len(runs), last + 1), -1.0)
    shown = number <= last
    held[of_run[passed[shown]], number[shown]] = speedups[shown]
    known = np.where(held >= 0, np.arange(last + 1), 0)
    latest = np.take_along_axis(held, np.maximum.accumulate(known, axis=1), axis=1)
    return [
        FastShares(
            step, tuple(float((latest[:, step] >= bound).mean()) for bound in SPEEDUP_THRESHOLDS)
        )
        for step in range(1, last + 1)
    ]
