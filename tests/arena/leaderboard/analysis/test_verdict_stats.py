"""Tests of the counts over verdicts and the analysis page."""

from __future__ import annotations

from itertools import count

import pytest

from arena.leaderboard.analysis.verdict_stats import (
    SPEEDUP_THRESHOLDS,
    CategoryCount,
    FastShares,
    VerdictStats,
    verdict_stats,
)
from arena.leaderboard.analysis.verdicts import forget, verdicts
from arena.leaderboard.ranking.results import snapshot
from arena.runs import services
from arena.runs.models import Evaluation, Run
from arena.runs.scoring.standings import keep_standing
from arena.runs.services.runs import end_run
from tests.arena.factories import (
    LEASE,
    ask_for_verdict,
    compiled,
    gate,
    hide,
    interval,
    judge,
    report,
)

pytestmark = pytest.mark.django_db

FAILED = [
    gate("integrity"),
    compiled(),
    gate("correctness", "failed", reason="WRONG_VALUES"),
]


@pytest.fixture
def worked(start):
    """Make a judged run from the speedups of its rounds; None stands for a wrong one."""
    repeats = count()

    def make(*speedups: float | None, ended: bool = True, repeat: int | None = None, **more) -> Run:
        run = start(**more)
        run.repeat = next(repeats) if repeat is None else repeat
        run.save(update_fields=["repeat"])
        services.claim_run(run.pk, LEASE)
        for speedup in speedups:
            result = report(seen=interval(speedup)) if speedup else report("failed", gates=FAILED)
            judge(ask_for_verdict(run, "round"), result)
        if ended:
            end_run(run.pk, {}, "passed" if any(speedups) else "failed")
        return run

    return make


def stats() -> VerdictStats:
    return verdict_stats(verdicts(snapshot()))


def test_verdict_stats_without_runs_are_empty(client, db):
    found = stats()
    assert (found.verdicts, found.failures, found.fast) == (0, [], [])
    assert "No submission has been judged yet." in client.get("/analysis/").content.decode()


def test_gate_counts_stop_at_the_gate_not_passed(worked):
    worked(None, 2.0)
    newest = worked(None)
    found = stats()
    assert (found.verdicts, found.runs) == (3, 2)
    counted = {
        gate_count.gate: (gate_count.reached, gate_count.passed) for gate_count in found.gates
    }
    assert counted["compile"] == (3, 3)
    assert counted["correctness"] == (3, 1)
    assert counted["performance"] == (1, 1)
    [failure] = found.failures
    assert (failure.gate, failure.reason, failure.count) == ("correctness", "WRONG_VALUES", 2)
    assert (failure.agents, failure.run, failure.round) == (1, newest.pk, 1)
    assert found.categories == [CategoryCount("Activation", 1, 3, "WRONG_VALUES")]


def test_verdicts_are_read_once_and_those_of_a_new_run_alone(worked, django_assert_num_queries):
    worked(None, 2.0)
    first = verdicts(snapshot())
    worked(1.5)
    shown = snapshot()
    with django_assert_num_queries(3):
        assert len(verdicts(shown)) == len(first) + 1
    with django_assert_num_queries(0):
        verdicts(shown)


def test_verdicts_after_any_change_equal_those_read_at_once(worked):
    runs = [worked(None, 2.0), worked(1.5), worked(None)]
    verdicts(snapshot())
    hide(runs[0])
    Evaluation.objects.filter(submission__run=runs[1]).update(verdict="failed", reason="CRASHED")
    keep_standing(runs[1])  # as after a run is judged again
    kept = stats()
    assert (kept.verdicts, kept.categories[0].passed) == (2, 0)
    forget()
    assert stats() == kept


def test_newest_run_of_a_place_counts_alone(worked):
    worked(2.0, repeat=1)
    worked(None, repeat=1)
    assert stats().verdicts == 1


def test_gate_counts_equal_those_of_single_results(worked):
    speedups = [(None, 2.0), (1.1, None, 1.6), (None,), (1.0, 1.0)]
    runs = [worked(*each) for each in speedups]
    found = stats()
    evaluations = Evaluation.objects.filter(submission__run__in=runs)
    for counted in found.gates:
        results = [g for e in evaluations for g in e.gates.all() if g.gate == counted.gate]
        assert counted.reached == sum(result.verdict != "skipped" for result in results)
        assert counted.passed == sum(result.verdict == "passed" for result in results)


def test_fast_p_keeps_the_best_of_a_run_after_its_last_round(worked):
    worked(1.1, 1.6, 1.3)
    worked(2.5)
    worked(None)
    assert SPEEDUP_THRESHOLDS == (0.0, 1.0, 1.25, 1.5, 2.0)
    third = 1 / 3
    assert stats().fast == [
        FastShares(1, (2 * third, 2 * third, third, third, third)),
        FastShares(2, (2 * third, 2 * third, 2 * third, 2 * third, third)),
        FastShares(3, (2 * third, 2 * third, 2 * third, 2 * third, third)),
    ]


def test_broken_and_private_runs_are_not_counted(worked, client, alice):
    run = worked(2.0, ended=False)
    broken = ask_for_verdict(run, "round")
    for _ in range(2):
        services.claim_evaluation(broken.pk, "queued", "building", LEASE)
        services.break_evaluation(broken.pk, LEASE, "the judge failed")
    end_run(run.pk, {}, "passed")
    worked(None, owner=alice, visibility="owner")
    page = client.get("/analysis/")
    assert page.context["stats"].verdicts == 1
    assert "33%" not in page.content.decode()


def test_analysis_filters_come_from_the_query(worked, client, agent):
    worked(2.0)
    for query, verdicts_shown in ((f"agent={agent.slug}", 1), ("category=Loss", 0), ("track=x", 0)):
        assert client.get(f"/analysis/?{query}").context["stats"].verdicts == verdicts_shown
    assert "Show all verdicts" in client.get("/analysis/?agent=nobody").content.decode()
