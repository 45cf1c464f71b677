"""One rule for the best round, on every page and in the trace."""

from __future__ import annotations

import pytest

from arena.leaderboard.analysis.verdict_stats import verdict_stats
from arena.leaderboard.analysis.verdicts import verdicts
from arena.leaderboard.ranking.results import snapshot
from arena.runs import services
from arena.runs.display.rounds import best_of, rounds_of
from arena.runs.models import Evaluation, Event, Run
from arena.runs.scoring.best import best_first, best_so_far
from arena.runs.services.runs import end_run
from arena.runs.states import Scope
from evaluation.types import Interval
from tests.arena.factories import LEASE, ask_for_verdict, judge, report

pytestmark = pytest.mark.django_db


def judge_rounds(run: Run, *rounds: tuple[float, float]) -> None:
    """Judge one round for each speedup and lower bound."""
    services.claim_run(run.pk, LEASE)
    for speedup, low in rounds:
        seen = Interval(speedup, low, 2 * speedup)
        judge(ask_for_verdict(run, "round"), report(seen=seen))


def test_best_round_with_a_lucky_median_is_the_one_with_the_higher_lower_bound(start, client):
    run = start()
    judge_rounds(run, (2.0, 1.9), (3.0, 1.2), (1.5, 1.4))
    metrics = Event.objects.filter(run=run, kind="metric", body__name="speedup").order_by("seq")
    assert [metric.body["best"] for metric in metrics] == [2.0, 2.0, 2.0], "trace"
    rounds = rounds_of(run)
    assert [each.best for each in rounds] == [2.0, 2.0, 2.0], "table and chart"
    assert best_of(rounds).number == 1
    [(_, _, shown)] = client.get("/").context["active"]
    assert shown.speedup == 2.0, "home page"
    end_run(run.pk, {}, "passed")
    fast = verdict_stats(verdicts(snapshot())).fast
    assert [each.shares[-1] for each in fast] == [1, 1, 1], "analysis"


def test_best_round_of_a_final_verdict_is_of_the_rounds_before_it(start):
    run = start()
    judge_rounds(run, (2.0, 1.9))
    final = services.request_evaluation(run.submissions.get(), "final")
    judge(final, report(seen=Interval(2.5, 2.4, 2.6)))
    metric = Event.objects.filter(run=run, kind="metric", body__name="speedup").last()
    assert (metric.body["value"], metric.body["best"]) == (2.5, 2.0)
    assert best_of(rounds_of(run)).best == 2.0


def test_best_first_of_equal_rounds_puts_the_latest_first(start):
    run = start()
    judge_rounds(run, (2.0, 1.5), (1.8, 1.5), (1.6, 1.1))
    rounds = Evaluation.objects.filter(scope=Scope.ROUND)
    assert [each.submission.round for each in best_first(rounds)] == [2, 1, 3]
    in_order = list(rounds.order_by("submission__round"))
    assert [each.submission.round for each in best_so_far(in_order)] == [1, 2, 2]
