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
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arena.catalog.models import Agent
from arena.leaderboard.intervals import RUN_LOG_STD, Z_95, overlap
from arena.leaderboard.results import Rows
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
    """The results of each agent on each task and device, combined over repeats.

    `agent` and `entry` number both. `logs` has, for each kind of speedup, the middle of its log and
    the distances to both ends of its interval; NaN where no repeat passed and was timed.
    """

    agent: NDArray[Any]
    entry: NDArray[Any]
    solved: NDArray[Any]
    logs: Mapping[str, NDArray[Any]]


def rank(rows: Rows, agents: Mapping[int, Agent], generalization: str = UNSEEN) -> Ranking:
    """Rank the agents of these runs, of which each place has one."""
    if generalization not in GENERALIZATIONS:
        raise ValueError(f"{generalization!r} is not one of {(*GENERALIZATIONS,)}")
    if not len(rows):
        return Ranking([], 0, 0)
    ids, agent_of = np.unique(rows["agent"], return_inverse=True)
    pairs = np.stack([rows["task"], rows["hardware"]])
    entry_of = np.unique(pairs, axis=1, return_inverse=True)[1].reshape(-1)
    cells = _cells(rows, agent_of, entry_of)
    attempted = np.zeros((len(ids), entry_of.max() + 1), bool)
    attempted[cells.agent, cells.entry] = True
    named = [agents[pk] for pk in ids.tolist()]
    closed = [number for number, agent in enumerate(named) if not agent.open_book]
    ranked, common = _common(attempted, closed, [agent.slug for agent in named])
    board = int(attempted[closed].any(axis=0).sum()) if closed else 0
    everything = np.ones(attempted.shape[1], bool)
    scored = []
    for number, agent in enumerate(named):
        own = _of_agent(cells, number, everything)
        counted = _of_agent(cells, number, common) if number in ranked else own
        row = _row(rows[agent_of == number], agent, own, counted, board)
        if number in ranked:
            count = int(common.sum())
            row = replace(row, common=count, share=row.common_solved / count)
        else:
            row = replace(row, unranked=OPEN_BOOK if agent.open_book else FEW_COMMON, common=0)
        scored.append((row, _interval(counted[1][generalization])))
    scored.sort(key=lambda pair: _order(*pair))
    placed = _placed([pair for pair in scored if not pair[0].unranked])
    others = [row for row, _ in scored if row.unranked == FEW_COMMON]
    others += [row for row, _ in scored if row.unranked == OPEN_BOOK]
    return Ranking(placed + others, board, int(common.sum()) if ranked else 0)


def logs_of(rows: Rows, which: str) -> NDArray[Any]:
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


def _cells(rows: Rows, agent_of: NDArray[Any], entry_of: NDArray[Any]) -> Cells:
    width = int(entry_of.max()) + 1
    keys, cell_of = np.unique(agent_of.astype("i8") * width + entry_of, return_inverse=True)
    repeats = np.bincount(cell_of)
    passed = np.bincount(cell_of, rows["passed"])
    logs = {which: combined(logs_of(rows, which), cell_of, len(keys)) for which in GENERALIZATIONS}
    return Cells(keys // width, keys % width, passed / repeats, logs)


def _common(
    attempted: NDArray[Any], agents: Sequence[int], slugs: Sequence[str]
) -> tuple[set[int], NDArray[Any]]:
    """Return the agents to rank and the tasks that all of them attempted.

    While these are too few, the agent goes that shares the fewest with the others.
    """
    ranked = list(agents)
    while ranked:
        tried = attempted[ranked]
        common: NDArray[Any] = np.asarray(tried.all(axis=0))
        needed = max(1.0, MIN_COMMON_SHARE * float(np.median(tried.sum(axis=1))))
        if len(ranked) == 1 or common.sum() >= needed:
            return set(ranked), common
        shared = (tried.astype("f4") @ tried.astype("f4").T).sum(axis=1) - tried.sum(axis=1)
        worst = min(
            range(len(ranked)),
            key=lambda n: (shared[n], tried[n].sum(), [-ord(c) for c in slugs[ranked[n]]]),
        )
        ranked.pop(worst)
    return set(), np.zeros(attempted.shape[1], bool)


def _of_agent(
    cells: Cells, number: int, entries: NDArray[Any]
) -> tuple[float, dict[str, NDArray[Any]]]:
    """Return the tasks that an agent solved among `entries`, and its speedups over them."""
    mine = (cells.agent == number) & entries[cells.entry]
    group = np.zeros(int(mine.sum()), int)
    speedups = {
        which: combined(logs[:, mine], group, 1)[:, 0] for which, logs in cells.logs.items()
    }
    return round(float(cells.solved[mine].sum()), 6), speedups


def _row(
    rows: Rows,
    agent: Agent,
    own: tuple[float, dict[str, NDArray[Any]]],
    counted: tuple[float, dict[str, NDArray[Any]]],
    board: int,
) -> Row:
    """Return the unplaced row of an agent from its runs."""
    tasks = len(np.unique(np.stack([rows["task"], rows["hardware"]]), axis=1)[0])
    passed = int(rows["passed"].sum())
    shares = rows["roofline_share"][rows["passed"]]
    shares = shares[shares > 0]
    cost, tokens = _spent(rows)
    gap = _interval(counted[1][GAP])
    return Row(
        rank=None,
        band=None,
        unranked="",
        agent=agent,
        passed=passed,
        total=len(rows),
        tasks=tasks,
        board=tasks if agent.open_book else board,
        solved=own[0],
        common=0,
        common_solved=counted[0],
        share=own[0] / tasks,
        **_columns("", counted[1][SEEN]),
        **_columns("unseen_", counted[1][UNSEEN]),
        **_columns("own_unseen_", own[1][UNSEEN]),
        gap=gap.speedup if gap else None,
        roofline_share=float(np.exp(np.log(shares).mean())) if len(shares) else None,
        rounds=float(rows["rounds"].mean()),
        seconds=float(rows["seconds"].mean()),
        cost=cost,
        tokens=tokens,
        cost_per_solved=cost / passed if cost is not None and passed else None,
        tokens_per_solved=tokens / passed if tokens is not None and passed else None,
    )


def _spent(rows: Rows) -> tuple[float | None, int | None]:
    costs, tokens = rows["cost_usd"], rows["tokens"]
    unpriced = bool((np.isnan(costs) & ~np.isnan(tokens)).any())
    cost = None if unpriced or np.isnan(costs).all() else math.fsum(costs[~np.isnan(costs)])
    return cost, None if np.isnan(tokens).all() else int(np.nansum(tokens))


def _placed(scored: Sequence[tuple[Row, Interval | None]]) -> list[Row]:
    """Return the rows with their rank; a band is compared with its leader only."""
    rows: list[Row] = []
    leader: tuple[Row, Interval | None] | None = None
    band = 0
    for position, (row, speedup) in enumerate(scored, start=1):
        if leader is None or not _tied(row, speedup, *leader):
            band, leader = position, (row, speedup)
        rows.append(replace(row, rank=position, band=band))
    return rows


def _interval(logs: NDArray[Any]) -> Interval | None:
    middle, below, above = logs.tolist()
    if math.isnan(middle):
        return None
    return Interval(math.exp(middle), math.exp(middle - below), math.exp(middle + above))


def _columns(prefix: str, logs: NDArray[Any]) -> dict[str, float | None]:
    interval = _interval(logs)
    values = asdict(interval) if interval else dict.fromkeys(("speedup", "low", "high"))
    return {f"{prefix}{name}": value for name, value in values.items()}


def _order(row: Row, speedup: Interval | None) -> tuple[float, float, str]:
    return (-row.share, -speedup.speedup if speedup else 0.0, row.agent.slug)


def _tied(row: Row, speedup: Interval | None, leader: Row, leading: Interval | None) -> bool:
    """Return whether a row does not differ significantly from the leader of a band."""
    if row.share != leader.share or (speedup is None) != (leading is None):
        return False
    return speedup is None or leading is None or overlap(speedup, leading)
