"""The pages that look closer: runs side by side, experiments, and where all verdicts end."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.db.models import Count, Q
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_safe

from arena.catalog.models import Agent, Hardware, Task
from arena.catalog.templatetags.figures import Scale, share
from arena.leaderboard import comparison
from arena.leaderboard.analysis import AT_LEAST, Progress, analyse
from arena.leaderboard.charts import progress, solved_by_round
from arena.leaderboard.overview import overview
from arena.leaderboard.views import distinct
from arena.runs import experiments
from arena.runs.models import Experiment, Run
from arena.runs.rounds import changes
from arena.runs.states import RUN_ACTIVE, RUN_JUDGED, RunStatus

OFFERED = 20


@require_safe
def compare(request: HttpRequest) -> HttpResponse:
    """Runs side by side, as the address names them: `?run=` two to five times."""
    every = list(dict.fromkeys(request.GET.getlist("run")))
    asked = every[: comparison.MOST]
    visible = Run.objects.visible_to(request.user).with_names().select_related("final")
    found = visible.in_bulk(asked)
    if missing := [run_id for run_id in asked if run_id not in found]:
        raise Http404(f"no run {missing[0]}")
    chosen = [found[run_id] for run_id in asked]
    compared = comparison.compare(chosen) if len(chosen) > 1 else None
    context: dict[str, Any] = {
        "most": comparison.MOST,
        "chosen": chosen,
        "left_out": len(every) - len(asked),
        "compared": compared,
        "others": _alike(visible, chosen) if len(chosen) < comparison.MOST else [],
        "query": urlencode([("run", run_id) for run_id in asked]),
    }
    if compared:
        first, *others = compared.columns
        context["scale"] = Scale.over(chosen)
        if any(column.rounds for column in compared.columns):
            context["chart"] = progress(compared.columns)
        if len(others) == 1 and _operator(first.run) == _operator(others[0].run):
            context["changes"] = changes(first.files, others[0].files)
    return render(request, "compare.html", context)


@require_safe
def experiments_list(request: HttpRequest) -> HttpResponse:
    runs = Run.objects.visible_to(request.user).exclude(experiment=None).order_by()
    counted = runs.values("experiment").annotate(
        judged=Count("pk", filter=Q(status__in=RUN_JUDGED)),
        passed=Count("pk", filter=Q(status=RunStatus.PASSED)),
        active=Count("pk", filter=Q(status__in=RUN_ACTIVE)),
    )
    counts = {each["experiment"]: each for each in counted}
    agents: dict[int, list[str]] = {}
    entered = runs.values_list("experiment", "agent__title").distinct()
    for experiment, title in entered.order_by("agent__title"):
        agents.setdefault(experiment, []).append(title)
    shown = Experiment.objects.filter(pk__in=counts).defer("plan")
    context = {"listed": [(each, counts[each.pk], agents[each.pk]) for each in shown]}
    return render(request, "experiments.html", context)


@require_safe
def experiment(request: HttpRequest, slug: str) -> HttpResponse:
    """One experiment, for who may see a run of it."""
    shown = get_object_or_404(experiments.visible_to(request.user), slug=slug)
    runs = Run.objects.visible_to(request.user).with_names().filter(experiment=shown)
    plan = experiments.plan_of(shown)
    found = overview(runs, plan)
    bounds = [bound for rival in found.rivals for bound in (rival.over.low, rival.over.high)]
    context = {
        "experiment": shown,
        "planned": plan and plan.size(),
        "missing": plan and experiments.missing(shown, plan),
        "found": found,
        "scale": Scale.of(bounds),
    }
    return render(request, "experiment.html", context)


def _operator(run: Run) -> int:
    return run.task_version.task.operator_id


@require_safe
def analysis(request: HttpRequest) -> HttpResponse:
    chosen = {
        name: request.GET.get(name, "") for name in ("agent", "hardware", "category", "track")
    }
    visible = Task.objects.visible_to(request.user)
    found = analyse(Run.objects.visible_to(request.user).matching(**chosen))
    context = {
        "found": found,
        "chosen": chosen,
        "narrowed": any(chosen.values()),
        "agents": Agent.objects.all(),
        "devices": Hardware.objects.all(),
        "categories": distinct(visible, "operator__category"),
        "tracks": distinct(visible, "track"),
        "bounds": AT_LEAST,
        "chart": solved_by_round(found.progress),
        "reading": _gained(found.progress),
    }
    return render(request, "analysis.html", context)


def _alike(visible: Any, chosen: list[Run]) -> list[Run]:
    """The newest other runs that were judged on the same as the first of some."""
    if not chosen:
        return []
    first = chosen[0]
    same = visible.filter(task_version=first.task_version_id, hardware=first.hardware_id)
    others = same.filter(status__in=RUN_JUDGED).exclude(pk__in=[run.pk for run in chosen])
    return list(others.order_by("-ended_at")[:OFFERED])


def _gained(steps: list[Progress]) -> str:
    """What the rounds after the first brought, in one sentence."""
    if not steps:
        return ""
    at = AT_LEAST.index(1.25)
    first, last = steps[0].shares[at], steps[-1].shares[at]
    return (
        f"{share(first)} of runs are at least 1.25 times as fast as the baseline after their first "
        f"round, {share(last)} after the last."
    )
