"""Scores that public suites report themselves, from the runs of a board."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from arena.catalog.models import Agent
from arena.leaderboard.ranking.columns import Columns
from arena.leaderboard.ranking.rankings import counted

FAST_P = (0.0, 0.5, 0.8, 1.0, 1.5, 2.0)
"""Speedups that KernelBench reports; at 0 it is the share of correct submissions."""


@dataclass(frozen=True)
class FastP:
    """The score of one agent: of all tasks, the share that passed above each of `FAST_P`.

    It attempted `tasks` of them.
    """

    agent: Agent
    tasks: int
    shares: tuple[float, ...]


def fast_p(rows: Columns, agents: Mapping[int, Agent], tasks: Collection[int]) -> list[FastP]:
    """Return the score over these tasks of each agent of these runs, the highest fast_1 first.

    Speedups are those of the public cases, which have the suite's own sizes. Repeats of a task
    share its weight. A task that was not attempted is not correct, and a passed run without a
    speedup is correct and fast at no threshold.

    Source: Ouyang et al., "KernelBench", 2025.
    """
    found = []
    rows = rows.among(counted(rows, tasks))
    for pk in np.unique(rows["agent"]).tolist():
        own = rows.among(rows["agent"] == pk)
        pairs = np.stack([own["task"], own["hardware"]])
        places, of_row = np.unique(pairs, axis=1, return_inverse=True)
        of_row = of_row.reshape(-1)
        repeats = np.bincount(of_row)
        speedup = np.nan_to_num(own["speedup"], nan=0.0)
        shares = []
        for threshold in FAST_P:
            fast = own["passed"] & ((speedup > threshold) | (threshold == 0.0))
            shares.append(float((np.bincount(of_row, fast) / repeats).sum()) / len(tasks))
        found.append(FastP(agents[pk], places.shape[1], tuple(shares)))
    one = FAST_P.index(1.0)
    return sorted(found, key=lambda score: (-score.shares[one], -score.shares[0], score.agent.slug))
