"""The pages that compare: home, leaderboard, tasks, a task, an agent, and how it is all done."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import date
from itertools import groupby
from typing import Any

from django.db.models import Count, F, QuerySet, Window
from django.db.models.functions import RowNumber
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.dateparse import parse_date
from django.utils.safestring import mark_safe
from django.views.decorators.http import require_safe
from markdown_it import MarkdownIt

from arena.catalog.models import Agent, Hardware, Task
from arena.catalog.templatetags.figures import Scale, share
from arena.leaderboard.charts import seen_against_unseen
from arena.leaderboard.rankings import (
    GENERALIZATIONS,
    SEEN,
    Filters,
    Judged,
    Row,
    judge_versions,
    rank,
    ranked_runs,
)
from arena.leaderboard.records import records
from arena.runs import experiments
from arena.runs.baselines import timed_baselines
from arena.runs.models import Evaluation, Run
from arena.runs.querysets import RunQuerySet
from arena.runs.rounds import highlighted
from arena.runs.states import RUN_JUDGED, RunStatus, Scope

NEWEST = 8
NEWEST_RECORDS = 5
SHOWN_ACTIVE = 12
RECENT = 20


@dataclass(frozen=True)
class Cell:
    """One agent in one category: its speedup there, and what it passed of the board."""

    solved: float
    board: int
    speedup: float | None


@require_safe
def home(request: HttpRequest) -> HttpResponse:
    visible = Run.objects.visible_to(request.user).with_names()
    runs = ranked_runs()
    boards = [
        (device, rank(runs=[run for run in runs if run.hardware_id == device.pk]))
        for device in Hardware.objects.all()
    ]
    newest = list(visible.filter(status__in=RUN_JUDGED).order_by("-ended_at")[:NEWEST])
    fallen = records(Run.objects.all(), NEWEST_RECORDS)
    leaders = [row for _, rows in boards for row in rows]
    verdicts = _verdicts_of(visible)
    context = {
        "active": _with_best(_at_work_first(visible.active())),
        "boards": [(device, rows[:3]) for device, rows in boards if rows],
        "scale": _scale(leaders),
        "records": fallen,
        "records_scale": Scale.over(record.run for record in fallen),
        "newest": newest,
        "newest_scale": Scale.over(newest),
        "counts": {
            "judged": visible.filter(status__in=RUN_JUDGED).count(),
            "rounds": verdicts.count(),
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
    context = {
        "rows": rows,
        "scale": _scale(rows),
        "spent": any(row.tokens is not None or row.cost is not None for row in rows),
        "filters": filters,
        "narrowed": replace(filters, generalization=SEEN) != Filters(),
        "generalizations": [(name, _address(request, filters, name)) for name in GENERALIZATIONS],
        "devices": Hardware.objects.all(),
        "categories": distinct(visible, "operator__category"),
        "tracks": distinct(visible, "track"),
        "families": sorted(set().union(*families)),
        "experiments": experiments.visible_to(request.user),
        "chart": seen_against_unseen(rows),
        "reading": _reading(rows),
        "heat": _heat(filters, rows, runs),
        "judge_versions": judge_versions(runs),
    }
    return render(request, "leaderboard.html", context)


@require_safe
def tasks(request: HttpRequest) -> HttpResponse:
    chosen = {name: request.GET.get(name, "") for name in ("category", "track")}
    visible = Task.objects.visible_to(request.user)
    found = visible.filter(status=Task.Status.PUBLISHED).select_related("operator")
    if chosen["category"]:
        found = found.filter(operator__category=chosen["category"])
    if chosen["track"]:
        found = found.filter(track=chosen["track"])
    fastest = _fastest(Run.objects.visible_to(request.user))
    operators = [
        (operator, [(task, fastest.get(task.pk)) for task in its_tasks])
        for operator, its_tasks in groupby(found, key=lambda task: task.operator)
    ]
    context = {
        "operators": operators,
        "count": len(found),
        "chosen": chosen,
        "categories": distinct(visible, "operator__category"),
        "tracks": distinct(visible, "track"),
    }
    return render(request, "tasks.html", context)


@require_safe
def operator(request: HttpRequest, operator: str) -> HttpResponse:
    """An operator's own address leads to its first task."""
    found = Task.objects.filter(operator__slug=operator, status=Task.Status.PUBLISHED).first()
    if found is None:
        raise Http404
    return redirect("task", operator, found.track)


@require_safe
def task(request: HttpRequest, operator: str, track: str) -> HttpResponse:
    visible = Task.objects.visible_to(request.user)
    shown = get_object_or_404(
        visible.select_related("operator"), operator__slug=operator, track=track
    )
    version = shown.version
    public = version.public if version else {}
    runs = Run.objects.visible_to(request.user).with_names().filter(task_version__task=shown)
    history = list(runs.filter(status__in=RUN_JUDGED).order_by("-ended_at")[:RECENT])
    held = records(Run.objects.filter(task_version=version)) if version else []
    context = {
        "task": shown,
        "version": version,
        "public": public,
        "hidden": sorted(public.get("hidden_cases", {}).items()),
        "prompt": mark_safe(MarkdownIt("js-default").render(shown.operator.prompt)),
        "reference": highlighted("reference.py", shown.operator.reference_source),
        "starter": [
            (path, highlighted(path, text))
            for path, text in public.get("starter", {}).items()
            if path == public.get("target_file") or path.endswith(".h")
        ],
        "records": held,
        "history": history,
        "elsewhere": next((r for r in history if r.hardware.kind != public.get("kind")), None),
        "baselines": timed_baselines(version),
        "scale": Scale.over([*history, *(record.run for record in held)]),
        "siblings": visible.filter(operator=shown.operator).exclude(pk=shown.pk),
    }
    return render(request, "task.html", context)


@require_safe
def agents(request: HttpRequest) -> HttpResponse:
    rows = {row.agent.pk: row for row in rank()}
    listed = [(agent, rows.get(agent.pk)) for agent in Agent.objects.filter(active=True)]
    return render(request, "agents.html", {"agents": listed, "scale": _scale(rows.values())})


@require_safe
def agent(request: HttpRequest, slug: str) -> HttpResponse:
    shown = get_object_or_404(Agent, slug=slug)
    runs = Run.objects.visible_to(request.user).with_names().filter(agent=shown)
    recent = list(runs[:RECENT])
    ranked = ranked_runs()
    rows = [row for row in rank(runs=ranked) if row.agent == shown]
    failures = (
        Evaluation.objects.filter(submission__run__in=runs, verdict__in=("failed", "rejected"))
        .values("verdict", "reason", "scope")
        .annotate(count=Count("pk"))
        .order_by("-count")
    )
    evaluations = _verdicts_of(runs)
    by_category = [
        (category, next((row for row in board if row.agent == shown), None))
        for category, board in _by_category(Filters(), ranked).items()
    ]
    context = {
        "agent": shown,
        "row": rows[0] if rows else None,
        "categories": [(name, row) for name, row in by_category if row],
        "scale": _scale([row for _, row in by_category if row]),
        "recent": recent,
        "recent_scale": Scale.over(recent),
        "failures": failures,
        "asked": evaluations.count(),
        "passed": evaluations.filter(verdict="passed").count(),
        "rejected": evaluations.filter(verdict="rejected").count(),
        "disputed": evaluations.filter(verdict="disputed").count(),
    }
    return render(request, "agent.html", context)


@require_safe
def methodology(request: HttpRequest) -> HttpResponse:
    return render(request, "methodology.html")


def _verdicts_of(runs: Any) -> Any:
    """Evaluations that ended with a verdict; a profile has none, even where it broke."""
    found = Evaluation.objects.filter(submission__run__in=runs).exclude(verdict="")
    return found.exclude(scope=Scope.PROFILE)


def _at_work_first(active: RunQuerySet) -> list[Run]:
    """Runs at work, then those that wait in the order in which they will be taken."""
    at_work = active.exclude(status=RunStatus.QUEUED).order_by("created_at")
    return [*at_work[:SHOWN_ACTIVE], *active.in_turn()[:SHOWN_ACTIVE]][:SHOWN_ACTIVE]


def _with_best(runs: list[Run]) -> list[tuple[Run, Evaluation | None]]:
    """Each run with the best of its rounds so far: the one whose interval begins highest."""
    rounds = Evaluation.objects.filter(submission__run__in=runs, scope=Scope.ROUND)
    passed = rounds.filter(verdict="passed", low__isnull=False).select_related("submission")
    by_run = {each.submission.run_id: each for each in passed.order_by("low")}
    return [(run, by_run.get(run.pk)) for run in runs]


def _filters(request: HttpRequest) -> Filters:
    """The board that the address names; a value that is no choice is as if it were not there."""
    names = ("hardware", "category", "track", "family", "experiment")
    chosen: dict[str, Any] = {name: request.GET.get(name, "") for name in names}
    chosen |= {name: _date(request.GET.get(name, "")) for name in ("since", "until")}
    by = request.GET.get("generalization", "")
    return Filters(**chosen, generalization=by if by in GENERALIZATIONS else SEEN)


def _date(text: str) -> date | None:
    try:
        return parse_date(text)
    except ValueError:  # well formed, and no day
        return None


def _address(request: HttpRequest, filters: Filters, generalization: str) -> tuple[str, bool]:
    """Where the same board by another speedup is, and whether it is the one shown."""
    query = request.GET.copy()
    query["generalization"] = generalization
    shown = filters.generalization == generalization
    return f"{reverse('leaderboard')}?{query.urlencode()}", shown


def distinct(rows: QuerySet[Any], field: str) -> list[str]:
    """The values of a column, in order."""
    return list(rows.order_by(field).values_list(field, flat=True).distinct())


def _scale(rows: Iterable[Row]) -> Scale:
    return Scale.of(
        value for row in rows for value in (row.low, row.high, row.unseen_low, row.unseen_high)
    )


def _fastest(runs: Any) -> dict[int, Run]:
    """The fastest passed run of each task."""
    passed = runs.filter(status=RunStatus.PASSED).exclude(speedup=None)
    fastest_first = (F("speedup").desc(), F("id").desc())
    place = Window(RowNumber(), partition_by="task_version__task", order_by=fastest_first)
    best = passed.annotate(place=place).filter(place=1).with_names()
    return {run.task_version.task_id: run for run in best}


def _by_category(filters: Filters, runs: list[Judged]) -> dict[str, list[Row]]:
    """The board of each category that `runs` have, in order."""
    parts: dict[str, list[Judged]] = {}
    for run in runs:
        parts.setdefault(run.category, []).append(run)
    return {category: rank(filters, part) for category, part in sorted(parts.items())}


def _heat(filters: Filters, rows: list[Row], runs: list[Judged]) -> dict[str, Any]:
    """Agents against categories; empty when there is nothing to compare."""
    boards = _by_category(filters, runs)
    if len(boards) < 2:
        return {}
    by_agent = [{row.agent.pk: row for row in board} for board in boards.values()]
    lines = []
    for row in rows:
        cells = [board.get(row.agent.pk) for board in by_agent]
        lines.append((row.agent, [_cell(cell, filters.generalization) for cell in cells]))
    return {"categories": list(boards), "lines": lines}


def _cell(row: Row | None, generalization: str) -> Cell | None:
    if row is None:
        return None
    unseen = generalization != "seen"
    return Cell(row.solved, row.board, row.unseen_speedup if unseen else row.speedup)


def _reading(rows: list[Row]) -> str:
    """The chart in one sentence."""
    both = [row for row in rows if row.gap is not None]
    if not both:
        return "No agent has been measured on unseen cases yet."
    worst = min(both, key=lambda row: row.gap or 1.0)
    kept = f"{share(worst.gap)} of its speedup"
    if len(both) == 1:
        return f"{worst.agent.title} keeps {kept} on cases that it was never told."
    return f"On cases that they were never told {worst.agent.title} keeps the least: {kept}."
