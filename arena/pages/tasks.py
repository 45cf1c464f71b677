"""The pages of tasks: the list, an operator and a task."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any

from django.core.paginator import Paginator
from django.db.models import Count
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.safestring import mark_safe
from django.views.decorators.http import require_safe
from markdown_it import MarkdownIt

from arena.audit.services import last_reason
from arena.catalog.labels import suite_titles
from arena.catalog.models import NATIVE, Task, TaskQuerySet
from arena.catalog.templatetags.figures import Scale
from arena.filters import unknown_value, words_of
from arena.leaderboard.charts import memory_chart
from arena.leaderboard.kernels.best_kernels import best_kernels
from arena.leaderboard.kernels.memory import memory_frontiers
from arena.leaderboard.kernels.records import Record, newest_records, runs_with_rounds
from arena.leaderboard.ranking.boards import Leader, leaders, options, tried_tasks
from arena.leaderboard.ranking.filters import Filters
from arena.leaderboard.ranking.results import snapshot
from arena.pages.charts.cards import Card, first_of
from arena.pages.charts.drawings import records_drawing, roofline_drawing
from arena.pages.charts.files import Chart, chart_file
from arena.published.kernels import claimed_on
from arena.published.verdicts import verdicts_on
from arena.runs.code.sources import highlighted
from arena.runs.display.baselines import timed_baselines
from arena.runs.models import Run
from arena.runs.querysets import RunQuerySet
from arena.runs.states import RUN_JUDGED
from evaluation.judge.kinds import kind_of

MAX_RECENT_RUNS = 10
MAX_RECORDS = 10
TASKS_A_PAGE = 25
STATES = {
    "tried": "Tried",
    "solved": "Solved",
    "unsolved": "Tried, not solved",
    "slower": "Solved, slower than the baseline",
    "untried": "Not tried yet",
}
"""Tasks by what agents of this arena achieved on one device."""
ORDERS = {"name": "By name", "fastest": "Fastest first", "slowest": "Slowest first"}
"""Orders of the list; without one the tried tasks stand first, by name."""


@require_safe
def tasks(request: HttpRequest) -> HttpResponse:
    """List the published tasks, with the fastest agent of each on one device."""
    chosen = {name: request.GET.get(name, "") for name in ("suite", "category", "track")}
    words = words_of(request)
    published = Task.objects.visible_to(request.user).published()
    found = published.matching(**chosen).named(words).select_related("operator")
    kinds = [kind_of(chosen[name]) for name in ("suite", "track")]
    kind = next((each for each in kinds if each.one_speedup), kinds[0])
    filters = Filters(suite=kind.track) if kind.deployed else Filters()
    devices = options(filters, "hardware")
    asked = request.GET.get("hardware", "")
    device = next(
        (each for each in devices if each.value == asked), devices[0] if devices else None
    )
    fastest = leaders(device.value) if device else {}
    state, order = (request.GET.get(name, "") for name in ("state", "order"))
    keys = list(found.values_list("pk", flat=True))
    states = _states(keys, tried_tasks(device.value) if device else frozenset(), fastest)
    shown = _ordered(states.get(state, keys), order, states["tried"], fastest)
    page = Paginator(shown, TASKS_A_PAGE).get_page(request.GET.get("page"))
    by_key = found.in_bulk(list(page.object_list))
    agents = snapshot().agents
    listed = []
    for task in (by_key[key] for key in page.object_list):
        best = fastest.get(task.pk)
        listed.append((task, best, best and agents[best.agent]))
    selects = [
        (label, name, every, _choices(published, name), chosen[name])
        for label, name, every in (
            ("Suite", "suite", "All suites"), ("Category", "category", "All categories"),
            ("Track", "track", "All tracks"),
        )
    ]  # fmt: skip
    counted = [(name, f"{label} ({len(states[name])})") for name, label in STATES.items()]
    selects += [
        ("State", "state", "All tasks", counted, state),
        ("Order", "order", "Tried first", list(ORDERS.items()), order),
    ]
    problems = [
        unknown_value(name, value)
        for label, name, every, choices, value in selects
        if value and value not in dict(choices)
    ]
    if asked and (device is None or device.value != asked):
        problems.append(unknown_value("device", asked))
    context = {
        "page": page,
        "listed": listed,
        "scale": Scale.over([best for _, best, _ in listed if best]),
        "words": words,
        "selects": selects,
        "problems": problems,
        "device": device,
        "devices": devices,
        "narrowed": bool(words or state or any(chosen.values())),
        "kind": kind,
    }
    return render(request, "tasks.html", context)


def _states(
    keys: Sequence[int], tried: Collection[int], fastest: Mapping[int, Leader]
) -> dict[str, list[int]]:
    """Return the tasks of each state, in the order of `keys`."""
    return {
        "tried": [key for key in keys if key in tried],
        "solved": [key for key in keys if key in fastest],
        "unsolved": [key for key in keys if key in tried and key not in fastest],
        "slower": [key for key in keys if key in fastest and fastest[key].slower],
        "untried": [key for key in keys if key not in tried],
    }


def _ordered(
    keys: Sequence[int], order: str, tried: Collection[int], fastest: Mapping[int, Leader]
) -> list[int]:
    """Return tasks that are given by name in another order; those without a result come last."""
    if order == "name":
        return list(keys)
    first = set(tried)
    by_state = sorted(keys, key=lambda key: key not in first)
    if order not in ORDERS:
        return by_state
    sign = -1 if order == "fastest" else 1
    timed = [key for key in by_state if key in fastest]
    timed.sort(key=lambda key: sign * fastest[key].speedup)
    return [*timed, *(key for key in by_state if key not in fastest)]


def _choices(tasks: TaskQuerySet, name: str) -> list[tuple[str, str]]:
    """Return the values of a filter of tasks, each with the number of tasks."""
    columns = {"category": "operator__category", "suite": "operator__suite"}
    column = columns.get(name, name)
    counted = tasks.order_by(column).values_list(column).annotate(Count("pk"))
    labels = suite_titles() if name == "suite" else {}
    named = [(value or NATIVE, count) for value, count in counted]
    return [(value, f"{labels.get(value, value)} ({count})") for value, count in named]


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
    versions = list(shown.versions.values_list("pk", flat=True))
    judged = _last_judged(visible_runs.filter(task_version__in=versions))
    newest = newest_records(MAX_RECORDS, task_version=version) if version else []
    found = runs_with_rounds([*judged, *(run for run, *_ in newest)])
    history = [found[run] for run in judged]
    task_records = [Record(found[run], *rest) for run, *rest in newest]
    published = verdicts_on(
        {operator: shown.operator.title}, track, version.content_hash if version else ""
    )
    context: dict[str, Any] = {
        "task": shown,
        "published": published,
        "claimed": claimed_on(operator, shown.operator.suite),
        "published_scale": Scale.over([each.verdict for each in published]),
        "version": version,
        "public": public,
        "kind": shown.kind,
        "retired_because": last_reason("task.retire", shown) if shown.status == "retired" else "",
        "facts": version and version.facts,
        "one_speedup": shown.kind.labels.speedup if shown.kind.one_speedup else "",
        "hidden": sorted(public.get("hidden_cases", {}).items()),
        "prompt": mark_safe(MarkdownIt("js-default").render(shown.operator.prompt)),
        "reference": highlighted(shown.kind.labels.reference, shown.operator.reference_source),
        "starter": [
            (path, highlighted(path, text))
            for path, text in public.get("starter", {}).items()
            if path != shown.kind.labels.reference
        ],
        "records": task_records,
        "history": history,
        "elsewhere": next((r for r in history if r.hardware.kind != public.get("kind")), None),
        "baselines": timed_baselines(version),
        "best_kernels": [] if shown.kind.one_speedup else best_kernels(shown.pk),
        "memory": [(e, memory_chart(e)) for e in (memory_frontiers(version) if version else ())],
        "scale": Scale.over(
            [*history, *(record.run for record in task_records)], "unseen_low", "unseen_high"
        ),
        "siblings": visible.filter(operator=shown.operator).exclude(pk=shown.pk),
    }
    charts: dict[str, Chart] = {"records": lambda: records_drawing(task_records)}
    for kernel in context["best_kernels"]:
        charts[f"roofline-{kernel.device.slug}"] = partial(roofline_drawing, kernel.roofline)
    for sizes, chart in context["memory"]:
        charts[f"memory-{sizes.device.slug}"] = partial(dict, chart)
    drawn = list(charts.values())
    context["card"] = card = Card(
        f"{shown.operator.title}, {shown.track}",
        f"Reference, cases, records and runs of a task of {shown.operator.category}.",
        lambda: first_of(drawn),
    )
    charts["card"] = card.drawing
    return chart_file(request, charts) or render(request, "task.html", context)


def _last_judged(runs: RunQuerySet) -> list[str]:
    """Return the keys of the runs of a task that were judged last.

    The database narrows by the versions of the task alone, which few runs have.
    """
    ended = runs.exclude(ended_at=None).order_by("-ended_at").values_list("pk", "status")
    return [pk for pk, status in ended if status in RUN_JUDGED][:MAX_RECENT_RUNS]
