"""The pages of tasks: the list, an operator and a task."""

from __future__ import annotations

from itertools import groupby

from django.db.models import F, Window
from django.db.models.functions import RowNumber
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.safestring import mark_safe
from django.views.decorators.http import require_safe
from markdown_it import MarkdownIt

from arena.catalog.models import Task
from arena.catalog.templatetags.figures import Scale
from arena.leaderboard.records import records
from arena.runs.baselines import timed_baselines
from arena.runs.models import Run
from arena.runs.querysets import RunQuerySet
from arena.runs.sources import highlighted
from arena.runs.states import RUN_JUDGED, RunStatus

MAX_RECENT_RUNS = 20


@require_safe
def tasks(request: HttpRequest) -> HttpResponse:
    chosen = {name: request.GET.get(name, "") for name in ("category", "track")}
    visible = Task.objects.visible_to(request.user)
    found = visible.filter(status=Task.Status.PUBLISHED).select_related("operator")
    found = found.matching(**chosen)
    fastest = _fastest(Run.objects.visible_to(request.user).of_agents())
    operators = [
        (operator, [(task, fastest.get(task.pk)) for task in its_tasks])
        for operator, its_tasks in groupby(found, key=lambda task: task.operator)
    ]
    context = {
        "operators": operators,
        "count": len(found),
        "chosen": chosen,
        "categories": visible.values_of("operator__category"),
        "tracks": visible.values_of("track"),
    }
    return render(request, "tasks.html", context)


@require_safe
def operator(request: HttpRequest, operator: str) -> HttpResponse:
    """Redirect to the first task of an operator."""
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
    visible_runs = Run.objects.visible_to(request.user).of_agents()
    runs = visible_runs.with_names().filter(task_version__task=shown)
    history = list(runs.filter(status__in=RUN_JUDGED).order_by("-ended_at")[:MAX_RECENT_RUNS])
    task_records = records(Run.objects.filter(task_version=version)) if version else []
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
        "records": task_records,
        "history": history,
        "elsewhere": next((r for r in history if r.hardware.kind != public.get("kind")), None),
        "baselines": timed_baselines(version),
        "scale": Scale.over([*history, *(record.run for record in task_records)]),
        "siblings": visible.filter(operator=shown.operator).exclude(pk=shown.pk),
    }
    return render(request, "task.html", context)


def _fastest(runs: RunQuerySet) -> dict[int, Run]:
    """Return the fastest passed run of each task, by task id."""
    passed = runs.filter(status=RunStatus.PASSED).exclude(speedup=None)
    fastest_first = (F("speedup").desc(), F("id").desc())
    position = Window(RowNumber(), partition_by="task_version__task", order_by=fastest_first)
    best = passed.annotate(position=position).filter(position=1).with_names()
    return {run.task_version.task_id: run for run in best}
