"""A ranking written anew from the methodology page, one record at a time, with scipy.

It shares no code with `arena.leaderboard`, whose results tests compare with it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any

from scipy import stats

Z = stats.norm.ppf(0.975)
VERDICT_TO_VERDICT = 0.004
"""Standard deviation of the log speedup of a submission between verdicts."""


@dataclass(frozen=True)
class Speedup:
    """A speedup and its interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Record:
    """One judged run. `seen` and `unseen` are None where it failed or was not timed."""

    agent: str
    task: str
    device: str
    repeat: int
    at: Any
    passed: bool
    seen: Speedup | None = None
    unseen: Speedup | None = None
    open_book: bool = False
    category: str = ""
    roofline: float | None = None


def ranking(records: list[Record], by: str) -> list[dict[str, Any]]:
    """Return the rows of the board of these records, which are of one device."""
    newest: dict[Any, Record] = {}
    for record in sorted(records, key=lambda r: r.at):
        newest[record.agent, record.task, record.repeat] = record
    results: dict[str, dict[str, list[Record]]] = defaultdict(lambda: defaultdict(list))
    for record in newest.values():
        results[record.agent][record.task].append(record)
    open_book = {record.agent for record in records if record.open_book}
    closed = {agent: set(tasks) for agent, tasks in results.items() if agent not in open_book}
    everything = set().union(*closed.values()) if closed else set()
    common = _common(closed)
    rows = []
    for agent, tasks in results.items():
        counted = {t: runs for t, runs in tasks.items() if agent not in closed or t in common}
        if agent not in closed:
            counted = dict(tasks)
        rows.append(_row(agent, tasks, counted, common, agent in closed, everything, by))
    ranked = sorted((row for row in rows if row["ranked"]), key=_order)
    leader: dict[str, Any] | None = None
    for number, row in enumerate(ranked, start=1):
        row["rank"] = number
        if leader is None or not _same(row, leader):
            leader = row
        row["band"] = leader["rank"]
    return ranked + sorted(
        (row for row in rows if not row["ranked"]),
        key=lambda r: (r["agent"] in open_book, *_order(r)),
    )


def _common(closed: dict[str, set[str]]) -> set[str]:
    """Drop the agents that share the fewest tasks from `closed`; return the common tasks."""
    while closed:
        common = set.intersection(*closed.values())
        needed = max(1, median(len(tasks) for tasks in closed.values()) / 4)
        if len(closed) == 1 or len(common) >= needed:
            return common
        shared = {
            agent: sum(len(tasks & closed[other]) for other in closed if other != agent)
            for agent, tasks in closed.items()
        }
        fewest = min(shared.values())
        worst = [agent for agent in closed if shared[agent] == fewest]
        smallest = min(len(closed[agent]) for agent in worst)
        del closed[max(agent for agent in worst if len(closed[agent]) == smallest)]
    return set()


def _row(
    agent: str,
    tasks: dict[str, list[Record]],
    counted: dict[str, list[Record]],
    common: set[str],
    ranked: bool,
    everything: set[str],
    by: str,
) -> dict[str, Any]:
    if not ranked:
        counted = tasks
    runs = [run for each in tasks.values() for run in each]
    solved = {task: fmean(run.passed for run in each) for task, each in tasks.items()}
    speedups = {which: _over_tasks(counted, which) for which in ("seen", "unseen", "gap")}
    roofline = [run.roofline for run in runs if run.passed and run.roofline]
    return {
        "agent": agent,
        "ranked": ranked,
        "rank": None,
        "band": None,
        "passed": sum(run.passed for run in runs),
        "total": len(runs),
        "tasks": len(tasks),
        "board": len(everything) if ranked or not runs[0].open_book else len(tasks),
        "common": len(common) if ranked else 0,
        "solved": sum(solved.values()),
        "share": fmean(solved[task] for task in counted),
        "by": speedups[by],
        "seen": speedups["seen"],
        "unseen": speedups["unseen"],
        "own_unseen": _over_tasks(tasks, "unseen"),
        "gap": speedups["gap"] and speedups["gap"].value,
        "roofline": float(stats.gmean(roofline)) if roofline else None,
    }


def _over_tasks(tasks: dict[str, list[Record]], which: str) -> Speedup | None:
    """Return the geometric mean over tasks, each the geometric mean over its repeats."""
    of_tasks = [_mean([_log(run, which) for run in runs if run.passed]) for runs in tasks.values()]
    found = _mean(of_tasks)
    if found is None:
        return None
    middle, below, above = found
    return Speedup(math.exp(middle), math.exp(middle - Z * below), math.exp(middle + Z * above))


Log = tuple[float, float, float]
"""The mean of a log speedup, and its standard errors downwards and upwards."""


def _mean(logs: list[Log | None]) -> Log | None:
    """Return the mean of independent values: their variances add."""
    known = [log for log in logs if log is not None]
    if not known:
        return None
    middles, below, above = zip(*known, strict=True)
    count = len(known)
    errors = (math.sqrt(sum(error**2 for error in side)) / count for side in (below, above))
    return math.log(stats.gmean([math.exp(x) for x in middles])), *errors  # type: ignore[return-value]


def _log(run: Record, which: str) -> Log | None:
    if which == "gap":
        seen, unseen = _log(run, "seen"), _log(run, "unseen")
        if seen is None or unseen is None:
            return None
        below, above = math.hypot(unseen[1], seen[2]), math.hypot(unseen[2], seen[1])
        return unseen[0] - seen[0], below, above
    speedup: Speedup | None = getattr(run, which)
    if speedup is None:
        return None
    sides = (math.log(speedup.value / speedup.low), math.log(speedup.high / speedup.value))
    below, above = (math.hypot(side / Z, VERDICT_TO_VERDICT) for side in sides)
    return math.log(speedup.value), below, above


def _order(row: dict[str, Any]) -> tuple[Any, ...]:
    return -round(row["share"], 9), -(row["by"].value if row["by"] else 0), row["agent"]


def _same(row: dict[str, Any], leader: dict[str, Any]) -> bool:
    """Return whether two rows have the same share and overlapping intervals, or no speedup."""
    if round(row["share"], 9) != round(leader["share"], 9):
        return False
    one, other = row["by"], leader["by"]
    if one is None or other is None:
        return one is other
    return bool(one.low <= other.high and other.low <= one.high)
