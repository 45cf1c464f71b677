"""The ranking of agents that the pages and the API show: the only one.

A board has a declared set of tasks, which no result changes. Agents are ordered by the share of the
set that they solved; a task without a passed run is not solved. Agents with the same share are
ordered by the lower end of their speedup over the set: the geometric mean in which a task counts as
1x unless the interval of its kernel lies above 1x. So it is what a user gains who deploys a kernel
only where it is surely faster. On request they are ordered by the lower end of their SOL score over
the set instead, in which such a task counts as parity.

A place depends on an agent's own runs alone. An agent with judged runs on less than MIN_SHARE of
the set is provisional and has no rank, as has one with reference solutions (open book). Of the
agents that one user brings, the best has a rank. An agent that submitted nothing is listed last.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arena.catalog.models import EXTERNAL, Agent
from arena.leaderboard.ranking.columns import Columns, Rows
from arena.leaderboard.ranking.intervals import RUN_LOG_STD, Z_95
from arena.leaderboard.ranking.sol_scores import PARITY, sol_gains
from evaluation.types import Interval

SEEN, UNSEEN, GAP = "seen", "unseen", "gap"
GENERALIZATIONS = {UNSEEN: "held-out", SEEN: "public"}
"""The speedups to rank by, with the label of each; the headline first."""
SPEEDUP, SOL = "speedup", "sol"
SCORES = {SPEEDUP: "set_", SOL: "sol_"}
"""The scores to rank by, with the prefix of the columns of each; the default first."""
MIN_SHARE = 0.5
"""Least share of the set on which an agent with a rank has a judged run."""
PROVISIONAL, SAME_USER, OPEN_BOOK = "provisional", "same-user", "open-book"
NO_SUBMISSION = "no-submission"
UNRANKED = (PROVISIONAL, SAME_USER, OPEN_BOOK, NO_SUBMISSION)
"""The reasons of an agent without a rank, in the order of their sections."""


@dataclass(frozen=True)
class Row:
    """One agent on the board. It is `tied` if it does not differ significantly from the one above.

    All figures are over the `size` tasks of the board. Of these it has a judged run on `tasks`, or
    with NO_SUBMISSION one that submitted nothing.
    `solved` adds, for each task, the share of its repeats that passed; `pass_rate` is its share of
    the set. `passed` of `total` counts runs.

    `set_*` is the speedup over the set that ranks, with a task that it did not solve as 1x; it is
    None for an agent that submitted nothing. The rank is by `set_low`, or on request by `sol_low`
    of the SOL score over the set, which is None without a measured roofline. The other speedups are
    over the tasks that it solved. `noisy` of these have a noisy verdict, which `gap`, the share of
    the public speedup that held-out cases retain, leaves out. `memory_ratio` is the geomean of GPU
    memory over that of the baselines, None where no GPU was measured. `cost` is in US dollars; it
    is None where no run used a model, or where the price of one is unknown. `unranked` has the
    reason of an agent without a rank.
    """

    rank: int | None
    tied: bool
    unranked: str
    agent: Agent
    passed: int
    total: int
    tasks: int
    size: int
    solved: float
    pass_rate: float
    set_speedup: float | None
    set_low: float | None
    set_high: float | None
    speedup: float | None
    low: float | None
    high: float | None
    unseen_speedup: float | None
    unseen_low: float | None
    unseen_high: float | None
    noisy: int
    gap: float | None
    roofline_share: float | None
    sol_score: float | None
    sol_low: float | None
    sol_high: float | None
    memory_ratio: float | None
    rounds: float
    seconds: float
    cost: float | None
    tokens: int | None
    cost_per_solved: float | None
    tokens_per_solved: float | None

    @property
    def unpriced(self) -> bool:
        """Return whether it used tokens at an unknown price."""
        return self.tokens is not None and self.cost is None

    @property
    def over_set(self) -> Interval | None:
        """Return the speedup over the set; None for an agent that submitted nothing."""
        if self.set_speedup is None or self.set_low is None or self.set_high is None:
            return None
        return Interval(self.set_speedup, self.set_low, self.set_high)

    @property
    def coverage(self) -> float:
        """Share of the set on which it has a judged run."""
        return self.tasks / self.size

    @property
    def slower(self) -> bool:
        """Return whether its kernels are surely slower than the baselines on held-out cases."""
        return self.unseen_high is not None and self.unseen_high < 1 and not self.noisy


@dataclass(frozen=True)
class Ranking:
    """The rows of a board, ranked agents first; a rank needs `needed` of its `size` tasks."""

    rows: list[Row]
    size: int
    needed: int


@dataclass(frozen=True)
class Cells:
    """The results of each agent on each entry, a task and device, combined over repeats.

    `agents` are ids; `agent` and `entry` number both for each cell, `entry_of_row` for each row.
    `logs` has, for each kind of speedup, the middle of its log and the distances to both ends of
    its interval; NaN where no repeat passed and was timed. `gains` has the same of what counts
    over the set, 0 for a repeat that failed or is not surely faster; under SOL it has SOL scores
    less PARITY. `sums` are over the runs of the cell.
    """

    agents: list[int]
    entries: int
    agent: NDArray[Any]
    entry: NDArray[Any]
    entry_of_row: NDArray[Any]
    logs: Mapping[str, NDArray[Any]]
    gains: Mapping[str, NDArray[Any]]
    sums: Mapping[str, NDArray[Any]]

    def among(self, entries: NDArray[Any]) -> Cells:
        """Return the cells of the entries of a mask."""
        chosen = entries[self.entry]
        return replace(
            self,
            agent=self.agent[chosen],
            entry=self.entry[chosen],
            logs={which: logs[:, chosen] for which, logs in self.logs.items()},
            gains={which: gains[:, chosen] for which, gains in self.gains.items()},
            sums={name: column[chosen] for name, column in self.sums.items()},
        )


def needed_of(size: int) -> int:
    """Return on how many of the tasks of a set an agent with a rank has a judged run."""
    return max(1, math.ceil(MIN_SHARE * size))


def submitted(rows: Rows | Columns) -> NDArray[Any]:
    """Return which runs submitted something."""
    return np.asarray(rows["passed"] | (rows["rounds"] > 0))


def counted(rows: Rows | Columns, tasks: Collection[int]) -> NDArray[Any]:
    """Return which runs count on a board of these tasks: those that submitted something."""
    return np.asarray(submitted(rows) & np.isin(rows["task"], list(tasks)))


def silent(rows: Rows | Columns, tasks: Collection[int]) -> NDArray[Any]:
    """Return the runs on these tasks of agents none of whose runs on them count."""
    others = ~np.isin(rows["agent"], rows["agent"][counted(rows, tasks)])
    return np.asarray(others & np.isin(rows["task"], list(tasks)))


def chosen_version(
    rows_of: dict[str, Callable[[], Rows | Columns]],
    agents: Mapping[int, Agent],
    tasks: Collection[int],
) -> str:
    """Return the version of the judge to rank by, given the runs of each, the oldest first.

    It is the newest one by whose results an agent has a rank: by runs of the arena itself if any
    has, else users could choose it. Where none has, it is the version with the most results, so
    that the first run by a new judge does not empty a board.
    """
    if len(rows_of) < 2:
        return next(iter(rows_of), "")
    read: dict[str, Rows | Columns] = {}
    closed = [pk for pk, agent in agents.items() if not agent.open_book]
    here = [pk for pk in closed if agents[pk].adapter != EXTERNAL]
    results: dict[str, int] = {}
    for own in (True, False):
        for version in reversed(rows_of):
            if version not in read:
                read[version] = rows_of[version]()
            rows = read[version]
            chosen = counted(rows, tasks) & np.isin(rows["agent"], here if own else closed)
            if own:
                chosen &= rows["by_arena"]
            pairs = np.unique(np.stack([rows["agent"][chosen], rows["task"][chosen]]), axis=1)
            results[version] = pairs.shape[1]
            by_agent = np.unique(pairs[0], return_counts=True)[1]
            if by_agent.max(initial=0) >= needed_of(len(tasks)):
                return version
    return max(results, key=results.__getitem__)  # of equals the newest


def rank(
    rows: Rows | Columns,
    agents: Mapping[int, Agent],
    tasks: Collection[int],
    generalization: str = UNSEEN,
    score: str = SPEEDUP,
) -> Ranking:
    """Rank the agents of these runs, of which each place has one, over a set of tasks."""
    chosen = Columns(rows, np.flatnonzero(counted(rows, tasks) | silent(rows, tasks)))
    return rank_cells(cells_of(chosen), agents, len(tasks), generalization, score)


def cells_of(rows: Rows | Columns) -> Cells:
    """Return the cells of these runs, by agent, then by entry."""
    ids, agent_of = np.unique(rows["agent"], return_inverse=True)
    radix = 1 + (int(rows["hardware"].max()) if len(rows) else 0)
    pairs = rows["task"] * radix + rows["hardware"]
    entries, entry_of = np.unique(pairs, return_inverse=True)
    width = max(1, len(entries))
    keys = agent_of * width + entry_of
    order = np.lexsort((rows["repeat"], keys))  # so that sums do not depend on the order of rows
    rows, keys = Columns(rows, order), keys[order]
    first = np.append(True, keys[1:] != keys[:-1])[: len(rows)]
    cell_of, keys = np.cumsum(first) - 1, keys[first]
    count = len(keys)
    runs = {which: logs_of(rows, which) for which in (*GENERALIZATIONS, GAP)}
    gains = {which: gains_of(runs[which]) for which in GENERALIZATIONS}
    gains[SOL] = sol_gains(rows, runs[SEEN], runs[UNSEEN])
    columns = _summands(rows)
    sums: dict[str, NDArray[Any]] = {
        name: np.bincount(cell_of, column, count) for name, column in columns.items()
    }
    sums["solved"] = sums["passed"] / np.maximum(sums["runs"], 1)
    return Cells(
        agents=ids.tolist(),
        entries=len(entries),
        agent=keys // width,
        entry=keys % width,
        entry_of_row=entry_of,
        logs={which: combined(logs, cell_of, count) for which, logs in runs.items()},
        gains={which: combined(each, cell_of, count) for which, each in gains.items()},
        sums=sums,
    )


def rank_cells(
    cells: Cells,
    agents: Mapping[int, Agent],
    size: int,
    generalization: str,
    score: str,
) -> Ranking:
    """Rank the agents of these cells over a set of `size` tasks by one of SCORES."""
    if generalization not in GENERALIZATIONS:
        raise ValueError(f"{generalization!r} is not one of {(*GENERALIZATIONS,)}")
    prefix = SCORES[score]
    needed = needed_of(size)
    if not len(cells.agent):
        return Ranking([], size, needed)
    numbers, of_cell = np.unique(cells.agent, return_inverse=True)
    named = [agents[cells.agents[number]] for number in numbers.tolist()]
    scores = _Scores(cells, of_cell, len(named), size, generalization)
    rows = [_row(agent, n, scores, size) for n, agent in enumerate(named)]
    rows.sort(key=lambda row: (*_key(row, prefix), row["agent"].slug))
    reasons = _unranked(rows, needed)
    placed = _placed([row for row, why in zip(rows, reasons, strict=True) if not why], prefix)
    others = [
        row | {"unranked": why}
        for reason in UNRANKED
        for row, why in zip(rows, reasons, strict=True)
        if why == reason
    ]
    return Ranking([Row(**values) for values in (*placed, *others)], size, needed)


def logs_of(rows: Columns, which: str) -> NDArray[Any]:
    """Return middle, lower and upper half of each run's log speedup, widened as `measured` does.

    NaN for a run that did not pass or was not timed; the share retained is NaN for a noisy one too.
    """
    if which == GAP:
        (top, above, below), (bottom, under, over) = logs_of(rows, UNSEEN), logs_of(rows, SEEN)
        sure = np.where(rows["noisy"], np.nan, top - bottom)
        return np.stack([sure, np.hypot(above, over), np.hypot(below, under)])
    prefix = "" if which == SEEN else "unseen_"
    speedup = np.where(
        rows["passed"] & (rows[f"{prefix}speedup"] > 0), rows[f"{prefix}speedup"], np.nan
    )
    low = np.where(rows[f"{prefix}low"] > 0, rows[f"{prefix}low"], speedup)
    high = np.where(rows[f"{prefix}high"] > 0, rows[f"{prefix}high"], speedup)
    spread = Z_95 * RUN_LOG_STD
    below = np.hypot(np.log(np.maximum(speedup / low, 1.0)), spread)
    above = np.hypot(np.log(np.maximum(high / speedup, 1.0)), spread)
    return np.stack([np.log(speedup), below, above])


def gains_of(logs: NDArray[Any]) -> NDArray[Any]:
    """Return what each run's log speedup counts over the set: 0 unless it is surely above 0."""
    middle, below, _ = logs
    return np.where(middle - below > 0, logs, 0.0)  # False where it is NaN


def combined(logs: NDArray[Any], groups: NDArray[Any], count: int) -> NDArray[Any]:
    """Return the geometric means of the independent speedups of each of `count` groups."""
    known = ~np.isnan(logs[0])
    inside = groups[known]
    sizes = np.bincount(inside, minlength=count).astype(float)
    sizes[sizes == 0] = np.nan
    return _means(logs[:, known], inside, sizes)


def _means(logs: NDArray[Any], groups: NDArray[Any], sizes: NDArray[Any]) -> NDArray[Any]:
    """Return the sums of independent logs over groups, each divided by its size."""
    count = len(sizes)
    middle = np.bincount(groups, logs[0], count) / sizes
    ends = [np.sqrt(np.bincount(groups, half**2, count)) / sizes for half in logs[1:]]
    return np.stack([middle, *ends])


def _summands(rows: Columns) -> dict[str, NDArray[Any]]:
    """Return what is added up over runs: figures, and counts of runs of which they are known."""
    costs, tokens = rows["cost_usd"], rows["tokens"]
    shares = rows["passed"] & (rows["roofline_share"] > 0)
    sized = rows["passed"] & (rows["memory_ratio"] > 0)
    return {
        "runs": np.ones(len(rows)),
        "passed": rows["passed"],
        "noisy": rows["noisy"],
        "rounds": rows["rounds"],
        "seconds": rows["seconds"],
        "cost": np.nan_to_num(costs),
        "priced": ~np.isnan(costs),
        "unpriced": np.isnan(costs) & ~np.isnan(tokens),
        "tokens": np.nan_to_num(tokens),
        "counted": ~np.isnan(tokens),
        "log_share": np.log(np.where(shares, rows["roofline_share"], 1.0)),
        "shares": shares,
        "log_memory": np.log(np.where(sized, rows["memory_ratio"], 1.0)),
        "sized": sized,
    }


class _Scores:
    """The sums and speedups of each of `count` agents; `over_set` is what they rank by."""

    def __init__(
        self, cells: Cells, of_cell: NDArray[Any], count: int, size: int, generalization: str
    ) -> None:
        self.sums = {
            name: np.bincount(of_cell, column, count).tolist()
            for name, column in cells.sums.items()
        }
        self.tasks = np.bincount(of_cell, minlength=count).tolist()
        self.noisy = np.bincount(of_cell, cells.sums["noisy"] > 0, count).astype(int).tolist()
        sizes = np.full(count, float(size))
        self.over_set = _intervals(_means(cells.gains[generalization], of_cell, sizes))
        gain, below, above = _means(cells.gains[SOL], of_cell, sizes)
        self.sol = (PARITY + np.stack([gain, gain - below, gain + above])).T.tolist()
        self.solved = {
            which: _intervals(combined(logs, of_cell, count)) for which, logs in cells.logs.items()
        }


def _row(agent: Agent, number: int, scores: _Scores, size: int) -> dict[str, Any]:
    """Return the columns of an agent, which has no rank yet."""
    sums = {name: column[number] for name, column in scores.sums.items()}
    passed, total, solved = int(sums["passed"]), int(sums["runs"]), round(sums["solved"], 6)
    cost = None if sums["unpriced"] or not sums["priced"] else sums["cost"]
    tokens = int(sums["tokens"]) if sums["counted"] else None
    gap = scores.solved[GAP][number]
    shares, sized = sums["shares"], sums["sized"]
    over_set = scores.over_set[number] if passed or sums["rounds"] else None
    return {
        "rank": None,
        "tied": False,
        "unranked": "",
        "agent": agent,
        "passed": passed,
        "total": total,
        "tasks": scores.tasks[number],
        "size": size,
        "solved": solved,
        "pass_rate": solved / size,
        **_columns("set_", over_set),
        **_columns("", scores.solved[SEEN][number]),
        **_columns("unseen_", scores.solved[UNSEEN][number]),
        "noisy": scores.noisy[number],
        "gap": gap.speedup if gap else None,
        "roofline_share": math.exp(sums["log_share"] / shares) if shares else None,
        **{
            f"sol_{end}": value if shares else None
            for end, value in zip(("score", "low", "high"), scores.sol[number], strict=True)
        },
        "memory_ratio": math.exp(sums["log_memory"] / sized) if sized else None,
        "rounds": sums["rounds"] / total,
        "seconds": sums["seconds"] / total,
        "cost": cost,
        "tokens": tokens,
        "cost_per_solved": cost / passed if cost is not None and passed else None,
        "tokens_per_solved": tokens / passed if tokens is not None and passed else None,
    }


def _unranked(rows: Sequence[dict[str, Any]], needed: int) -> list[str]:
    """Return why each agent has no rank, given best first; empty for one that has."""
    users: set[int] = set()
    found = []
    for row in rows:
        agent = row["agent"]
        user = agent.owner_id if agent.adapter == EXTERNAL else None
        if agent.open_book:
            found.append(OPEN_BOOK)
        elif not (row["passed"] or row["rounds"]):
            found.append(NO_SUBMISSION)
        elif row["tasks"] < needed:
            found.append(PROVISIONAL)
        elif user is not None and user in users:
            found.append(SAME_USER)
        else:
            found.append("")
            if user is not None:
                users.add(user)
    return found


def _placed(rows: Sequence[dict[str, Any]], prefix: str) -> list[dict[str, Any]]:
    """Return the columns with the rank, given best first; equals share one.

    `prefix` is that of the columns of the score that ranks.
    """
    found: list[dict[str, Any]] = []
    for position, row in enumerate(rows, start=1):
        above = found[-1] if found else None
        equal = above is not None and _key(above, prefix) == _key(row, prefix)
        same_share = above is not None and above["pass_rate"] == row["pass_rate"]
        found.append(
            row
            | {
                "rank": above["rank"] if above and equal else position,
                "tied": bool(
                    above and same_share and _end(row, prefix, "high") >= _end(above, prefix, "low")
                ),
            }
        )
    return found


def _intervals(logs: NDArray[Any]) -> list[Interval | None]:
    """Return the speedups and their intervals; None where there is none."""
    middle, below, above = logs
    ends = np.exp(np.stack([middle, middle - below, middle + above])).T.tolist()
    return [None if math.isnan(each[0]) else Interval(*each) for each in ends]


def _columns(prefix: str, interval: Interval | None) -> dict[str, float | None]:
    ends = ("speedup", "low", "high")
    return {f"{prefix}{end}": getattr(interval, end, None) for end in ends}


def _key(row: dict[str, Any], prefix: str) -> tuple[float, float]:
    """Return what an agent is ranked by, the least first."""
    return -row["pass_rate"], -_end(row, prefix, "low")


def _end(row: dict[str, Any], prefix: str, name: str) -> float:
    """Return an end of the interval of the score that ranks; an unknown one is at parity."""
    value: float | None = row[prefix + name]
    return PARITY if value is None else value
