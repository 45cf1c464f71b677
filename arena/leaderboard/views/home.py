"""The pages home and methodology."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.core.cache import cache
from django.db.models import Sum
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from arena.catalog.models import Agent, Task
from arena.catalog.templatetags.figures import Scale
from arena.leaderboard.ablation import ablation_tables
from arena.leaderboard.boards import boards
from arena.leaderboard.records import records
from arena.leaderboard.views.board import scale_of
from arena.runs.best import best_first
from arena.runs.models import Evaluation, Run
from arena.runs.querysets import RunQuerySet
from arena.runs.reward import FORMULA
from arena.runs.states import RUN_JUDGED, RunStatus, Scope

MAX_NEWEST_RUNS = 8
MAX_NEWEST_RECORDS = 5
MAX_ACTIVE_RUNS = 12
COUNTS_SECONDS = 10
"""The counts of the whole arena are this old at most."""


@require_safe
def home(request: HttpRequest) -> HttpResponse:
    visible = Run.objects.visible_to(request.user).of_agents().with_names()
    newest = _newest(visible)
    newest_records = records(MAX_NEWEST_RECORDS)
    found = boards()
    leaders = [[row for row in board.rows if row.rank][:3] for board in found]
    context = {
        "active": _with_best(_active(visible.active())),
        "boards": [(b.device, rows, b.common) for b, rows in zip(found, leaders, strict=True)],
        "scale": scale_of(row for rows in leaders for row in rows),
        "records": newest_records,
        "records_scale": unseen_scale([record.run for record in newest_records]),
        "newest": newest,
        "newest_scale": unseen_scale(newest),
        "counts": _counts(),
    }
    return render(request, "home.html", context)


@require_safe
def methodology(request: HttpRequest) -> HttpResponse:
    tables = ablation_tables(settings.ADMISSIONS)
    return render(request, "methodology.html", {"reward": FORMULA, "ablations": tables})


def unseen_scale(runs: Sequence[Run]) -> Scale:
    return Scale.over(runs, "unseen_low", "unseen_high")


def _newest(visible: RunQuerySet) -> list[Run]:
    """Return the runs that were judged last; of each status apart, which an index has in order."""
    by_status = [visible.filter(status=status).order_by("-ended_at") for status in RUN_JUDGED]
    found = [run for runs in by_status for run in runs[:MAX_NEWEST_RUNS] if run.ended_at]
    return sorted(found, key=lambda run: run.ended_at or run.created_at, reverse=True)[
        :MAX_NEWEST_RUNS
    ]


def _counts() -> dict[str, int]:
    """Return the counts of the whole arena, as everybody sees it."""
    counts: dict[str, int] | None = cache.get("counts")
    if counts is None:
        judged = Run.objects.public().of_agents().filter(status__in=RUN_JUDGED).order_by()
        counts = {
            "judged": judged.count(),
            "rounds": judged.aggregate(all=Sum("rounds"))["all"] or 0,
            "tasks": Task.objects.runnable().count(),
            "agents": Agent.objects.filter(active=True).count(),
        }
        cache.set("counts", counts, COUNTS_SECONDS)
    return counts


def _active(active: RunQuerySet) -> list[Run]:
    """Return the runs at work, then the queued ones in the order of the queue."""
    at_work = active.exclude(status=RunStatus.QUEUED).order_by("created_at")
    runs = [*at_work[:MAX_ACTIVE_RUNS], *active.in_turn()[:MAX_ACTIVE_RUNS]]
    return runs[:MAX_ACTIVE_RUNS]


def _with_best(runs: list[Run]) -> list[tuple[Run, Evaluation | None]]:
    """Return each run with its best round so far."""
    rounds = Evaluation.objects.filter(submission__run__in=runs, scope=Scope.ROUND)
    by_run: dict[str, Evaluation] = {}
    best: Any
    for best in best_first(rounds).select_related("submission"):
        by_run.setdefault(best.submission.run_id, best)
    return [(run, by_run.get(run.pk)) for run in runs]
