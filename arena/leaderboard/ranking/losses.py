"""Runs whose kernel wins alone and loses in its model, counted by agent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

import numpy as np

from arena.leaderboard.ranking.boards import results
from arena.leaderboard.ranking.filters import Filters
from arena.leaderboard.ranking.results import Snapshot, computed
from arena.runs.models import GateResult
from arena.runs.states import Scope
from evaluation.judge.kinds import kinds
from evaluation.types import GateName


def losses(shown: Snapshot, filters: Filters) -> Mapping[int, int]:
    """Return in how many tasks each agent's run wins alone and loses deployed, by agent id."""
    losing = computed(shown, "losses", _losing)
    rows = results(shown, filters)
    loses = np.array([run in losing for run in rows["run"].tolist()], bool)
    pairs = set(zip(rows["agent"][loses].tolist(), rows["task"][loses].tolist(), strict=True))
    return Counter(agent for agent, _ in pairs)


def _losing() -> Collection[str]:
    """Return the runs whose final verdict says that they win alone and lose deployed."""
    run = "evaluation__submission__run"
    found = GateResult.objects.filter(
        gate=GateName.PERFORMANCE,
        evaluation__scope=Scope.FINAL,
        evaluation__noisy=False,
        detail__wins_alone_loses_deployed=True,
        **{f"{run}__task_version__task__track__in": [k.track for k in kinds() if k.deployed]},
    )
    return frozenset(found.order_by().values_list(run, flat=True))
