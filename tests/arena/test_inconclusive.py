"""A verdict that the machine could not measure: judged once more, no round spent, never ranked."""

from __future__ import annotations

from typing import Any

import pytest

from arena.runs import services
from arena.runs.models import Evaluation, Event, Run
from arena.runs.services.rejudging import replace_verdict
from tests.arena.factories import LEASE, ask_for_verdict, finished, judge, report

pytestmark = pytest.mark.django_db
BUSY = "processor busy 74 % of the time: inconclusive, other work disturbed 9 of 9 pairs of windows"


def inconclusive() -> Any:
    return report("inconclusive", message=BUSY)


@pytest.fixture
def run(start: Any) -> Run:
    run: Run = start(budget={"rounds": 2})
    assert services.claim_run(run.pk, LEASE)
    return run


def test_inconclusive_verdict_is_queued_once_more(run: Run) -> None:
    evaluation = ask_for_verdict(run)
    judge(evaluation, inconclusive())
    evaluation.refresh_from_db()
    assert (evaluation.status, evaluation.verdict) == ("queued", "")
    assert not evaluation.gates.exists() and not evaluation.measurements.exists()
    notes = Event.objects.filter(run=run, kind="log").values_list("body__text", flat=True)
    assert [BUSY in note for note in notes] == [True]
    judge(evaluation, report())
    run.refresh_from_db()
    assert run.status == "passed"


def test_final_verdict_inconclusive_twice_ends_the_run_as_nobodys_and_can_be_judged_again(
    run: Run,
) -> None:
    evaluation = ask_for_verdict(run)
    for _ in range(2):
        judge(evaluation, inconclusive())
    evaluation.refresh_from_db()
    run.refresh_from_db()
    assert (evaluation.status, evaluation.verdict) == ("done", "inconclusive")
    assert (run.status, run.fault, run.reason) == ("broken", "arena", BUSY)
    assert run.speedup is None and run not in Run.objects.counted()
    again = services.request_rejudging(evaluation)
    judge(again, report(speedup=3.0))
    run.refresh_from_db()
    assert (run.status, run.speedup) == ("passed", 3.0)


def test_inconclusive_round_is_not_spent(run: Run) -> None:
    evaluation = ask_for_verdict(run, "round")
    for _ in range(2):
        judge(evaluation, inconclusive())
    assert services.rounds_spent(run) == 0
    judge(ask_for_verdict(run, "round"), report())
    assert services.rounds_spent(run) == 1
    assert services.progress(run).rounds_left == 1


def test_inconclusive_rejudging_keeps_the_earlier_verdict(start: Any) -> None:
    run = finished(start())
    final = Evaluation.objects.get(submission__run=run, scope="final")
    again = services.request_rejudging(final)
    replace_verdict(again, "inconclusive", BUSY, {})
    run.refresh_from_db()
    final.refresh_from_db()
    assert run.status == "passed" and final.scope == "final"
