"""The pages of agents: the list, with what each needs to run here, and one agent."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from django.db.models import Count, Sum
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.utils.text import Truncator
from django.views.decorators.http import require_safe

from arena.catalog.availability import (
    Availability,
    availabilities,
    availability,
    live_workers,
    progress,
)
from arena.catalog.models import EXTERNAL, Agent, Harness
from arena.leaderboard.boards import Board, Filters, boards, categories
from arena.leaderboard.rankings import Row
from arena.leaderboard.views.board import scale_of
from arena.leaderboard.views.home import unseen_scale
from arena.runs.models import Evaluation, Run
from arena.runs.querysets import RunQuerySet

MAX_RECENT_RUNS = 20
MAX_SETTINGS_TEXT = 120
MAX_VALUE_TEXT = 32
CAN_RUN, CANNOT_RUN = "can-run", "cannot-run"
AVAILABILITY = ((CAN_RUN, "Can run here"), (CANNOT_RUN, "Cannot run yet"))


@dataclass(frozen=True)
class Spent:
    """Runs of an agent, with their cost and tokens; None where no run reported any."""

    runs: int = 0
    cost_usd: float | None = None
    tokens: int | None = None


@dataclass(frozen=True)
class Listed:
    """One agent of the list; `row` is its place on the board of the device with most results."""

    agent: Agent
    harness: str
    availability: Availability
    row: Row | None
    device: str
    spent: Spent

    @property
    def settings(self) -> str:
        """Return its settings as one short line."""
        settings = self.agent.settings.items()
        parts = (f"{name.replace('_', ' ')} {_short(value)}" for name, value in settings)
        return Truncator(", ".join(parts)).chars(MAX_SETTINGS_TEXT)


@require_safe
def agents(request: HttpRequest) -> HttpResponse:
    """List the agents that can run here, then the others by what they lack."""
    chosen = {name: request.GET.get(name, "") for name in ("harness", "availability")}
    harnesses = {harness.name: harness.title for harness in Harness.objects.all()}
    found = Agent.objects.filter(**({"adapter": chosen["harness"]} if chosen["harness"] else {}))
    listed = _listed(list(found), harnesses, Run.objects.visible_to(request.user))
    active = [each for each in listed if each.agent.active]
    lacking: dict[Availability, list[Listed]] = {}
    for each in active:
        if not each.availability.available:
            missing = replace(each.availability, version="")
            lacking.setdefault(missing, []).append(each)
    context = {
        "chosen": chosen,
        "harnesses": harnesses.items(),
        "options": AVAILABILITY,
        "ready": [each for each in active if each.availability.available],
        "lacking": sorted(lacking.items(), key=lambda group: -progress(group[0])),
        "external": [each for each in listed if each.agent.adapter == EXTERNAL and each.spent.runs],
        "retired": [
            each
            for each in listed
            if not each.agent.active and each.agent.adapter != EXTERNAL and request.user.is_staff
        ],
        "show_ready": chosen["availability"] != CANNOT_RUN,
        "show_lacking": chosen["availability"] != CAN_RUN,
        "count": len(active),
    }
    return render(request, "agents.html", context)


@require_safe
def agent(request: HttpRequest, slug: str) -> HttpResponse:
    shown = get_object_or_404(Agent, slug=slug)
    runs = Run.objects.visible_to(request.user).with_names().filter(agent=shown)
    recent = list(runs[:MAX_RECENT_RUNS])
    places = [(b, row) for b in boards() for row in b.rows if row.agent.pk == shown.pk]
    asked = request.GET.get("hardware", "")
    chosen = [each for each in places if each[0].filters.hardware == asked]
    place = next(iter(chosen or places), None)
    strengths = _categories(place[0], shown) if place else []
    verdicts = _verdicts(runs)
    counts: Counter[str] = Counter()
    for verdict, _, _, count in verdicts:
        counts[verdict] += count
    harness = Harness.objects.filter(name=shown.adapter).first()
    context = {
        "agent": shown,
        "harness": harness,
        "availability": availability(shown, live_workers(), harness),
        "spent": _spent(runs).get(shown.pk, Spent()),
        "places": places,
        "board": place and place[0],
        "row": place and place[1],
        "places_scale": scale_of(row for _, row in places),
        "categories": strengths,
        "scale": scale_of(row for _, row in strengths),
        "recent": recent,
        "recent_scale": unseen_scale(recent),
        "failures": [each for each in verdicts if each[0] in ("failed", "rejected")],
        "judged": counts.total(),
        "passed": counts["passed"],
        "rejected": counts["rejected"],
        "disputed": counts["disputed"],
    }
    return render(request, "agent.html", context)


def _verdicts(runs: RunQuerySet) -> list[tuple[str, str, str, int]]:
    """Return verdict, reason, scope and count of the evaluations of these runs."""
    ended = Evaluation.objects.filter(submission__run__in=runs.order_by()).exclude(verdict="")
    counted = ended.counted().order_by().values_list("verdict", "reason", "scope")
    return sorted(counted.annotate(Count("pk")), key=lambda each: (-each[-1], each))


def _categories(board: Board, agent: Agent) -> list[tuple[str, Row]]:
    """Return the place of an agent on the ranking of each category of a board."""
    found = categories(Filters(hardware=board.filters.hardware))
    return [(n, row) for n, each in found.items() for row in each.rows if row.agent.pk == agent.pk]


def _placed(found: tuple[Row, Board] | None) -> tuple[Row | None, str]:
    if found is None:
        return None, ""
    row, board = found
    return row, board.device.name if board.device else ""


def _listed(
    agents: Sequence[Agent], harnesses: Mapping[str, str], runs: RunQuerySet
) -> list[Listed]:
    """Return the agents with their availability, place and spending, in a few queries."""
    found, spent = availabilities(agents), _spent(runs)
    rows = {row.agent.pk: (row, b) for b in reversed(boards()) for row in b.rows}
    return [
        Listed(
            agent,
            harnesses.get(agent.adapter, agent.adapter),
            found[agent.pk],
            *_placed(rows.get(agent.pk)),
            spent.get(agent.pk, Spent()),
        )
        for agent in agents
    ]


def _spent(runs: RunQuerySet) -> dict[int, Spent]:
    """Return the runs, cost and tokens of each agent by its id."""
    sums = (
        runs.order_by().values_list("agent").annotate(Count("pk"), Sum("cost_usd"), Sum("tokens"))
    )
    return {agent: Spent(*values) for agent, *values in sums}


def _short(value: object) -> str:
    text = value if isinstance(value, str) and " " not in value else json.dumps(value)
    return Truncator(text).chars(MAX_VALUE_TEXT)
