"""The pages of agents: the list, with what each needs to run here, and one agent."""

from __future__ import annotations

from django.db.models import Count
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_safe

from arena.catalog.models import Agent
from arena.catalog.templatetags.figures import Scale
from arena.leaderboard.rankings import Filters, rank, ranked_runs
from arena.leaderboard.views.board import by_category, scale_of, verdicts_of
from arena.runs.models import Evaluation, Run

MAX_RECENT_RUNS = 20


@require_safe
def agents(request: HttpRequest) -> HttpResponse:
    rows = {row.agent.pk: row for row in rank()}
    listed = [(agent, rows.get(agent.pk)) for agent in Agent.objects.filter(active=True)]
    return render(request, "agents.html", {"agents": listed, "scale": scale_of(rows.values())})


@require_safe
def agent(request: HttpRequest, slug: str) -> HttpResponse:
    shown = get_object_or_404(Agent, slug=slug)
    runs = Run.objects.visible_to(request.user).with_names().filter(agent=shown)
    recent = list(runs[:MAX_RECENT_RUNS])
    ranked = ranked_runs()
    failures = (
        Evaluation.objects.filter(submission__run__in=runs, verdict__in=("failed", "rejected"))
        .values("verdict", "reason", "scope")
        .annotate(count=Count("pk"))
        .order_by("-count")
    )
    verdicts = verdicts_of(runs)
    categories = [
        (category, row)
        for category, board in by_category(Filters(), ranked).items()
        for row in board
        if row.agent == shown
    ]
    context = {
        "agent": shown,
        "row": next((row for row in rank(runs=ranked) if row.agent == shown), None),
        "categories": categories,
        "scale": scale_of(row for _, row in categories),
        "recent": recent,
        "recent_scale": Scale.over(recent),
        "failures": failures,
        "judged": verdicts.count(),
        "passed": verdicts.filter(verdict="passed").count(),
        "rejected": verdicts.filter(verdict="rejected").count(),
        "disputed": verdicts.filter(verdict="disputed").count(),
    }
    return render(request, "agent.html", context)
