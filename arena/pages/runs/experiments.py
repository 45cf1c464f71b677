"""The pages of experiments: the list and one experiment."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import groupby
from typing import Any

from django.contrib import messages
from django.core.paginator import Paginator
from django.db.models import Count, Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.template.defaultfilters import pluralize
from django.views.decorators.http import require_POST, require_safe

from arena.accounts.auth import signed_in
from arena.accounts.models import User
from arena.catalog.models import Agent
from arena.catalog.templatetags.figures import Scale
from arena.leaderboard.experiment_summary import (
    Cell,
    ExperimentSummary,
    TaskRow,
    experiment_summary,
)
from arena.leaderboard.ranking import matrix
from arena.leaderboard.ranking.results import computed, snapshot
from arena.pages.answers import RefusalAsMessage
from arena.pages.leaderboard.board import scale_of
from arena.runs import experiments
from arena.runs.models import Experiment, Run
from arena.runs.querysets import UNQUARANTINED, RunQuerySet
from arena.runs.states import RUN_ACTIVE, RUN_JUDGED, RunStatus

EXPERIMENTS_A_PAGE = 50
COUNTED_SECONDS = 10
"""Time that counts for visitors are kept while no result changes."""


@require_safe
def experiment_list(request: HttpRequest) -> HttpResponse:
    visible = experiments.with_user(experiments.visible_to(request.user), request.user)
    page = Paginator(visible, EXPERIMENTS_A_PAGE).get_page(request.GET.get("page"))
    runs = Run.objects.visible_to(request.user).filter(experiment__in=list(page)).order_by()
    if request.user.is_authenticated:
        counted = _counted(runs)
    else:
        listed = tuple(each.pk for each in page)
        key = ("experiments", listed, int(time.monotonic() // COUNTED_SECONDS))
        counted = computed(snapshot(), key, lambda: _counted(runs))
    context = {"page": page, "listed": [(each, *counted[each.pk]) for each in page]}
    return render(request, "experiments.html", context)


def _counted(runs: RunQuerySet) -> dict[int, tuple[dict[str, int], list[str]]]:
    """Return counts of runs and the titles of the agents of each experiment, by its id.

    Verdicts in quarantine count here as little as on the page of their experiment.
    """
    found: Any = runs.values("experiment", "agent").annotate(
        judged=Count("pk", filter=UNQUARANTINED & Q(status__in=RUN_JUDGED)),
        passed=Count("pk", filter=UNQUARANTINED & Q(status=RunStatus.PASSED)),
        active=Count("pk", filter=Q(status__in=RUN_ACTIVE)),
    )
    titles = dict(Agent.objects.values_list("pk", "title"))
    counted: dict[int, tuple[dict[str, int], list[str]]] = {}
    for each in found:
        counts, agents = counted.setdefault(
            each["experiment"], ({"judged": 0, "passed": 0, "active": 0}, [])
        )
        agents.append(titles[each["agent"]])
        for name in counts:
            counts[name] += each[name]
    for _, agents in counted.values():
        agents.sort()
    return counted


@require_safe
def experiment(request: HttpRequest, slug: str) -> HttpResponse:
    """Show one experiment, to users who can see one of its runs."""
    visible = experiments.with_user(experiments.visible_to(request.user), request.user)
    shown = get_object_or_404(visible, slug=slug)
    runs = Run.objects.visible_to(request.user).with_names().filter(experiment=shown)
    plan = experiments.plan_of(shown)
    summary = experiment_summary(runs, plan)
    rows = [row for each in summary.standings for row in each.ranking.rows]
    context = {
        **_matrix(summary),
        "active": experiments.cancellable(shown, request.user).count(),
        "interrupted": experiments.interrupted(shown, request.user).count(),
        "board_scale": scale_of(rows),
        "spent": any(row.tokens is not None or row.cost is not None for row in rows),
        "experiment": shown,
        "planned": plan and plan.size(),
        "missing": plan and experiments.missing(shown, plan),
        "imported": experiments.is_imported(shown),
        "summary": summary,
        "scale": Scale.over(comparison.over for comparison in summary.comparisons),
    }
    return render(request, "experiment.html", context)


def _matrix(summary: ExperimentSummary) -> dict[str, Any]:
    """Return a line for each agent with a cell for each task and device, and the table of both."""
    several = len({row.hardware.pk for row in summary.rows}) > 1

    def group(row: TaskRow) -> str:
        category = row.task.operator.category
        return f"{category}, {row.hardware.name}" if several else category

    rows = sorted(summary.rows, key=lambda row: (row.hardware.name, group(row), row.task.slug))
    slugs = [row.task.slug for row in rows]
    full, cells = matrix.scaled(
        [[_cell(row.cells[n]) for row in rows] for n in range(len(summary.agents))]
    )
    return {
        "full": full,
        "groups": [(name, len(list(of))) for name, of in groupby(rows, key=group)],
        "lines": [
            {"agent": agent, "cells": list(zip(line, slugs, strict=True))}
            for agent, line in zip(summary.agents, cells, strict=True)
        ],
        "table": [(row, zip(summary.agents, row.cells, strict=True)) for row in summary.rows],
    }


def _cell(of: Cell | None) -> matrix.Cell | None:
    """Return what the matrix shows of the runs of a cell; the state of the last without speedup."""
    if of is None:
        return None
    last = of.runs[-1]
    speedup = of.speedup.speedup if of.speedup else None
    return matrix.Cell(last.pk, speedup, last.status.capitalize())


@require_POST
def cancel_experiment(request: HttpRequest, slug: str) -> HttpResponse:
    """Cancel the runs of an experiment that have not ended and that the user may cancel."""
    return _changed(request, slug, experiments.cancel_active, "cancelled")


@require_POST
def continue_experiment(request: HttpRequest, slug: str) -> HttpResponse:
    """Continue the interrupted runs of an experiment."""

    def change(experiment: Experiment, user: User) -> int:
        return len(experiments.continue_interrupted(experiment, user))

    return _changed(request, slug, change, "continued")


def _changed(
    request: HttpRequest, slug: str, change: Callable[[Experiment, User], int], what: str
) -> HttpResponse:
    """Change runs of an experiment, and return to its page with their number or the refusal."""
    if not request.user.is_authenticated:
        return redirect("login")
    found = get_object_or_404(experiments.visible_to(request.user), slug=slug)
    with RefusalAsMessage(request):
        count = change(found, signed_in(request))
        messages.success(request, f"{count} run{pluralize(count)} {what}.")
    return redirect("experiment", slug)
