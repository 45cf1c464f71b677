"""Tests of the counts over verdicts and the analysis page."""

from __future__ import annotations

import pytest

from arena.leaderboard.verdict_stats import (
    SPEEDUP_THRESHOLDS,
    CategoryCount,
    FastShares,
    verdict_stats,
)
from arena.runs import services
from arena.runs.models import Run
from tests.arena.factories import LEASE, ask_for_verdict, compiled, gate, interval, judge, report

pytestmark = pytest.mark.django_db

FAILED = [
    gate("integrity"),
    compiled(),
    gate("correctness", "failed", reason="WRONG_VALUES"),
]


@pytest.fixture
def worked(start):
    """Make a run from the speedups of its rounds; None stands for a wrong one."""

    def make(*speedups: float | None, **more) -> Run:
        run = start(**more)
        services.claim_run(run.pk, LEASE)
        for speedup in speedups:
            result = report(seen=interval(speedup)) if speedup else report("failed", gates=FAILED)
            judge(ask_for_verdict(run, "round"), result)
        return run

    return make


def test_verdict_stats_without_runs_are_empty(client, db):
    found = verdict_stats(Run.objects.all())
    assert (found.verdicts, found.failures, found.fast) == (0, [], [])
    assert "No submission has been judged yet." in client.get("/analysis/").content.decode()


def test_gate_counts_stop_at_the_gate_not_passed(worked):
    worked(None, 2.0)
    worked(None)
    found = verdict_stats(Run.objects.all())
    assert (found.verdicts, found.runs) == (3, 2)
    counted = {
        gate_count.gate: (gate_count.reached, gate_count.passed) for gate_count in found.gates
    }
    assert counted["compile"] == (3, 3)
    assert counted["correctness"] == (3, 1)
    assert counted["performance"] == (1, 1)
    [failure] = found.failures
    assert (failure.gate, failure.reason, failure.count) == ("correctness", "WRONG_VALUES", 2)
    assert failure.agents == 1 and failure.newest.submission.round == 1
    assert found.categories == [CategoryCount("Activation", 1, 3, "WRONG_VALUES")]


def test_verdict_stats_need_six_queries(worked, django_assert_num_queries):
    worked(None, 2.0)
    with django_assert_num_queries(6):
        assert verdict_stats(Run.objects.all()).verdicts == 2


def test_fast_p_keeps_the_best_of_a_run_after_its_last_round(worked):
    worked(1.1, 1.6, 1.3)
    worked(2.5)
    worked(None)
    assert SPEEDUP_THRESHOLDS == (0.0, 1.0, 1.25, 1.5, 2.0)
    third = 1 / 3
    assert verdict_stats(Run.objects.all()).fast == [
        FastShares(1, (2 * third, 2 * third, third, third, third)),
        FastShares(2, (2 * third, 2 * third, 2 * third, 2 * third, third)),
        FastShares(3, (2 * third, 2 * third, 2 * third, 2 * third, third)),
    ]


def test_broken_and_private_runs_are_not_counted(worked, client, alice):
    run = worked(2.0)
    broken = ask_for_verdict(run, "round")
    services.claim_evaluation(broken.pk, "queued", "building", LEASE)
    services.break_evaluation(broken.pk, LEASE, "the judge failed")
    worked(None, owner=alice, visibility="owner")
    page = client.get("/analysis/")
    assert page.context["stats"].verdicts == 1
    assert "33%" not in page.content.decode()


def test_analysis_filters_come_from_the_query(worked, client, agent):
    worked(2.0)
    assert verdict_stats(Run.objects.matching(agent=agent.slug)).verdicts == 1
    assert verdict_stats(Run.objects.matching(category="Loss")).verdicts == 0
    assert "Show all verdicts" in client.get("/analysis/?agent=nobody").content.decode()
