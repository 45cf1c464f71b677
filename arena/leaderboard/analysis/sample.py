"""The sample of runs that the statistics of the analysis page are about."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from arena.leaderboard.analysis.statistics import Rounds, Runs, Sample
from arena.leaderboard.analysis.verdicts import GATES, Verdicts, verdicts
from arena.leaderboard.ranking.filters import ARENA
from arena.leaderboard.ranking.results import Snapshot
from evaluation.types import GateName

NO_GATE = "nothing judged"
"""The class of a run that failed without a failed gate, for example one that submitted nothing."""
COMPILE = 1 << GATES.index(GateName.COMPILE)


def sample_of(shown: Snapshot, chosen: Mapping[str, str]) -> Sample:
    """Return the runs that these filters leave, and their rounds.

    Open-book agents and those that users bring are left out, unless the filter names one.
    """
    table = shown.table
    mask = table.newest & table.mask(chosen)
    if not chosen.get("agent"):
        closed = [pk for pk, agent in shown.agents.items() if not agent.open_book]
        mask &= table.mask({"origin": ARENA}) & np.isin(table.rows["agent"], closed)
    judged = verdicts(shown).of_runs(mask)
    return Sample(_runs(shown, mask, judged), _rounds(judged))


def _runs(shown: Snapshot, mask: NDArray[np.bool_], judged: Verdicts) -> Runs:
    rows, facet = shown.table.rows.among(mask), shown.table.facets["category"]
    names = np.array([*facet.values, ""], "O")
    return Runs(
        task=rows["task"],
        task_version=rows["task_version"],
        category=names[facet.numbers[mask]].tolist(),
        agent=rows["agent"],
        hardware=rows["hardware"],
        passed=rows["passed"],
        unseen_speedup=rows["unseen_speedup"],
        failure=_failures(mask, rows["passed"], judged),
        failures=(*GATES, NO_GATE),
    )


def _failures(mask: NDArray[np.bool_], passed: NDArray[np.bool_], judged: Verdicts) -> list[str]:
    """Return the gate at which the last verdict of each run failed; "" for a run that passed."""
    names = np.array([*GATES, NO_GATE, ""], "O")
    gate = np.full(len(judged), len(GATES))
    gate[judged.failure[::-1]] = judged.gate[::-1]  # of several gates the first
    order = np.lexsort((judged.round, judged.final))  # the final verdict comes last, then the round
    of_run = np.full(len(mask), len(GATES))
    of_run[judged.run[order]] = gate[order]
    found: list[str] = names[np.where(passed, len(GATES) + 1, of_run[mask])].tolist()
    return found


def _rounds(judged: Verdicts) -> Rounds:
    rounds = judged.among(~judged.final)
    return Rounds(
        run=rounds.run,
        number=rounds.round,
        compiled=(rounds.passed & COMPILE) > 0,
        passed=~rounds.failed,
        speedup=rounds.speedup,
        low=rounds.low,
    )
