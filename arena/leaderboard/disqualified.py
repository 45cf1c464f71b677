"""The agents and runs that staff took out of the ranks, with the public reason of each."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from arena.catalog.models import Agent
from arena.leaderboard.ranking.results import Snapshot, computed
from arena.runs.models import Run

MAX_LISTED = 20


@dataclass(frozen=True)
class Disqualified:
    """An agent or a run in quarantine; its page and its evidence stay where they were."""

    name: str
    address: str
    reason: str
    since: datetime


def disqualified(shown: Snapshot) -> list[Disqualified]:
    """Return what is in quarantine, the newest first: at most MAX_LISTED of them."""
    return computed(shown, "disqualified", lambda: _disqualified(shown))


def _disqualified(shown: Snapshot) -> list[Disqualified]:
    runs = Run.objects.public().exclude(quarantined_at=None).select_related("agent")
    newest = runs.order_by("-quarantined_at")[:MAX_LISTED]
    named: list[tuple[str, Run | Agent]]
    named = [(f"{run.agent.title}, run {run.pk}", run) for run in newest]
    named += [(agent.title, agent) for agent in shown.agents.values() if agent.quarantined_at]
    found = [
        Disqualified(name, each.get_absolute_url(), each.quarantine_reason, each.quarantined_at)
        for name, each in named
        if each.quarantined_at
    ]
    return sorted(found, key=lambda each: each.since, reverse=True)[:MAX_LISTED]
