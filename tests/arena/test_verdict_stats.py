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
    """A run whose rounds had these speedups; None for one that was wrong."""

    def make(*speedups: float | None, **more) -> Run:
        run = start(**more)
        services.claim_run(run.pk, LEASE)
        for speedup in speedups:
            said = report(seen=interval(speedup)) if speedup else report("failed", gates=FAILED)
            judge(ask_for_verdict(run, "round"), said)
        return run

    return make


def test_an_empty_arena_is_analysed_as_such(client, db):
    found = verdict_stats(Run.objects.all())
    assert (found.verdicts, found.failures, found.fast) == (0, [], [])
    assert "No submission has been judged yet." in client.get("/analysis/").content.decode()


def test_gates_are_counted_as_far_as_they_were_reached(worked):
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


def test_verdicts_are_counted_without_another_look_at_them(worked, django_assert_num_queries):
    worked(None, 2.0)
    with django_assert_num_queries(6):
        assert verdict_stats(Run.objects.all()).verdicts == 2


def test_a_run_keeps_its_best_after_its_last_round(worked):
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


def test_what_broke_by_our_fault_or_is_private_is_no_verdict(worked, client, alice):
    run = worked(2.0)
    broken = ask_for_verdict(run, "round")
    services.claim_evaluation(broken.pk, "queued", "building", LEASE)
    services.break_evaluation(broken.pk, LEASE, "the judge failed")
    worked(None, owner=alice, visibility="owner")
    page = client.get("/analysis/")
    assert page.context["stats"].verdicts == 1
    assert "33%" not in page.content.decode()


def test_the_address_narrows(worked, client, agent):
    worked(2.0)
    assert verdict_stats(Run.objects.matching(agent=agent.slug)).verdicts == 1
    assert verdict_stats(Run.objects.matching(category="Loss")).verdicts == 0
    assert "Show all verdicts" in client.get("/analysis/?agent=nobody").content.decode()
