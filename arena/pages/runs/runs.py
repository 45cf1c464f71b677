"""The page that lists runs."""

from __future__ import annotations

import hashlib
from functools import cached_property
from typing import cast

from django.core.cache import cache
from django.core.exceptions import EmptyResultSet
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from arena.catalog.models import Hardware, Task, TaskQuerySet, TaskVersion
from arena.catalog.templatetags.figures import Scale
from arena.filters import unknown_value
from arena.runs import agents, experiments
from arena.runs.models import Run
from arena.runs.querysets import RunQuerySet
from arena.runs.states import RunStatus

RUNS_A_PAGE = 25
COUNT_SECONDS = 10
COUNTED_EACH_TIME = 10_000
"""Runs up to which their number is counted for each request."""
FILTERS = ("task", "agent", "hardware", "status", "experiment")


@require_safe
def runs(request: HttpRequest) -> HttpResponse:
    chosen = {name: request.GET.get(name, "").replace("\0", "") for name in FILTERS}
    tasks = Task.objects.visible_to(request.user)
    named = _named(tasks, chosen["task"])
    found = Run.objects.visible_to(request.user).with_names()
    found = found.matching(**{**chosen, "task": ""})
    if named is not None:
        versions = TaskVersion.objects.filter(task__in=named).values_list("pk", flat=True)
        found = found.filter(task_version__in=list(versions))  # a list, which PostgreSQL can plan
    page = RunPaginator(found, RUNS_A_PAGE).get_page(request.GET.get("page"))
    context = {
        "page": page,
        "scale": Scale.over(page, "unseen_low", "unseen_high"),
        "chosen": chosen,
        "statuses": RunStatus.values,
        "problems": _unknown(request, chosen, named),
        "agents": agents.visible_to(request.user),
        "devices": Hardware.objects.all(),
        "experiments": experiments.visible_to(request.user),
    }
    return render(request, "runs.html", context)


class RunPaginator(Paginator):  # type: ignore[type-arg]  # it takes none when it runs
    """Pages of runs. The number of very many is that of some seconds ago: it takes long to count.

    A small number is always the present one, so that a new run is on the page at once.
    """

    @cached_property
    def count(self) -> int:
        runs = cast(RunQuerySet, self.object_list)
        try:
            text = repr(runs.query.sql_with_params())
        except EmptyResultSet:  # its filters leave nothing
            return 0
        key = f"runs:{hashlib.sha256(text.encode()).hexdigest()}"
        if (kept := cache.get(key)) is not None:
            return cast(int, kept)
        number = runs.count()
        if number > COUNTED_EACH_TIME:
            cache.set(key, number, COUNT_SECONDS)
        return number


def _named(tasks: TaskQuerySet, text: str) -> TaskQuerySet | None:
    """Return the tasks that a text names: one, those of an operator, or those with its words."""
    operator, _, track = text.partition("/")
    if not text:
        return None
    exact = tasks.filter(operator__slug=operator, **({"track": track} if track else {}))
    return exact if exact.exists() else tasks.named(text.replace("/", " "))


def _unknown(request: HttpRequest, chosen: dict[str, str], named: TaskQuerySet | None) -> list[str]:
    """Return a sentence for each filter of runs whose value stands for nothing here."""
    known = {
        "task": named if named is not None else Task.objects.none(),
        "agent": agents.visible_to(request.user).filter(slug=chosen["agent"]),
        "hardware": Hardware.objects.filter(slug=chosen["hardware"]),
        "experiment": experiments.visible_to(request.user).filter(slug=chosen["experiment"]),
    }
    found = [
        unknown_value(name, chosen[name])
        for name, rows in known.items()
        if chosen[name] and not rows.exists()
    ]
    statuses = set(filter(None, chosen["status"].split(",")))
    if unknown := sorted(statuses - set(RunStatus.values)):
        known_ones = ", ".join(RunStatus.values)
        found.append(f"There is no status “{unknown[0][:100]}”. Known: {known_ones}.")
    return found
