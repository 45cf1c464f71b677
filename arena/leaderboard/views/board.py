"""The pages home, leaderboard and methodology."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import date
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.dateparse import parse_date
from django.views.decorators.http import require_safe

from arena.catalog.models import Agent, Hardware, Harness, Task
from arena.catalog.templatetags.figures import Scale, money, share, times, tokens
from arena.leaderboard.ablation import ablation_tables
from arena.leaderboard.charts import frontier_chart, generalization_chart
from arena.leaderboard.frontier import Frontier, frontier
from arena.leaderboard.rankings import (
    GENERALIZATIONS,
    SEEN,
    Filters,
    JudgedRun,
    Row,
    judge_versions,
    rank,
    ranked_runs,
)
from arena.leaderboard.records import records
from arena.runs import experiments
from arena.runs.best import best_first
from arena.runs.models import Evaluation, Run
from arena.runs.querysets import RunQuerySet
from arena.runs.reward import FORMULA
from arena.runs.states import RUN_JUDGED, RunStatus, Scope

MAX_NEWEST_RUNS = 8
MAX_NEWEST_RECORDS = 5
MAX_ACTIVE_RUNS = 12


@require_safe
def home(request: HttpRequest) -> HttpResponse:
    visible = Run.objects.visible_to(request.user).of_agents().with_names()
    runs = ranked_runs()
    boards = [
        (device, rank(runs=[run for run in runs if run.hardware_id == device.pk]))
        for device in Hardware.objects.all()
    ]
    newest = list(visible.filter(status__in=RUN_JUDGED).order_by("-ended_at")[:MAX_NEWEST_RUNS])
    newest_records = records(Run.objects.all(), MAX_NEWEST_RECORDS)
    context = {
        "active": _with_best(_active(visible.active())),
        "boards": [(device, rows[:3]) for device, rows in boards if rows],
        "scale": scale_of(row for _, rows in boards for row in rows),
        "records": newest_records,
        "records_scale": Scale.over(record.run for record in newest_records),
        "newest": newest,
        "newest_scale": Scale.over(newest),
        "counts": {
            "judged": visible.filter(status__in=RUN_JUDGED).count(),
            "rounds": verdicts_of(visible).count(),
            "tasks": Task.objects.runnable().count(),
            "agents": Agent.objects.filter(active=True).count(),
        },
    }
    return render(request, "home.html", context)


@require_safe
def leaderboard(request: HttpRequest) -> HttpResponse:
    filters = _filters(request)
    runs = ranked_runs(filters)
    visible = Task.objects.visible_to(request.user)
    families = visible.values_list("operator__families", flat=True)
    rows = rank(filters, runs)
    costs = frontier(rows, filters.generalization)
    context = {
        "rows": rows,
        "frontier": costs,
        "frontier_chart": frontier_chart(costs) if costs else None,
        "frontier_caption": frontier_caption(costs) if costs else "",
        "scale": scale_of(rows),
        "spent": any(row.tokens is not None or row.cost is not None for row in rows),
        "filters": filters,
        "narrowed": replace(filters, generalization=SEEN) != Filters(),
        "generalization": GENERALIZATIONS[filters.generalization],
        "generalizations": [
            (label, _address(request, name), name == filters.generalization)
            for name, label in GENERALIZATIONS.items()
        ],
        "devices": Hardware.objects.all(),
        "categories": visible.values_of("operator__category"),
        "tracks": visible.values_of("track"),
        "families": sorted(set().union(*families)),
        "models": _models(),
        "harnesses": Harness.objects.order_by("title").values_list("name", "title"),
        "experiments": experiments.visible_to(request.user),
        "chart": generalization_chart(rows),
        "caption": generalization_caption(rows),
        "heat": _heat(filters, rows, runs),
        "judge_versions": judge_versions(runs),
    }
    return render(request, "leaderboard.html", context)


@require_safe
def methodology(request: HttpRequest) -> HttpResponse:
    tables = ablation_tables(settings.ADMISSIONS)
    return render(request, "methodology.html", {"reward": FORMULA, "ablations": tables})


def generalization_caption(rows: list[Row]) -> str:
    """Return one sentence on the generalization chart."""
    both = [row for row in rows if row.gap is not None]
    if not both:
        return "No agent has a speedup on held-out cases yet."
    lowest = min(both, key=lambda row: row.gap or 1.0)
    retained = f"{lowest.agent.title} retains {share(lowest.gap)} of its speedup on held-out cases"
    return f"{retained}." if len(both) == 1 else f"{retained}, the lowest of {len(both)} agents."


def frontier_caption(shown: Frontier) -> str:
    """Return one sentence on the frontier chart."""
    first, last = shown.best[0], shown.best[-1]

    def spent(value: float) -> str:
        return money(value) if shown.unit == "usd" else f"{tokens(value)} tokens"

    cheapest = f"{first.row.agent.title}, {times(first.speedup)} for {spent(first.spent)}"
    if first is last:
        return f"Lowest cost and highest speedup: {cheapest} per solved task."
    fastest = f"{last.row.agent.title}, {times(last.speedup)} for {spent(last.spent)}"
    return f"Cheapest per solved task: {cheapest}. Fastest: {fastest}."


def verdicts_of(runs: RunQuerySet) -> Any:
    """Return the evaluations of these runs that ended with a verdict; a profile has none."""
    found = Evaluation.objects.filter(submission__run__in=runs).exclude(verdict="")
    return found.exclude(scope=Scope.PROFILE)


def _active(active: RunQuerySet) -> list[Run]:
    """Return the runs at work, then the queued ones in the order of the queue."""
    at_work = active.exclude(status=RunStatus.QUEUED).order_by("created_at")
    runs = [*at_work[:MAX_ACTIVE_RUNS], *active.in_turn()[:MAX_ACTIVE_RUNS]]
    return runs[:MAX_ACTIVE_RUNS]


def _with_best(runs: list[Run]) -> list[tuple[Run, Evaluation | None]]:
    """Return each run with its best round so far."""
    rounds = Evaluation.objects.filter(submission__run__in=runs, scope=Scope.ROUND)
    by_run: dict[str, Evaluation] = {}
    for best in best_first(rounds).select_related("submission"):
        by_run.setdefault(best.submission.run_id, best)
    return [(run, by_run.get(run.pk)) for run in runs]


def _filters(request: HttpRequest) -> Filters:
    """Return the filters of the query string; an invalid date or ranking counts as absent."""
    names = ("hardware", "category", "track", "family", "model", "harness", "experiment")
    chosen: dict[str, Any] = {name: request.GET.get(name, "") for name in names}
    chosen |= {name: _date(request.GET.get(name, "")) for name in ("since", "until")}
    by = request.GET.get("generalization", "")
    return Filters(**chosen, generalization=by if by in GENERALIZATIONS else SEEN)


def _models() -> list[str]:
    """Return the models of all agents, by name."""
    named = Agent.objects.exclude(model="").order_by("model")
    return list(named.values_list("model", flat=True).distinct())


def _date(text: str) -> date | None:
    try:
        return parse_date(text)
    except ValueError:  # the format is right, but there is no such day
        return None


def _address(request: HttpRequest, generalization: str) -> str:
    """Return the address of the same board, ranked by another speedup."""
    query = request.GET.copy()
    query["generalization"] = generalization
    return f"{reverse('leaderboard')}?{query.urlencode()}"


def scale_of(rows: Iterable[Row]) -> Scale:
    return Scale.over(rows, "low", "high", "unseen_low", "unseen_high")


def by_category(filters: Filters, runs: list[JudgedRun]) -> dict[str, list[Row]]:
    """Return the board of each category of `runs`, by name."""
    parts: dict[str, list[JudgedRun]] = {}
    for run in runs:
        parts.setdefault(run.category, []).append(run)
    return {category: rank(filters, part) for category, part in sorted(parts.items())}


def _heat(filters: Filters, rows: list[Row], runs: list[JudgedRun]) -> dict[str, Any]:
    """Return the heatmap of agents by category; empty for fewer than two categories."""
    boards = by_category(filters, runs)
    if len(boards) < 2:
        return {}
    by_agent = [{row.agent.pk: row for row in board} for board in boards.values()]
    lines = [(row.agent, [board.get(row.agent.pk) for board in by_agent]) for row in rows]
    return {"categories": list(boards), "lines": lines}
