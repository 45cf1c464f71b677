"""A ranking written anew from the methodology page, one record at a time, with scipy.

It shares no code with `arena.leaderboard`, whose results tests compare with it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from scipy import stats

Z = stats.norm.ppf(0.975)
VERDICT_TO_VERDICT = 0.004
"""Standard deviation of the log speedup of a submission between verdicts."""
UNRANKED = ["provisional", "same-user", "open-book", "no-submission"]


@dataclass(frozen=True)
class Speedup:
    """A speedup and its interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Record:
    """One judged run. `seen` and `unseen` are None where it failed or was not timed.

    `user` brings its agent from elsewhere; empty for an agent of the arena. `submitted` is whether
    it handed in anything.
    """

    agent: str
    task: str
    device: str
    repeat: int
    at: Any
    passed: bool
    seen: Speedup | None = None
    unseen: Speedup | None = None
    open_book: bool = False
    noisy: bool = False
    submitted: bool = True
    user: str = ""
    judge: str = "1"
    roofline: float | None = None


def ranking(
    records: list[Record], by: str, tasks: Collection[str], score: str = "set"
) -> list[dict[str, Any]]:
    """Return the rows of the board of these records, which are of one device, over these tasks.

    Agents with the same pass rate are ordered by `score`: "set" or "sol".
    """

    def order(row: dict[str, Any]) -> tuple[Any, ...]:
        low = row[score].low if row[score] else 0.5
        return -round(row["pass_rate"], 9), -round(low, 9), row["agent"]

    judge = _judge(records, tasks)
    results = _results([r for r in records if r.judge == judge], tasks)
    needed = _needed(tasks)
    rows = sorted((_row(agent, by, found, tasks) for agent, found in results.items()), key=order)
    ranked: list[dict[str, Any]] = []
    users: set[str] = set()
    for row in rows:
        first = next(iter(results[row["agent"]].values()))[0]
        if first.open_book:
            row["unranked"] = "open-book"
        elif row["tasks"] < needed:
            row["unranked"] = "provisional"
        elif first.user in users:
            row["unranked"] = "same-user"
        else:
            users |= {first.user} - {""}
            ranked.append(row)
    for number, row in enumerate(ranked):
        better = [other for other in ranked if order(other)[:2] < order(row)[:2]]
        row["rank"] = len(better) + 1
        row["tied"] = number > 0 and _overlap(row, ranked[number - 1], score)
    others = [row for row in rows if row["rank"] is None]
    every = _newest(records)
    heard = {run.agent for run in every if run.submitted and run.task in tasks}
    for agent in sorted({run.agent for run in every} - heard - results.keys()):
        own = [run for run in every if run.agent == agent and run.task in tasks]
        by_task = {run.task: [each for each in own if each.task == run.task] for run in own}
        if by_task:
            reason = "open-book" if own[0].open_book else "no-submission"
            others.append(_row(agent, by, by_task, tasks) | {"unranked": reason, "set": None})
    return ranked + sorted(others, key=lambda row: UNRANKED.index(row["unranked"]))


def _needed(tasks: Collection[str]) -> int:
    return max(1, -(-len(tasks) // 2))


def _judge(records: list[Record], tasks: Collection[str]) -> str:
    """Return the newest judge by which an agent has a rank, else the one with most results.

    Agents of the arena come before those that users bring.
    """
    counts: dict[int, int] = {}
    for among in ([record for record in records if not record.user], records):
        for version in sorted({int(record.judge) for record in among}, reverse=True):
            found = _results([r for r in among if int(r.judge) == version], tasks)
            closed = [of for of in found.values() if not next(iter(of.values()))[0].open_book]
            if any(len(of) >= _needed(tasks) for of in closed):
                return str(version)
            counts[version] = sum(len(of) for of in closed)
    return str(max(counts, key=lambda version: (counts[version], version), default=""))


def _newest(records: list[Record]) -> list[Record]:
    """Return the newest record of each repeat of an agent on a task."""
    newest: dict[Any, Record] = {}
    for record in sorted(records, key=lambda r: r.at):
        newest[record.agent, record.task, record.repeat] = record
    return list(newest.values())


def _results(records: list[Record], tasks: Collection[str]) -> dict[str, dict[str, list[Record]]]:
    """Return the newest record of each repeat by agent and task, if it submitted anything."""
    found: dict[str, dict[str, list[Record]]] = defaultdict(lambda: defaultdict(list))
    for record in _newest(records):
        if record.submitted and record.task in tasks:
            found[record.agent][record.task].append(record)
    return found


def _row(
    agent: str, by: str, results: dict[str, list[Record]], tasks: Collection[str]
) -> dict[str, Any]:
    runs = [run for each in results.values() for run in each]
    solved = sum(fmean(run.passed for run in each) for each in results.values())
    speedups = {which: _over_solved(results, which) for which in ("seen", "unseen", "gap")}
    roofline = [run.roofline for run in runs if run.passed and run.roofline]
    return {
        "agent": agent,
        "rank": None,
        "tied": False,
        "unranked": "",
        "passed": sum(run.passed for run in runs),
        "total": len(runs),
        "tasks": len(results),
        "size": len(tasks),
        "solved": solved,
        "pass_rate": solved / len(tasks),
        "set": _over_set(results, by, len(tasks)),
        "sol": _sol_score(results, len(tasks)) if roofline else None,
        "seen": speedups["seen"],
        "unseen": speedups["unseen"],
        "noisy": sum(any(run.noisy for run in each) for each in results.values()),
        "gap": speedups["gap"] and speedups["gap"].value,
        "roofline": float(stats.gmean(roofline)) if roofline else None,
    }


Log = tuple[float, float, float]
"""The mean of a log speedup, and its standard errors downwards and upwards."""


def _over_set(results: dict[str, list[Record]], by: str, size: int) -> Speedup:
    """Return the geometric mean over the set: 1 for each task without a surely faster kernel."""
    gains = [_mean([_gain(run, by) for run in runs]) for runs in results.values()]
    found = _mean([*gains, *[(0.0, 0.0, 0.0)] * (size - len(gains))])
    assert found
    return _speedup(found)


def _sol_score(results: dict[str, list[Record]], size: int) -> Speedup:
    """Return the mean SOL score over the set: 0.5 for each task without a surely faster kernel."""
    nothing = (0.0, 0.0, 0.0)
    gains = [_mean([_sol_gain(run) for run in runs]) for runs in results.values()]
    found = _mean([*gains, *[nothing] * (size - len(gains))])
    assert found
    middle, below, above = found
    return Speedup(0.5 + middle, 0.5 + middle - Z * below, 0.5 + middle + Z * above)


def _sol_gain(run: Record) -> Log:
    """Return by how much the SOL score of a run exceeds 0.5, in times of the limit."""
    seen, unseen = (_log(run, which) if run.passed else None for which in ("seen", "unseen"))
    if not (run.roofline and seen and unseen):
        return 0.0, 0.0, 0.0
    if seen[0] <= Z * seen[1] or unseen[0] <= Z * unseen[1]:
        return 0.0, 0.0, 0.0
    baseline = math.exp(seen[0]) / run.roofline

    def score(log_speedup: float) -> float:
        above_limit = [max(0.0, time - 1) for time in (baseline, baseline / math.exp(log_speedup))]
        return above_limit[0] / sum(above_limit) if sum(above_limit) else 1.0

    middle = score(seen[0])
    low, high = score(seen[0] - Z * seen[1]), score(seen[0] + Z * seen[2])
    return middle - 0.5, (middle - low) / Z, (high - middle) / Z


def _gain(run: Record, by: str) -> Log:
    found = _log(run, by) if run.passed else None
    return found if found and found[0] > Z * found[1] else (0.0, 0.0, 0.0)


def _over_solved(results: dict[str, list[Record]], which: str) -> Speedup | None:
    """Return the geometric mean over tasks, each the geometric mean over its repeats."""
    of_tasks = [
        _mean([_log(run, which) for run in each if run.passed]) for each in results.values()
    ]
    found = _mean(of_tasks)
    return found and _speedup(found)


def _speedup(log: Log) -> Speedup:
    middle, below, above = log
    return Speedup(math.exp(middle), math.exp(middle - Z * below), math.exp(middle + Z * above))


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
        if seen is None or unseen is None or run.noisy:
            return None
        below, above = math.hypot(unseen[1], seen[2]), math.hypot(unseen[2], seen[1])
        return unseen[0] - seen[0], below, above
    speedup: Speedup | None = getattr(run, which)
    if speedup is None:
        return None
    sides = (math.log(speedup.value / speedup.low), math.log(speedup.high / speedup.value))
    below, above = (math.hypot(side / Z, VERDICT_TO_VERDICT) for side in sides)
    return math.log(speedup.value), below, above


def _overlap(row: dict[str, Any], above: dict[str, Any], score: str) -> bool:
    """Return whether two rows have the same pass rate and overlapping intervals."""
    same = round(row["pass_rate"], 9) == round(above["pass_rate"], 9)
    ends = row[score].high if row[score] else 0.5, above[score].low if above[score] else 0.5
    return same and bool(ends[0] >= ends[1])
