"""The comparison page: up to five runs side by side."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from arena.catalog.templatetags.figures import Scale
from arena.leaderboard import comparison
from arena.leaderboard.charts import progress_chart
from arena.leaderboard.side_by_side import ALIGNMENTS, courses
from arena.pages.charts.files import chart_file
from arena.runs.code.sources import changes
from arena.runs.models import Run
from arena.runs.querysets import RunQuerySet
from arena.runs.states import RUN_JUDGED

MAX_OTHER_RUNS = 20


@require_safe
def compare(request: HttpRequest) -> HttpResponse:
    """Compare the runs that the query names: `?run=` two to five times."""
    asked = list(dict.fromkeys(request.GET.getlist("run")))
    run_ids = asked[: comparison.MAX_RUNS]
    visible = Run.objects.visible_to(request.user).with_names().select_related("final")
    found = visible.in_bulk(run_ids)
    if missing := [run_id for run_id in run_ids if run_id not in found]:
        raise Http404(f"no run {missing[0]}")
    chosen = [found[run_id] for run_id in run_ids]
    context: dict[str, Any] = {
        "max_runs": comparison.MAX_RUNS,
        "chosen": chosen,
        "left_out": len(asked) - len(run_ids),
        "others": _similar(visible, chosen) if len(chosen) < comparison.MAX_RUNS else [],
        "query": urlencode([("run", run_id) for run_id in run_ids]),
    }
    if len(chosen) > 1:
        compared = comparison.compare(chosen)
        first, *others = compared.columns
        context |= {"compared": compared, "scale": Scale.over(chosen)}
        by = request.GET.get("by", "")
        context["courses"] = courses(chosen, by if by in ALIGNMENTS else ALIGNMENTS[0])
        context["alignments"] = ALIGNMENTS
        of_one_task = len({run.task_version.task_id for run in chosen}) == 1
        if of_one_task and any(column.rounds for column in compared.columns):
            context["chart"] = progress_chart(compared.columns)
        if len(others) == 1 and _operator_id(first.run) == _operator_id(others[0].run):
            context["changes"] = changes(first.files, others[0].files)
    elif not chosen:
        judged = visible.of_agents().filter(status__in=RUN_JUDGED).order_by("-ended_at")
        context["offered"] = offered = list(judged[:MAX_OTHER_RUNS])
        context["scale"] = Scale.over(offered, "unseen_low", "unseen_high")
    file = chart_file(request, {"progress": lambda: context.get("chart")})
    return file or render(request, "compare.html", context)


def _operator_id(run: Run) -> int:
    return run.task_version.task.operator_id


def _similar(visible: RunQuerySet, chosen: list[Run]) -> list[Run]:
    """Return the newest other judged runs of the task version and device of the first run."""
    if not chosen:
        return []
    first = chosen[0]
    same = visible.filter(task_version=first.task_version_id, hardware=first.hardware_id)
    others = same.filter(status__in=RUN_JUDGED).exclude(pk__in=[run.pk for run in chosen])
    return list(others.order_by("-ended_at")[:MAX_OTHER_RUNS])
