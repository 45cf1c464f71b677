"""The ranking of agents that the pages and the API show: the only one.

Agents are ranked on common tasks: those that every ranked agent attempted. They are ordered by the
share of these that they passed, then by their speedup: the geometric mean over those passed. A
failed task lowers the share and does not enter the mean. The interval of an agent combines those of
its tasks as independent, in log space.

An agent that would leave the others too few common tasks is listed without a rank, as is an
open-book agent. Their numbers are of their own tasks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arena.catalog.models import Agent
from arena.leaderboard.columns import Columns, Rows
from arena.leaderboard.intervals import RUN_LOG_STD, Z_95, overlap
from evaluation.types import Interval

SEEN, UNSEEN, GAP = "seen", "unseen", "gap"
GENERALIZATIONS = {UNSEEN: "held-out", SEEN: "public", GAP: "retained"}
"""The speedups to rank by, with the label of each; the headline first."""
MIN_COMMON_SHARE = 0.25
"""Least share of the tasks that the median agent attempted for which all must have a result."""
OPEN_BOOK, FEW_COMMON = "open-book", "few-common"


@dataclass(frozen=True)
class Row:
    """One agent on the board. Rows with equal `band` do not differ significantly.

    `passed` of `total` counts runs. `tasks` were attempted, of the `board` tasks that any ranked
    agent attempted. `solved` adds, for each task, the share of its repeats that passed;
    `common_solved` does so for the `common` tasks alone, and `share` is what they rank by.
    Speedups are over the common tasks, or over all its tasks for an agent without a rank, for which
    `unranked` has the reason. `own_unseen_*` is over all its tasks for every agent. `cost` is in US
    dollars; it is None where no run used a model, or where the price of one is unknown.
    """

    rank: int | None
    band: int | None
    unranked: str
    agent: Agent
    passed: int
    total: int
    tasks: int
    board: int
    solved: float
    common: int
    common_solved: float
    share: float
    speedup: float | None
    low: float | None
    high: float | None
    unseen_speedup: float | None
    unseen_low: float | None
    unseen_high: float | None
    own_unseen_speedup: float | None
    own_unseen_low: float | None
    own_unseen_high: float | None
    gap: float | None
    roofline_share: float | None
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
    def pass_rate(self) -> float:
        """Share of the attempted tasks that passed."""
        return self.solved / self.tasks

    @property
    def coverage(self) -> float:
        """Share of the board's tasks that were attempted."""
        return self.tasks / self.board if self.board else 1.0

    @property
    def slower(self) -> bool:
        """Return whether it is slower than the baseline on held-out cases."""
        return self.unseen_high is not None and self.unseen_high < 1


@dataclass(frozen=True)
class Ranking:
    """The rows of a board, ranked agents first, and its numbers of tasks."""

    rows: list[Row]
    board: int
    common: int


@dataclass(frozen=True)
class Cells:
    """The results of each agent on each entry, a task and device, combined over repeats.

    `agents` are ids; `agent` and `entry` number both for each cell, `entry_of_row` for each row.
    `logs` has, for each kind of speedup, the middle of its log and the distances to both ends of
    its interval; NaN where no repeat passed and was timed. `sums` are over the runs of the cell.
    """

    agents: list[int]
    entries: int
    agent: NDArray[Any]
    entry: NDArray[Any]
    entry_of_row: NDArray[Any]
    logs: Mapping[str, NDArray[Any]]
    sums: Mapping[str, NDArray[Any]]

    def among(self, entries: NDArray[Any]) -> Cells:
        """Return the cells of the entries of a mask."""
        chosen = entries[self.entry]
        return replace(
            self,
            agent=self.agent[chosen],
            entry=self.entry[chosen],
            logs={which: logs[:, chosen] for which, logs in self.logs.items()},
            sums={name: column[chosen] for name, column in self.sums.items()},
        )


def rank(
    rows: Rows | Columns, agents: Mapping[int, Agent], generalization: str = UNSEEN
) -> Ranking:
    """Rank the agents of these runs, of which each place has one."""
    return rank_cells(cells_of(rows), agents, generalization)


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
    logs = {which: combined(logs_of(rows, which), cell_of, count) for which in GENERALIZATIONS}
    columns = _summands(rows)
    sums: dict[str, NDArray[Any]] = {
        name: np.bincount(cell_of, column, count) for name, column in columns.items()
    }
    sums["solved"] = sums["passed"] / np.maximum(sums["runs"], 1)
    return Cells(ids.tolist(), len(entries), keys // width, keys % width, entry_of, logs, sums)


def rank_cells(cells: Cells, agents: Mapping[int, Agent], generalization: str = UNSEEN) -> Ranking:
    """Rank the agents of these cells."""
    if generalization not in GENERALIZATIONS:
        raise ValueError(f"{generalization!r} is not one of {(*GENERALIZATIONS,)}")
    if not len(cells.agent):
        return Ranking([], 0, 0)
    numbers, of_cell = np.unique(cells.agent, return_inverse=True)
    named = [agents[cells.agents[number]] for number in numbers.tolist()]
    attempted = np.zeros((len(named), cells.entries), bool)
    attempted[of_cell, cells.entry] = True
    closed = [number for number, agent in enumerate(named) if not agent.open_book]
    ranked, common = _common(attempted, closed, [agent.slug for agent in named])
    is_ranked = np.zeros(len(named), bool)
    is_ranked[list(ranked)] = True
    scores = _Scores(cells, of_cell, len(named), common[cells.entry] | ~is_ranked[of_cell])
    board = int(attempted[closed].any(axis=0).sum()) if closed else 0
    size = int(common.sum()) if ranked else 0
    scored = [
        (_row(agent, number, scores, board, size if number in ranked else 0), speedup)
        for number, (agent, speedup) in enumerate(
            zip(named, scores.counted[generalization], strict=True)
        )
    ]
    scored.sort(key=_order)
    placed = _placed([each for each in scored if not each[0]["unranked"]])
    others = [row for row, _ in scored if row["unranked"]]
    others.sort(key=lambda row: row["unranked"] == OPEN_BOOK)
    return Ranking([Row(**values) for values in (*placed, *others)], board, size)


def logs_of(rows: Columns, which: str) -> NDArray[Any]:
    """Return middle, lower and upper half of each run's log speedup, widened as `measured` does.

    NaN for a run that did not pass or was not timed.
    """
    if which == GAP:
        (top, above, below), (bottom, under, over) = logs_of(rows, UNSEEN), logs_of(rows, SEEN)
        return np.stack([top - bottom, np.hypot(above, over), np.hypot(below, under)])
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


def combined(logs: NDArray[Any], groups: NDArray[Any], count: int) -> NDArray[Any]:
    """Return the geometric means of the independent speedups of each of `count` groups."""
    known = ~np.isnan(logs[0])
    inside = groups[known]
    sizes = np.bincount(inside, minlength=count).astype(float)
    sizes[sizes == 0] = np.nan
    middle = np.bincount(inside, logs[0][known], count) / sizes
    ends = [np.sqrt(np.bincount(inside, half[known] ** 2, count)) / sizes for half in logs[1:]]
    return np.stack([middle, *ends])


def _summands(rows: Columns) -> dict[str, NDArray[Any]]:
    """Return what is added up over runs: figures, and counts of runs of which they are known."""
    costs, tokens = rows["cost_usd"], rows["tokens"]
    shares = rows["passed"] & (rows["roofline_share"] > 0)
    return {
        "runs": np.ones(len(rows)),
        "passed": rows["passed"],
        "rounds": rows["rounds"],
        "seconds": rows["seconds"],
        "cost": np.nan_to_num(costs),
        "priced": ~np.isnan(costs),
        "unpriced": np.isnan(costs) & ~np.isnan(tokens),
        "tokens": np.nan_to_num(tokens),
        "counted": ~np.isnan(tokens),
        "log_share": np.log(np.where(shares, rows["roofline_share"], 1.0)),
        "shares": shares,
    }


def _common(
    attempted: NDArray[Any], agents: Sequence[int], slugs: Sequence[str]
) -> tuple[set[int], NDArray[Any]]:
    """Return the agents to rank and the tasks that all of them attempted.

    While these are too few, the agent goes that shares the fewest with the others.
    """
    ranked = list(agents)
    tried = attempted[ranked].astype("f4")
    counts, left = tried.sum(axis=1), list(range(len(ranked)))
    last_first = [[-ord(c) for c in slugs[number]] for number in ranked]
    hits = tried.sum(axis=0)
    shared: NDArray[Any] = np.zeros(0)
    while left:
        common: NDArray[Any] = np.asarray(hits == len(left))
        needed = max(1.0, MIN_COMMON_SHARE * float(np.median(counts[left])))
        if len(left) == 1 or common.sum() >= needed:
            return {ranked[number] for number in left}, common
        if not len(shared):
            pairs = np.einsum("at,bt->ab", tried, tried)  # by one thread, unlike a product
            shared = np.asarray(pairs.sum(axis=1) - counts)
        worst = min(left, key=lambda n: (shared[n], counts[n], last_first[n]))
        left.remove(worst)
        hits, shared = hits - tried[worst], shared - pairs[worst]
    return set(), np.zeros(attempted.shape[1], bool)


class _Scores:
    """The sums and speedups of each of `count` agents.

    Those of `counted` and `solved` are over the `chosen` cells, the others over all.
    """

    def __init__(self, cells: Cells, of_cell: NDArray[Any], count: int, chosen: NDArray[Any]):
        self.sums = {
            name: np.bincount(of_cell, column, count).tolist()
            for name, column in cells.sums.items()
        }
        self.tasks = np.bincount(of_cell, minlength=count).tolist()
        solved = np.bincount(of_cell[chosen], cells.sums["solved"][chosen], count)
        self.solved = solved.tolist()
        self.counted = {
            which: _intervals(combined(logs[:, chosen], of_cell[chosen], count))
            for which, logs in cells.logs.items()
        }
        self.own_unseen = _intervals(combined(cells.logs[UNSEEN], of_cell, count))


def _row(agent: Agent, number: int, scores: _Scores, board: int, common: int) -> dict[str, Any]:
    """Return the columns of an agent; it has no rank yet, or none without `common` tasks."""
    sums = {name: column[number] for name, column in scores.sums.items()}
    tasks, passed, total = scores.tasks[number], int(sums["passed"]), int(sums["runs"])
    solved, common_solved = round(sums["solved"], 6), round(scores.solved[number], 6)
    cost = None if sums["unpriced"] or not sums["priced"] else sums["cost"]
    tokens = int(sums["tokens"]) if sums["counted"] else None
    gap = scores.counted[GAP][number]
    shares = sums["shares"]
    return {
        "rank": None,
        "band": None,
        "unranked": "" if common else OPEN_BOOK if agent.open_book else FEW_COMMON,
        "agent": agent,
        "passed": passed,
        "total": total,
        "tasks": tasks,
        "board": tasks if agent.open_book else board,
        "solved": solved,
        "common": common,
        "common_solved": common_solved,
        "share": common_solved / common if common else solved / tasks,
        **_columns("", scores.counted[SEEN][number]),
        **_columns("unseen_", scores.counted[UNSEEN][number]),
        **_columns("own_unseen_", scores.own_unseen[number]),
        "gap": gap.speedup if gap else None,
        "roofline_share": math.exp(sums["log_share"] / shares) if shares else None,
        "rounds": sums["rounds"] / total,
        "seconds": sums["seconds"] / total,
        "cost": cost,
        "tokens": tokens,
        "cost_per_solved": cost / passed if cost is not None and passed else None,
        "tokens_per_solved": tokens / passed if tokens is not None and passed else None,
    }


Placed = tuple[dict[str, Any], Interval | None]
"""The columns of an agent, and the speedup that it is ranked by."""


def _placed(scored: Sequence[Placed]) -> list[dict[str, Any]]:
    """Return the columns with the rank; a band is compared with its leader only."""
    rows = []
    leader: Placed | None = None
    band = 0
    for position, each in enumerate(scored, start=1):
        if leader is None or not _tied(each, leader):
            band, leader = position, each
        rows.append(each[0] | {"rank": position, "band": band})
    return rows


def _intervals(logs: NDArray[Any]) -> list[Interval | None]:
    """Return the speedups and their intervals; None where there is none."""
    middle, below, above = logs
    ends = np.exp(np.stack([middle, middle - below, middle + above])).T.tolist()
    return [None if math.isnan(each[0]) else Interval(*each) for each in ends]


def _columns(prefix: str, interval: Interval | None) -> dict[str, float | None]:
    if interval is None:
        return dict.fromkeys((f"{prefix}speedup", f"{prefix}low", f"{prefix}high"))
    return {
        f"{prefix}speedup": interval.speedup,
        f"{prefix}low": interval.low,
        f"{prefix}high": interval.high,
    }


def _order(each: Placed) -> tuple[float, float, str]:
    row, speedup = each
    return (-row["share"], -speedup.speedup if speedup else 0.0, row["agent"].slug)


def _tied(each: Placed, leader: Placed) -> bool:
    """Return whether an agent does not differ significantly from the leader of a band."""
    (row, speedup), (first, leading) = each, leader
    if row["share"] != first["share"] or (speedup is None) != (leading is None):
        return False
    return speedup is None or leading is None or overlap(speedup, leading)
