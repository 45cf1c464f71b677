"""A verdict that the machine could not measure: judged once more, no round spent, never ranked."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.db.models import F

from arena.accounts.models import ApiToken
from arena.runs import services
from arena.runs.models import Evaluation, Event, Run
from arena.runs.scoring.best import chosen_round, end_without_final
from arena.runs.services.rejudging import replace_verdict
from arena.runs.trace.events import EventDraft
from arena.runs.trace.outline import outline
from arena.runs.trace.sifting import counts
from arena.runs.trace.timeline import rows
from tests.arena.factories import LEASE, ask_for_verdict, compiled, finished, gate, judge, report

pytestmark = pytest.mark.django_db
BUSY = "processor busy 74 % of the time: inconclusive, other work disturbed 9 of 9 pairs of windows"


def inconclusive(right: bool = True) -> Any:
    """Return the report on a source whose values were right, or were not yet compared."""
    last = (gate("performance", "inconclusive"),) if right else ()
    verdict = "passed" if right else "inconclusive"
    gates = (gate("integrity"), compiled(), gate("correctness", verdict), *last)
    return report("inconclusive", message=BUSY, gates=gates)


def judge_twice(evaluation: Evaluation, outcome: Any) -> None:
    for _ in range(2):
        judge(evaluation, outcome)


def judge_or_repeat(evaluation: Evaluation, outcome: Any) -> None:
    (judge_twice if outcome.verdict == "inconclusive" else judge)(evaluation, outcome)


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


def test_trace_of_a_round_judged_twice_shows_both_attempts_in_order(run: Run) -> None:
    evaluation = ask_for_verdict(run)
    judge(evaluation, inconclusive())
    judge(evaluation, report())
    run.refresh_from_db()
    shown = [row.event for row in rows(run.events.all(), run.last_seq)]
    assert [event.seq for event in shown] == sorted(event.seq for event in shown)
    told = [
        event.body.get("verdict") or event.body.get("level")
        for event in shown
        if event.kind == "log" or event.body.get("gate") == "performance"
    ]
    assert told == ["inconclusive", "warning", "passed"]
    kinds = [event.kind for event in shown]
    assert kinds.count("compiler_output") == 2 and kinds.count("gate_result") == 9


def test_inconclusive_round_is_amber_everywhere_in_the_trace_and_no_error(
    run: Run, client: Any
) -> None:
    services.record(
        run.pk, [EventDraft("message", {"role": "assistant", "text": "Try."})], producer="test"
    )
    judge_twice(ask_for_verdict(run, "round"), inconclusive())
    failed = EventDraft("tool_result", {"tool": "shell", "ok": False, "exit_code": 3})
    services.record(run.pk, [failed], producer="test")
    run.refresh_from_db()
    events = run.events.all()
    Event.objects.filter(run=run).update(t_ms=F("seq"))
    assert [(s.verdict, s.bad) for s in outline(events).stops if s.kind == "round"] == [
        ("inconclusive", False)
    ]
    tones = {
        row.event.body["verdict"]: row.tone
        for row in rows(events, run.last_seq)
        if row.event.body.get("verdict")
    }
    assert tones == {"passed": "", "inconclusive": "warn"}
    assert counts(events)["errors"] == 1, "the tool's own"
    page = client.get(f"{run.get_absolute_url()}?tab=trace").content.decode()
    assert ">~ 1</text>" in page and "× 1" not in page
    stop = page.partition("Round 1</span>")[2].partition("</a>")[0]
    assert 'data-verdict="inconclusive"' in stop and "✕" not in stop


def test_gate_that_is_recorded_twice_in_one_attempt_is_one_row(run: Run) -> None:
    evaluation = ask_for_verdict(run)
    assert services.claim_evaluation(evaluation.pk, "queued", "building", LEASE)
    for _ in range(2):
        assert services.record_gate(evaluation.pk, LEASE, gate("compile"))
    run.refresh_from_db()
    shown = [row.event.kind for row in rows(run.events.all(), run.last_seq)]
    assert shown.count("gate_result") == 1


def test_final_verdict_inconclusive_twice_ends_the_run_as_nobodys_and_can_be_judged_again(
    run: Run,
) -> None:
    evaluation = ask_for_verdict(run)
    judge_twice(evaluation, inconclusive())
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
    judge_twice(evaluation, inconclusive())
    assert services.rounds_spent(run) == 0
    judge(ask_for_verdict(run, "round"), report())
    assert services.rounds_spent(run) == 1
    assert services.progress(run).rounds_left == 1


def test_pages_count_rounds_against_the_budget_and_name_the_free_ones_apart(
    run: Run, client: Any
) -> None:
    judge_twice(ask_for_verdict(run, "round"), inconclusive())
    for _ in range(2):
        judge(ask_for_verdict(run, "round"), report())
    for address in ("/", "/live/", run.get_absolute_url()):
        page = " ".join(client.get(address).content.decode().split())
        assert re.search(r">2/2<span [^>]*disturbed 1 more round:[^>]*>, 1 free<", page), address


def test_replay_shows_the_budget_and_the_rounds_that_were_free_by_then(
    run: Run, client: Any
) -> None:
    judge_twice(ask_for_verdict(run, "round"), inconclusive())
    judge(ask_for_verdict(run, "round"), report())
    judge(ask_for_verdict(run), report())
    Event.objects.filter(run=run).update(t_ms=F("seq"))
    first, second, _ = run.events.filter(body__span_kind="submission").order_by("seq")

    def shown(upto: int) -> str:
        page = client.get(f"{run.get_absolute_url()}summary/?upto={upto}").content.decode()
        row = page.partition("<dt>round</dt>")[2].partition("</dd>")[0]
        return "".join(re.sub("<[^>]*>", "", row).split())

    assert (shown(first.seq), shown(second.seq)) == ("1/2", "1/2,1free")


def test_inconclusive_rounds_are_free_up_to_the_number_of_the_budget(run: Run) -> None:
    for _ in range(3):
        judge_twice(ask_for_verdict(run, "round"), inconclusive())
    assert services.rounds_spent(run) == 1, "so a run ends on a machine that is never idle"


def test_final_verdict_is_of_the_latest_inconclusive_round_that_was_right(run: Run) -> None:
    for outcome in (report("failed"), *3 * [inconclusive()], inconclusive(right=False)):
        judge_or_repeat(ask_for_verdict(run, "round"), outcome)
    chosen = chosen_round(run)
    assert chosen and chosen.round == 4


def test_round_that_passed_is_chosen_before_a_later_inconclusive_one(run: Run) -> None:
    for outcome in (report(), inconclusive()):
        judge_or_repeat(ask_for_verdict(run, "round"), outcome)
    chosen = chosen_round(run)
    assert chosen and chosen.round == 1


def test_run_of_inconclusive_rounds_alone_ends_by_the_fault_of_the_arena(run: Run) -> None:
    judge_twice(ask_for_verdict(run, "round"), inconclusive(right=False))
    assert chosen_round(run) is None
    text = f"No round could be measured. Round 1, the last: {BUSY}"
    assert end_without_final(run, "unused") == ("broken", text, "arena")


def test_failed_round_gives_the_reason_beside_a_later_inconclusive_one(run: Run) -> None:
    for outcome in (report("failed"), inconclusive(right=False)):
        judge_or_repeat(ask_for_verdict(run, "round"), outcome)
    assert chosen_round(run) is None
    text = "No round passed. Round 1, the last: Case small differs at [3]."
    assert end_without_final(run, "unused") == ("failed", text, "candidate")


def test_external_run_of_inconclusive_rounds_alone_ends_by_the_fault_of_the_arena(
    client: Any, alice: Any, task: Any, hardware: Any
) -> None:
    _, secret = ApiToken.issue(alice, "agent", ("ingest", "read"))

    def post(path: str, body: Any) -> Any:
        headers = {"authorization": f"Bearer {secret}"}
        return client.post(f"/api/v1/runs{path}", body, "application/json", headers=headers).json()

    run = post("", {"task": "relu/cpp-to-cpp", "external": {"name": "Climber", "model": "m-1"}})
    post(f"/{run['id']}/verdicts", {"source": "int a;", "round": 1})
    judge_twice(Evaluation.objects.get(), inconclusive(right=False))
    ended = post(f"/{run['id']}/finish", {})
    assert (ended["status"], ended["fault"]) == ("broken", "arena")
    assert Run.objects.get().reason.startswith("No round could be measured.")


def test_inconclusive_rejudging_keeps_the_earlier_verdict(start: Any) -> None:
    run = finished(start())
    final = Evaluation.objects.get(submission__run=run, scope="final")
    again = services.request_rejudging(final)
    replace_verdict(again, "inconclusive", BUSY, {})
    run.refresh_from_db()
    final.refresh_from_db()
    assert run.status == "passed" and final.scope == "final"
