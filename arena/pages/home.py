"""The pages home and methodology."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.utils.safestring import SafeString
from django.views.decorators.http import require_safe

from arena.catalog.models import Task
from arena.catalog.templatetags.figures import Scale
from arena.charts import Figure
from arena.leaderboard.analysis.ablation import ablation_tables
from arena.leaderboard.charts import forest_chart
from arena.leaderboard.kernels.claims import finding
from arena.leaderboard.kernels.records import records
from arena.leaderboard.kernels.suite_boards import ranked_board
from arena.leaderboard.ranking.boards import Board, boards, boards_of_tracks
from arena.leaderboard.ranking.boards import leaders as fastest_of_tasks
from arena.leaderboard.ranking.results import Snapshot, computed, snapshot
from arena.leaderboard.ranking.suite_scores import FAST_P
from arena.pages.charts.cards import Card
from arena.pages.charts.files import chart_file
from arena.pages.leaderboard.board import scale_of
from arena.published.kernels import kernels
from arena.published.models import PublishedKernel
from arena.published.outcomes import OUTCOMES
from arena.runs.display.rounds import RoundCount
from arena.runs.display.waiting import waiting_of
from arena.runs.models import Evaluation, Run
from arena.runs.querysets import RunQuerySet
from arena.runs.scoring.best import best_first
from arena.runs.scoring.reward import FORMULA
from arena.runs.states import RUN_JUDGED, RunStatus, Scope
from evaluation.types import Verdict

MAX_LEADERS = 3
MAX_NEWEST_RUNS = MAX_NEWEST_RECORDS = 5
MAX_ACTIVE_RUNS = 3
MAX_MODELS = 5
MAX_CARD_ROWS = 6
CARD_TEXT = "Live benchmark of AI agents that write GPU and CPU kernels: speed and generalization."


@dataclass(frozen=True)
class Models:
    """The first models of a suite's board as HTML, and the devices of their verdicts."""

    title: str
    devices: Sequence[str]
    table: SafeString


@require_safe
def home(request: HttpRequest) -> HttpResponse:
    visible = Run.objects.visible_to(request.user).of_agents().with_names()
    now = snapshot()
    if request.user.is_authenticated:
        newest = _newest_table(visible)
    else:
        newest = computed(now, "newest runs", lambda: _newest_table(visible))
    card = Card("Kernel Arena", CARD_TEXT, lambda: _first_forest(now))
    if file := chart_file(request, {"card": card.drawing}):
        return file
    published = kernels()
    context = {
        "card": card,
        **_active(visible.active()),
        "leaders": computed(now, "home leaders", _leaders),
        "records": computed(now, "newest records", _records),
        "newest": newest,
        "counts": computed(now, "counts", lambda: _counts(now)),
        "finding": finding(published),
        "models": _models(published),
    }
    return render(request, "home.html", context)


@require_safe
def methodology(request: HttpRequest) -> HttpResponse:
    tables = ablation_tables(settings.ADMISSIONS)
    context = {"reward": FORMULA, "ablations": tables, "outcomes": OUTCOMES.values()}
    return render(request, "methodology.html", context)


@lru_cache(maxsize=1)
def _models(found: tuple[PublishedKernel, ...]) -> Models | None:
    """Return the models that have ranks over shared problems; None where no suite ranks any."""
    board = ranked_board(found)
    if board is None:
        return None
    devices = sorted({e.file.device for e in found if e.suite == board.suite and e.file.device})
    context = {"board": replace(board, scores=board.ranked[:MAX_MODELS]), "thresholds": FAST_P}
    return Models(board.title, devices, render_to_string("claims/suite_table.html", context))


def _first_forest(now: Snapshot) -> Figure | None:
    """Return the chart of the leaders on the first device of the boards."""
    found = next((_with_ranks(board, now) for board in boards(now)), None)
    rows = (found.ranked or found.rows)[:MAX_CARD_ROWS] if found else []
    return forest_chart(rows) if rows else None


def _leaders() -> SafeString:
    """Return the leaders of each device as HTML, which is the same until a result changes."""
    now = snapshot()
    found = [_with_ranks(board, now) for board in boards(now)]
    leaders = [
        (board, (board.ranked or board.rows)[:MAX_LEADERS], *_solved_and_slower(board, now))
        for board in found
    ]
    context = {
        "boards": leaders,
        "scale": scale_of(row for _, rows, *_ in leaders for row in rows),
    }
    return render_to_string("parts/leaders.html", context) if found else SafeString("")


def _solved_and_slower(board: Board, now: Snapshot) -> tuple[int, int]:
    """Return how many tasks of a board are solved, and on how many of these nothing is faster.

    That is where the best kernel is surely slower than the baseline on held-out cases. Both count
    verdicts by the board's version of the judge.
    """
    best = fastest_of_tasks(board.filters.hardware, now, board.filters.judge)
    found = [best[task] for task in board.tasks if task in best]
    return len(found), sum(each.slower for each in found)


def _with_ranks(board: Board, now: Snapshot) -> Board:
    """Return a board, or where no agent has a rank on it, the first of a single track with one."""
    return board if board.ranked else next(iter(boards_of_tracks(board, now)), board)


def _records() -> SafeString | str:
    newest = records(MAX_NEWEST_RECORDS)
    scale = Scale.over((record.run for record in newest), "unseen_low", "unseen_high")
    context = {"records": newest, "scale": scale, "brief": True}
    return render_to_string("parts/records_table.html", context) if newest else ""


def _newest_table(visible: RunQuerySet) -> SafeString | str:
    newest = _newest(visible)
    scale = Scale.over(newest, "unseen_low", "unseen_high")
    context = {"runs": newest, "scale": scale, "brief": True}
    return render_to_string("parts/runs_table.html", context) if newest else ""


def _newest(visible: RunQuerySet) -> list[Run]:
    """Return the runs that were judged last; of each status apart, which an index has in order."""
    by_status = [visible.filter(status=status).order_by("-ended_at") for status in RUN_JUDGED]
    found = [run for runs in by_status for run in runs[:MAX_NEWEST_RUNS] if run.ended_at]
    return sorted(found, key=lambda run: run.ended_at or run.created_at, reverse=True)[
        :MAX_NEWEST_RUNS
    ]


def _counts(now: Snapshot) -> dict[str, int]:
    """Return the counts of the whole arena: its runs are those that boards count."""
    return {
        "judged": len(now.table.rows),
        "rounds": int(now.table.rows["rounds"].sum()),
        "tasks": Task.objects.published().count(),
        "agents": sum(agent.active for agent in now.agents.values()),
    }


def _stalled(waiting: Sequence[Run]) -> str:
    """Return why the first run of the queue cannot begin; empty where workers serve it."""
    found = waiting_of(waiting[0]) if waiting else None
    return found.reason if found and not found.served else ""


def _active(active: RunQuerySet) -> dict[str, Any]:
    """Return the first runs at work, then of the queue in its order, and counts of the others."""
    at_work = active.exclude(status=RunStatus.QUEUED).order_by("created_at")
    runs = list(at_work[:MAX_ACTIVE_RUNS])
    waiting = list(active.in_turn()[: MAX_ACTIVE_RUNS - len(runs)])
    queued = active.filter(status=RunStatus.QUEUED)
    return {
        "active": _with_rounds([*runs, *waiting]),
        "stalled": _stalled(waiting),
        "more_running": at_work.count() - len(runs),
        "more_waiting": queued.count() - len(waiting),
    }


def _with_rounds(runs: list[Run]) -> list[tuple[Run, RoundCount, Evaluation | None]]:
    """Return each run with the count of its rounds and the best one so far."""
    rounds = Evaluation.objects.filter(submission__run__in=runs, scope=Scope.ROUND)
    by_run: dict[str, Evaluation] = {}
    best: Any
    for best in best_first(rounds).select_related("submission"):
        by_run.setdefault(best.submission.run_id, best)
    disturbed = rounds.filter(verdict=Verdict.INCONCLUSIVE).values_list("submission__run")
    inconclusive = Counter(run for (run,) in disturbed)
    return [(run, RoundCount.of(run, inconclusive[run.pk]), by_run.get(run.pk)) for run in runs]
