"""The wall of live runs, for a big screen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from arena.runs.display.rounds import Round, RoundCount, best_of, count_of, rounds_of
from arena.runs.models import Run
from arena.runs.states import RUN_JUDGED, RunStatus
from arena.runs.trace.entries import Entry

MAX_CARDS = 12
MAX_ENDED = 6
EXCERPT_KINDS = ("message", "tool_call", "file_edit", "gate_result", "compiler_output", "log")
WIDTH, HEIGHT = 100.0, 24.0
"""Of the drawing of the best speedup so far."""
MARGIN = 2.0


@dataclass(frozen=True)
class Card:
    """A run at work, its rounds, and the newest row of its trace."""

    run: Run
    rounds: Sequence[Round]
    count: RoundCount
    best: Round | None
    newest: Entry | None

    @property
    def excerpt(self) -> str:
        return self.newest.excerpt("") if self.newest else ""

    @property
    def steps(self) -> str:
        """Return the points of the best speedup so far by round, on a logarithmic axis from 1."""
        known = [(each.number, math.log(each.best)) for each in self.rounds if each.best]
        if not known:
            return ""
        low = min(0.0, *(value for _, value in known))
        high = max(0.1, *(value for _, value in known))
        last = max(self.run.budget.get("rounds") or 0, known[-1][0])
        points: list[str] = []
        before: float | None = None
        for number, value in known:
            x = WIDTH * number / last
            y = HEIGHT - MARGIN - (HEIGHT - 2 * MARGIN) * (value - low) / (high - low)
            points += [f"{x:.1f},{before:.1f}"] if before is not None else []
            points.append(f"{x:.1f},{y:.1f}")
            before = y
        return " ".join(points)


@require_safe
def live(request: HttpRequest) -> HttpResponse:
    visible = Run.objects.visible_to(request.user).of_agents().with_names()
    active = visible.active()
    at_work = active.exclude(status=RunStatus.QUEUED).order_by("created_at")
    runs = list(at_work[:MAX_CARDS])
    ended = visible.filter(status__in=RUN_JUDGED, ended_at__isnull=False).order_by("-ended_at")
    context = {
        "cards": [_card(run) for run in runs],
        "more": at_work.count() - len(runs),
        "waiting": active.filter(status=RunStatus.QUEUED).count(),
        "ended": ended[:MAX_ENDED],
    }
    return render(request, "live.html", context)


def _card(run: Run) -> Card:
    rounds = rounds_of(run)
    newest = run.events.filter(kind__in=EXCERPT_KINDS).order_by("-seq").first()
    row = Entry(newest.seq, newest) if newest else None
    return Card(run, rounds, count_of(run, rounds), best_of(rounds), row)
