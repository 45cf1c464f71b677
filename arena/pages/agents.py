"""The pages of agents: the list, with what each needs to run here, and one agent."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from django.core.paginator import Paginator
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
from arena.catalog.templatetags.figures import Scale
from arena.filters import unknown_value
from arena.leaderboard.ranking.boards import (
    Board,
    boards,
    boards_of_runs,
    boards_of_tracks,
    categories,
)
from arena.leaderboard.ranking.rankings import Row
from arena.leaderboard.ranking.results import Snapshot, computed, snapshot
from arena.leaderboard.ranking.table import origin_of
from arena.pages.answers import is_inserted
from arena.pages.leaderboard.board import scale_of
from arena.pages.leaderboard.board_view import address_of
from arena.runs.agents import visible_to
from arena.runs.models import Evaluation, Run
from arena.runs.querysets import RunQuerySet
from evaluation.types import Verdict

MAX_RECENT_RUNS = 10
AGENTS_A_PAGE = 50
SPENT_SECONDS = 10
MAX_SETTINGS_TEXT = 120
MAX_VALUE_TEXT = 32
CAN_RUN, CANNOT_RUN = "can-run", "cannot-run"
READY, LACKING, ELSEWHERE, RETIRED = KINDS = ("ready", "lacking", "elsewhere", "retired")
"""Kinds of agents, in the order of the list."""
STATES = {READY: "Can run here", ELSEWHERE: "Runs elsewhere", RETIRED: "Retired"}
AVAILABILITY = ((CAN_RUN, "Can run here"), (CANNOT_RUN, "Cannot run yet"))


@dataclass(frozen=True)
class Spent:
    """Runs of an agent, with their cost and tokens; None where no run reported any."""

    runs: int = 0
    cost_usd: float | None = None
    tokens: int | None = None


@dataclass(frozen=True)
class Listed:
    """One agent of the list; `row` is its place on `board`, the first one of its page."""

    kind: str
    agent: Agent
    harness: str
    availability: Availability
    board: Board | None
    row: Row | None
    spent: Spent

    @property
    def state(self) -> str:
        """Return whether it can run here, or what it lacks."""
        return STATES.get(self.kind, self.availability.label)

    @property
    def settings(self) -> str:
        """Return its settings as one short line."""
        settings = self.agent.settings.items()
        parts = (f"{name.replace('_', ' ')} {_short(value)}" for name, value in settings)
        return Truncator(", ".join(parts)).chars(MAX_SETTINGS_TEXT)


@require_safe
def agents(request: HttpRequest) -> HttpResponse:
    """List the agents in one table: those that can run here, then the others by what they lack."""
    chosen = {name: request.GET.get(name, "") for name in ("harness", "availability")}
    harnesses = {harness.name: harness.title for harness in Harness.objects.all()}
    every = list(visible_to(request.user))
    known = {
        "harness": {*harnesses, *(a.adapter for a in every)},
        "availability": dict(AVAILABILITY),
    }
    asked = [agent for agent in every if chosen["harness"] in ("", agent.adapter)]
    runs = Run.objects.visible_to(request.user)
    spent = _spent_by_all(runs, request.user.is_authenticated)
    found = availabilities(asked)
    placed = [
        (kind, agent)
        for agent in asked
        if (kind := _kind(agent, found[agent.pk], agent.pk in spent, request.user.is_staff))
        and _is_shown(kind, chosen["availability"])
    ]
    placed.sort(key=lambda each: (KINDS.index(each[0]), -progress(found[each[1].pk])))
    page = Paginator(placed, AGENTS_A_PAGE).get_page(request.GET.get("page"))
    ready = sum(kind == READY for kind, _ in placed)
    context = {
        "chosen": chosen,
        "problems": [
            unknown_value(name, value)
            for name, value in chosen.items()
            if value and value not in known[name]
        ],
        "harnesses": harnesses.items(),
        "options": AVAILABILITY,
        "page": page,
        "listed": _listed(page, found, harnesses, spent),
        "ready": ready,
        "count": sum(agent.active for agent in asked),
    }
    return render(request, "agents.html", context)


def _kind(agent: Agent, found: Availability, has_run: bool, staff: bool) -> str:
    """Return the kind of an agent; empty if the list leaves it out."""
    if agent.adapter == EXTERNAL:
        return ELSEWHERE if has_run else ""
    if not agent.active:
        return RETIRED if staff else ""
    return READY if found.available else LACKING


def _is_shown(kind: str, availability: str) -> bool:
    hidden = {CAN_RUN: LACKING, CANNOT_RUN: READY}
    return kind != hidden.get(availability)


@require_safe
def agent(request: HttpRequest, slug: str) -> HttpResponse:
    shown = get_object_or_404(visible_to(request.user), slug=slug)
    runs = Run.objects.visible_to(request.user).filter(agent=shown)
    recent = list(runs.with_names()[:MAX_RECENT_RUNS])
    places = _places(shown, snapshot())
    asked = request.GET.get("hardware", "")
    chosen = [each for each in places if each[0].filters.hardware == asked]
    place = next(iter(chosen or places), None)
    strengths = _categories(place[0], shown) if place else []
    of_categories = [
        (name, row, address_of(replace(place[0].filters, category=name)))
        for name, row in strengths
        if place
    ]
    harness = Harness.objects.filter(name=shown.adapter).first()
    context = {
        "agent": shown,
        "harness": harness,
        "availability": availability(shown, live_workers(), harness),
        "spent": _spent(runs).get(shown.pk, Spent()),
        "places": [(board, row, address_of(board.filters)) for board, row in places],
        "devices": list(dict.fromkeys(each.device for each, _ in places)),
        "board": place and place[0],
        "row": place and place[1],
        "places_scale": scale_of(row for _, row in places),
        "categories": of_categories,
        "scale": Scale.over([row for _, row in strengths], "unseen_low", "unseen_high"),
        "recent": recent,
        "recent_scale": Scale.over(recent, "unseen_low", "unseen_high"),
    }
    return render(request, "agent.html", context)


@require_safe
def failures(request: HttpRequest, slug: str) -> HttpResponse:
    """Return the failures of an agent: alone for its page, which inserts it, else as a page.

    Those in runs that users started are left out where the arena itself has verdicts on the agent.
    """
    shown = get_object_or_404(visible_to(request.user), slug=slug)
    runs = Run.objects.visible_to(request.user).filter(agent=shown)
    verdicts = _verdicts(runs.filter(by_arena=True)) or _verdicts(runs)
    counts: Counter[str] = Counter()
    for verdict, _, _, count in verdicts:
        counts[verdict] += count
    context = {
        "agent": shown,
        "failures": [each for each in verdicts if each[0] in (Verdict.FAILED, Verdict.REJECTED)],
        "judged": counts.total(),
        "passed": counts[Verdict.PASSED],
        "rejected": counts[Verdict.REJECTED],
        "disputed": counts[Verdict.DISPUTED],
    }
    alone = is_inserted(request)
    return render(request, f"agent_failures{'_part' if alone else ''}.html", context)


def _verdicts(runs: RunQuerySet) -> list[tuple[str, str, str, int]]:
    """Return verdict, reason, scope and count of the evaluations of these runs."""
    ended = Evaluation.objects.filter(submission__run__in=runs.order_by()).exclude(verdict="")
    counted = ended.counted().order_by().values_list("verdict", "reason", "scope")
    return sorted(counted.annotate(Count("pk")), key=lambda each: (-each[-1], each))


def _places(agent: Agent, now: Snapshot) -> list[tuple[Board, Row]]:
    """Return the place of an agent on the board of each device.

    Where it has no rank there, the boards of tracks where it has one come first. Of a device whose
    board leaves its runs out, by their tasks or their judge, it is that on the boards of its runs.
    """
    found: list[tuple[Board, Row]] = []
    for board in boards(now, origin_of(agent)):
        own = [(board, row) for row in board.rows if row.agent.pk == agent.pk]
        if not any(row.rank for _, row in own):
            of_tracks = [(b, row) for b in boards_of_tracks(board, now) for row in b.ranked]
            own = [each for each in of_tracks if each[1].agent.pk == agent.pk] + own
        found += own
    devices = {board.device for board, _ in found}
    others = [
        (board, row)
        for board in boards_of_runs(agent.pk, origin_of(agent), now)
        if board.device not in devices
        for row in board.rows
        if row.agent.pk == agent.pk
    ]
    return found + others


def _categories(board: Board, agent: Agent) -> list[tuple[str, Row]]:
    """Return the place of an agent on the ranking of each category of a board."""
    found = categories(board.filters)
    return [(n, row) for n, each in found.items() for row in each.rows if row.agent.pk == agent.pk]


def _listed(
    placed: Iterable[tuple[str, Agent]],
    found: Mapping[int, Availability],
    harnesses: Mapping[str, str],
    spent: Mapping[int, Spent],
) -> list[Listed]:
    """Return agents, each after its kind, with their availability, place and spending."""
    now = snapshot()
    listed = []
    for kind, agent in placed:
        board, row = next(iter(_places(agent, now)), (None, None))
        harness = harnesses.get(agent.adapter, agent.adapter)
        of = spent.get(agent.pk, Spent())
        listed.append(Listed(kind, agent, harness, found[agent.pk], board, row, of))
    return listed


def _spent_by_all(runs: RunQuerySet, own: bool) -> dict[int, Spent]:
    """Return the spending of every agent; without runs of one's own, that of some seconds ago."""
    if own:
        return _spent(runs)
    bucket = int(time.monotonic() // SPENT_SECONDS)
    return computed(snapshot(), ("spent", bucket), lambda: _spent(runs))


def _spent(runs: RunQuerySet) -> dict[int, Spent]:
    """Return the runs, cost and tokens of each agent by its id."""
    sums = (
        runs.order_by().values_list("agent").annotate(Count("pk"), Sum("cost_usd"), Sum("tokens"))
    )
    return {agent: Spent(*values) for agent, *values in sums}


def _short(value: object) -> str:
    text = value if isinstance(value, str) and " " not in value else json.dumps(value)
    return Truncator(text).chars(MAX_VALUE_TEXT)
