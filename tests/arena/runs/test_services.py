from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth.models import AnonymousUser
from django.utils import timezone

from arena import queue
from arena.catalog.models import Agent, Hardware, Task, Worker
from arena.catalog.services import heartbeat_worker
from arena.errors import (
    CannotJudge,
    CannotWork,
    Conflict,
    Forbidden,
    NotFound,
    QuotaExceeded,
    UserError,
)
from arena.runs import services
from arena.runs.models import Evaluation, Event, GateResult, Measurement, Run
from arena.runs.trace.events import EventDraft
from evaluation.code.languages import languages
from tests.arena.factories import (
    HIDDEN_CASE,
    LEASE,
    ask_for_verdict,
    finished,
    gate,
    judge,
    measurement,
    messages_in,
    report,
)

pytestmark = pytest.mark.django_db


def states(run: Run) -> list[str]:
    said = Event.objects.filter(run=run, kind="status").order_by("seq")
    return [event.body["state"] for event in said]


# Starting


def test_start_run_is_queued_with_status_event(start, alice):
    run = start(owner=alice, budget={"rounds": 3}, label="first")
    assert (run.status, run.owner, run.label) == ("queued", alice, "first")
    assert run.budget == {"rounds": 3, "seconds": 300}
    assert states(run) == ["queued"]
    assert len(run.pk) == 12


def test_start_run_enqueues_message_on_commit(start, valkey, django_capture_on_commit_callbacks):
    messages_in(queue.AGENTS)  # those of earlier tests
    with django_capture_on_commit_callbacks(execute=True):
        start()
        assert ("run_agent", ()) not in messages_in(queue.AGENTS)
    assert ("run_agent", ()) in messages_in(queue.AGENTS)


def test_start_run_with_unreachable_queue_is_stored(
    start, settings, django_capture_on_commit_callbacks
):
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    with django_capture_on_commit_callbacks(execute=True):
        run = start()
    assert Run.objects.filter(pk=run.pk).exists()


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"task_slug": "relu/nowhere"}, NotFound, "no task 'relu/nowhere'"),
        ({"task_slug": "relu"}, NotFound, "no task 'relu'"),
        ({"agent_slug": "nobody"}, NotFound, "no agent 'nobody'"),
        ({"hardware_slug": "abacus"}, NotFound, "no hardware 'abacus'"),
        ({"budget": {"rounds": 0}}, UserError, "budget of rounds is 0"),
        ({"budget": {"rounds": True}}, UserError, "budget of rounds is True"),
        ({"budget": {"dollars": 1}}, UserError, "Unknown budget 'dollars'"),
        ({"visibility": "secret"}, UserError, "Unknown visibility"),
    ],
)
def test_start_run_invalid_request_is_refused_with_hint(start, changes, error, message):
    with pytest.raises(error, match=message) as refused:
        start(**changes)
    assert refused.value.hint
    assert not Run.objects.exists()


def test_start_run_task_outside_agents_patterns_is_refused(start, task):
    Agent.objects.update(tasks=["gelu/cpp-to-cpp"])
    with pytest.raises(CannotWork, match="does not work on relu/cpp-to-cpp") as refused:
        start()
    assert refused.value.hint == "It works on gelu/cpp-to-cpp."
    assert not Run.objects.exists()
    Agent.objects.update(tasks=["gelu/cpp-to-cpp", "*/cpp-to-cpp"])
    start()


def test_start_run_hardware_kind_outside_agents_kinds_is_refused(start, monkeypatch):
    Agent.objects.update(kinds=["gpu"])
    with pytest.raises(CannotWork, match="does not work for what judges relu/cpp-to-cpp"):
        start()
    monkeypatch.setattr(languages()["cpp"].__class__, "kinds", ("gpu", "cpu"))
    with pytest.raises(CannotJudge, match=r"cannot judge .* at it, which needs a GPU"):
        start()
    assert not Run.objects.exists()
    Agent.objects.update(kinds=["cpu"])
    start()


@pytest.mark.parametrize(
    ("change", "refusal"),
    [
        ({"status": "retired"}, (Conflict, "takes no runs")),
        ({"in_tree": False}, (Conflict, "takes no runs")),
        ({"status": "draft"}, (NotFound, "There is no task")),
    ],
)
def test_start_run_unpublished_task_is_refused(start, task, change, refusal):
    type(task).objects.update(**change)
    with pytest.raises(refusal[0], match=refusal[1]):
        start()


def test_start_run_without_hardware_prefers_live_worker(start, hardware):
    other = type(hardware).objects.create(slug="other", name="Other", kind="cpu", queue="hw.other")
    Worker.objects.create(name="w", hardware=hardware, queues=[hardware.queue], pid=1)
    assert start().hardware == hardware
    Worker.objects.update(last_seen_at=timezone.now() - timedelta(minutes=5))
    assert start().hardware == other  # the one seen last


@pytest.mark.parametrize(
    ("track", "chosen"),
    [("cpp-to-cpp", "test-cpu"), ("torch-to-triton", "big"), ("hip-to-hip", "big")],
)
def test_start_run_without_hardware_prefers_best_kind(start, hardware, task, track, chosen):
    Hardware.objects.create(slug="big", name="Big GPU", kind="gpu", queue="hw.big")
    Task.objects.update(track=track)
    assert start(task_slug=f"relu/{track}").hardware.slug == chosen


def test_start_run_hardware_whose_worker_only_builds_is_not_served(start, hardware):
    other = type(hardware).objects.create(slug="other", name="Other", kind="cpu", queue="hw.other")
    heartbeat_worker("w", queues=[hardware.queue], pid=1, hardware=hardware)
    heartbeat_worker("builder", queues=["build"], pid=2, hardware=other)
    assert start().hardware == hardware


def test_start_run_live_hardware_precedes_better_kind(start, hardware, task):
    Hardware.objects.create(slug="big", name="Big GPU", kind="gpu", queue="hw.big")
    heartbeat_worker("w", queues=[hardware.queue], pid=1, hardware=hardware)
    Task.objects.update(track="torch-to-triton")
    assert start(task_slug="relu/torch-to-triton").hardware == hardware


@pytest.mark.parametrize("named", ["test-cpu", None])
def test_start_run_unsuitable_hardware_is_refused(start, task, named):
    Task.objects.update(track="cuda-to-cuda")
    with pytest.raises(CannotJudge, match="Test CPU cannot judge this task, which needs a GPU"):
        start(task_slug="relu/cuda-to-cuda", hardware_slug=named)
    assert not Run.objects.exists()


def test_start_run_beyond_quota_is_refused(start, alice, bob, settings):
    settings.MAX_ACTIVE_RUNS = 2
    runs = [start(owner=alice), start(owner=alice)]
    with pytest.raises(QuotaExceeded):
        start(owner=alice)
    assert start(owner=bob) and start(owner=None)
    services.cancel_run(runs[0], alice)
    assert start(owner=alice)


def test_run_is_the_arenas_own_where_staff_or_the_command_line_started_it(start, alice, bob):
    assert [start(owner=user).by_arena for user in (None, bob, alice)] == [True, True, False]


# Claims and leases


def test_claim_run_second_claim_returns_none(start):
    run = start()
    assert services.claim_run(run.pk, "one").status == "running"
    assert services.claim_run(run.pk, "two") is None
    assert states(run) == ["queued", "running"]


def test_heartbeat_run_foreign_lease_is_refused(start):
    run = start()
    services.claim_run(run.pk, "one")
    assert services.heartbeat_run(run.pk, "one")
    assert not services.heartbeat_run(run.pk, "two")
    assert not services.finish_run(run.pk, "two", "failed")


def test_finish_run_second_end_is_refused(start):
    run = start()
    services.claim_run(run.pk, LEASE)
    assert services.finish_run(run.pk, LEASE, "failed", "Nothing handed in.", "candidate")
    assert not services.finish_run(run.pk, LEASE, "broken")
    run.refresh_from_db()
    assert (run.status, run.fault, run.lease) == ("failed", "candidate", LEASE)
    assert run.ended_at and run.seconds >= 0
    assert states(run) == ["queued", "running", "failed"]


def test_finish_run_reason_with_a_secret_is_redacted(start):
    run = start()
    services.claim_run(run.pk, LEASE)
    secret = "sk-canary0123456789abcdef"
    reason = f"The provider said: Authorization: Bearer {secret}."
    assert services.finish_run(run.pk, LEASE, "broken", reason, "user")
    run.refresh_from_db()
    bodies = str(list(Event.objects.filter(run=run).values_list("body", flat=True)))
    assert "[redacted]" in run.reason and secret not in run.reason + bodies


def test_finish_run_sums_cost_and_tokens_of_messages(start):
    run = start()
    services.claim_run(run.pk, LEASE)

    def said(cost: float, tokens: int, **more) -> EventDraft:
        usage = {"input_tokens": tokens, "output_tokens": 1}
        body = {"role": "assistant", "text": "", "cost_usd": cost, "usage": usage}
        return EventDraft("message", body, **more)

    drafts = [said(0.5, 10, id="m1"), said(1.0, 20, id="m1"), said(0.25, 5, id="m2")]
    services.record(run.pk, drafts, producer="p")
    services.finish_run(run.pk, LEASE, "failed")
    run.refresh_from_db()
    assert (run.cost_usd, run.tokens) == (1.25, 27)


def test_finish_run_active_status_raises(start):
    run = start()
    services.claim_run(run.pk, LEASE)
    with pytest.raises(ValueError, match="not an end"):
        services.finish_run(run.pk, LEASE, "queued")


# Cancelling


def test_cancel_run_queued_run_ends_at_once(start, alice):
    run = services.cancel_run(start(owner=alice), alice)
    assert (run.status, run.fault) == ("cancelled", "user")
    assert services.claim_run(run.pk, LEASE) is None


def test_cancel_run_running_run_fails_next_heartbeat(start, alice):
    run = start(owner=alice)
    services.claim_run(run.pk, LEASE)
    services.cancel_run(run, alice)
    services.cancel_run(run, alice)
    assert not services.heartbeat_run(run.pk, LEASE)
    assert Event.objects.filter(run=run, kind="interrupt").count() == 1
    assert services.finish_run(run.pk, LEASE, "cancelled", "Cancelled by alice.", "user")


def test_cancel_run_judging_run_ends_with_its_evaluation(start, alice):
    run = start(owner=alice)
    services.claim_run(run.pk, LEASE)
    evaluation = ask_for_verdict(run)
    services.claim_evaluation(evaluation.pk, "queued", "building", LEASE)
    assert services.cancel_run(run, alice).status == "cancelled"
    assert not services.heartbeat_evaluation(evaluation.pk, LEASE)
    assert not services.finish_evaluation(evaluation.pk, LEASE, report())


def test_run_that_is_to_be_cancelled_is_not_judged_finally(start, alice):
    run = start(owner=alice)
    services.claim_run(run.pk, LEASE)
    services.cancel_run(run, alice)
    with pytest.raises(Conflict):
        ask_for_verdict(run)
    assert Evaluation.objects.count() == 0
    assert services.finish_run(run.pk, LEASE, "cancelled", "Cancelled.", "user")


def test_cancel_run_by_another_user_is_forbidden(start, alice, bob, charlie):
    run = start(owner=alice)
    with pytest.raises(Forbidden):
        services.cancel_run(run, charlie)
    assert services.cancel_run(run, bob).status == "cancelled"


def test_changeable_by_has_own_runs_and_for_staff_and_commands_all(start, alice, bob, charlie):
    own, foreign = start(owner=alice), start(owner=None)
    found = [
        set(Run.objects.changeable_by(user))
        for user in (alice, bob, charlie, AnonymousUser(), None)
    ]
    assert found == [{own}, {own, foreign}, set(), set(), {own, foreign}]


def test_cancel_run_ended_run_conflicts(start, alice):
    run = finished(start(owner=alice))
    with pytest.raises(Conflict, match="passed"):
        services.cancel_run(run, alice)


# Judging


def test_finish_evaluation_final_verdict_ends_run_with_scores(start):
    run = finished(start(), speedup=2.5, unseen=2.0)
    assert (run.status, run.fault, run.rounds) == ("passed", "", 1)
    assert (run.speedup, run.unseen_speedup, run.roofline_share) == (2.5, 2.0, 0.4)
    assert run.low < run.speedup < run.high
    assert (run.final.round, run.reason) == (1, "")
    assert states(run) == ["queued", "running", "judging", "passed"]


def test_finish_evaluation_failed_verdict_fails_run(start):
    run = finished(start(), verdict="failed")
    assert (run.status, run.fault, run.speedup) == ("failed", "candidate", None)
    assert run.reason == "Case small differs at [3]."


def test_finish_evaluation_skipped_verdict_breaks_run(start):
    run = finished(start(), verdict="skipped", message="there is no GPU")
    assert (run.status, run.fault, run.speedup) == ("broken", "arena", None)
    assert run.reason == "test-cpu cannot judge this: there is no GPU"


def test_finish_evaluation_round_leaves_run_running(start):
    run = start()
    services.claim_run(run.pk, LEASE)
    judge(ask_for_verdict(run, "round"), report(unseen=None))
    run.refresh_from_db()
    assert (run.status, run.speedup) == ("running", None)
    metric = Event.objects.filter(run=run, kind="metric", body__name="speedup").last()
    assert metric.body["best"] == 2.0


def test_best_so_far_ignores_failed_rounds(start):
    run = start()
    services.claim_run(run.pk, LEASE)
    for speedup, verdict in ((2.0, "passed"), (9.0, "failed"), (1.5, "passed")):
        judge(ask_for_verdict(run, "round"), report(verdict, speedup))
    metrics = Event.objects.filter(run=run, kind="metric", body__name="speedup").order_by("seq")
    assert [(m.body["value"], m.body["best"]) for m in metrics] == [(2.0, 2.0), (1.5, 2.0)]


def test_finish_evaluation_stores_gates_measurements_and_events(start):
    run = finished(start())
    kinds = list(Event.objects.filter(run=run).order_by("seq").values_list("kind", flat=True))
    assert kinds.count("gate_result") == 5 and kinds.count("compiler_output") == 1
    evaluation = run.final.evaluations.get()
    assert evaluation.gates.count() == 5
    assert [m.case for m in Measurement.objects.public()] == ["small"]
    assert evaluation.measurements.count() == 2
    assert evaluation.verdict == "passed" and evaluation.fingerprint == {"cpu": "test"}


def test_finish_evaluation_stores_gates_missing_from_stream(start):
    run = start()
    services.claim_run(run.pk, LEASE)
    evaluation = ask_for_verdict(run)
    services.claim_evaluation(evaluation.pk, "queued", "building", LEASE)
    services.finish_evaluation(evaluation.pk, LEASE, report("failed"))
    assert GateResult.objects.filter(evaluation=evaluation).count() == 5


def test_request_evaluation_twice_returns_same(start):
    run = start()
    services.claim_run(run.pk, LEASE)
    first = ask_for_verdict(run)
    assert services.request_evaluation(first.submission, "final") == first
    with pytest.raises(Conflict, match="takes no submissions"):
        services.submit(run.pk, {"relu.cpp": "later"})


@pytest.mark.parametrize("files", [{}, {"relu.cpp": "x" * 1_000_001}])
def test_submit_empty_or_oversized_files_are_refused(start, files):
    run = start()
    services.claim_run(run.pk, LEASE)
    with pytest.raises(UserError):
        services.submit(run.pk, files)


def test_note_of_a_round_is_kept_up_to_its_limit(start):
    run = start()
    services.claim_run(run.pk, LEASE)
    submission = services.submit(run.pk, {"relu.cpp": "int relu;"}, "n" * 64_000)
    begun = run.events.get(kind="span_begin")
    assert submission.note == begun.body["note"] == "n" * 1_000


def test_break_evaluation_retries_once_then_breaks_run(start):
    run = start()
    services.claim_run(run.pk, LEASE)
    evaluation = ask_for_verdict(run)
    services.claim_evaluation(evaluation.pk, "queued", "building", LEASE)
    timed = gate("performance", measurements=(measurement(),))
    assert services.record_gate(evaluation.pk, LEASE, timed)
    assert services.break_evaluation(evaluation.pk, LEASE, "The clock stopped.")
    evaluation.refresh_from_db()
    assert evaluation.status == "queued" and not evaluation.measurements.exists()
    services.claim_evaluation(evaluation.pk, "queued", "building", "two")
    assert not services.break_evaluation(evaluation.pk, LEASE, "Late.")
    assert services.break_evaluation(evaluation.pk, "two", "The clock stopped.")
    run.refresh_from_db()
    assert (run.status, run.fault, run.reason) == ("broken", "arena", "The clock stopped.")


def test_gate_of_a_judge_that_lost_its_lease_is_not_stored(start):
    run = start()
    services.claim_run(run.pk, LEASE)
    evaluation = ask_for_verdict(run)
    services.claim_evaluation(evaluation.pk, "queued", "building", LEASE)
    assert services.break_evaluation(evaluation.pk, LEASE, "Its worker stopped answering.")
    services.claim_evaluation(evaluation.pk, "queued", "building", "two")
    seen = run.events.count()
    for name in ("compile", "performance"):
        late = gate(name, measurements=(measurement(),))
        assert not services.record_gate(evaluation.pk, LEASE, late)
    assert not evaluation.gates.exists() and not evaluation.measurements.exists()
    assert run.events.count() == seen
    assert services.record_gate(evaluation.pk, "two", gate("compile"))
    assert [each.gate for each in evaluation.gates.all()] == ["compile"]


def test_finish_evaluation_broken_round_leaves_run_running(start):
    run = start()
    services.claim_run(run.pk, LEASE)
    evaluation = ask_for_verdict(run, "round")
    for lease in ("one", "two"):
        services.claim_evaluation(evaluation.pk, "queued", "building", lease)
        services.finish_evaluation(evaluation.pk, lease, report("broken"))
    evaluation.refresh_from_db()
    run.refresh_from_db()
    assert (evaluation.status, run.status) == ("broken", "running")


def test_finish_evaluation_changed_task_breaks_run(start):
    run = start()
    services.claim_run(run.pk, LEASE)
    evaluation = ask_for_verdict(run)
    for lease in ("one", "two"):
        services.claim_evaluation(evaluation.pk, "queued", "building", lease)
        services.finish_evaluation(evaluation.pk, lease, report(task_hash="b" * 64))
    run.refresh_from_db()
    assert run.status == "broken" and "task changed" in run.reason


def test_finish_run_breaks_open_evaluations(start):
    run = start()
    services.claim_run(run.pk, LEASE)
    evaluation = ask_for_verdict(run, "round")
    services.finish_run(run.pk, LEASE, "broken", "The disk is full.", "arena")
    assert services.claim_evaluation(evaluation.pk, "queued", "building", LEASE) is None
    evaluation.refresh_from_db()
    assert evaluation.status == "broken"


def test_finish_evaluation_stores_the_report_as_rows_alone(start):
    evaluation = finished(start()).final.evaluations.get()
    assert evaluation.report == {}
    assert evaluation.gates.count() == len(report().gates)
    assert HIDDEN_CASE in str(evaluation.private)
