from __future__ import annotations

from datetime import timedelta

import pytest
import redis
from django.utils import timezone

from arena import queue
from arena.catalog.models import Worker
from arena.leases import MAX_INTERRUPTIONS, QUEUE_HEAD
from arena.runs import services
from arena.runs.models import Evaluation, Event, Run
from arena.runs.trace.recording import note
from tests.arena.factories import LEASE, ask_for_verdict, judge, messages_in, report

pytestmark = pytest.mark.django_db

USAGE = ("input_tokens", "cached_tokens", "output_tokens", "reasoning_tokens")


def silence(thing: Run | Evaluation, seconds: float = 60) -> None:
    """Let the last sign of life of a run or evaluation be so long ago."""
    then = timezone.now() - timedelta(seconds=seconds)
    type(thing).objects.filter(pk=thing.pk).update(heartbeat_at=then)


def test_a_run_whose_worker_went_silent_is_broken_and_it_is_ours(start):
    run = start()
    services.claim_run(run.pk, LEASE)
    assert services.reap() == 0
    silence(run)
    assert services.reap() == 1
    run.refresh_from_db()
    assert (run.status, run.fault) == ("broken", "arena")
    assert "stopped answering" in run.reason


def test_a_run_that_cannot_be_ended_keeps_no_other_from_its_end(start):
    runs = [start(), start()]
    for run in runs:
        services.claim_run(run.pk, LEASE)
        silence(run)
    note(runs[0].pk, "model_call", {"provider": "p", "wire": "m"})
    endless = dict.fromkeys(USAGE, 10**30)  # no column of the database takes their sum
    called = {"usage": endless, "cost_usd": None, "replayed": False}
    Event.objects.filter(run=runs[0], kind="model_call").update(body=called)
    assert services.reap() == 1
    assert [Run.objects.get(pk=run.pk).status for run in runs] == ["running", "broken"]


def test_a_cancelled_run_whose_worker_went_silent_is_cancelled(start):
    run = start()
    services.claim_run(run.pk, LEASE)
    services.cancel_run(run, None)
    silence(run)
    services.reap()
    run.refresh_from_db()
    assert run.status == "cancelled"


def test_an_evaluation_whose_workers_go_silent_is_tried_again_and_ends(start):
    run = start()
    services.claim_run(run.pk, LEASE)
    evaluation = ask_for_verdict(run)
    statuses = []
    for number in range(MAX_INTERRUPTIONS + 1):
        services.claim_evaluation(evaluation.pk, "queued", "building", f"machine-{number}:1")
        silence(evaluation)
        assert services.reap() == 1
        run.refresh_from_db()
        statuses.append(run.status)
    assert statuses == ["judging"] * MAX_INTERRUPTIONS + ["broken"]


def test_a_run_that_is_being_judged_needs_no_agent(start):
    run = start()
    services.claim_run(run.pk, LEASE)
    evaluation = ask_for_verdict(run)
    silence(run, 3600)
    services.reap()
    judge(evaluation, report())
    run.refresh_from_db()
    assert run.status == "passed"


def test_a_lost_message_is_sent_again_and_only_once_and_once_the_run_can_be_judged(
    start, hardware, valkey, django_capture_on_commit_callbacks
):
    redis.from_url(valkey).flushdb()
    start()  # in a transaction that never commits: its message is never sent
    Run.objects.update(heartbeat_at=timezone.now() - timedelta(minutes=1))
    assert services.reap() == 0, "nobody would judge it"
    Worker.objects.create(name="all", queues=["agents", "build", hardware.queue], pid=1)
    with django_capture_on_commit_callbacks(execute=True):
        assert services.reap() == 1
    assert messages_in(queue.AGENTS) == [("run_agent", ())]
    assert services.reap() == 0


def test_a_message_that_was_sent_again_is_claimed_once(start, hardware, valkey):
    run = start()
    Worker.objects.create(name="all", queues=["agents", "build", hardware.queue], pid=1)
    Run.objects.update(heartbeat_at=timezone.now() - timedelta(minutes=1))
    assert services.reap() == 1
    assert services.claim_run(run.pk, LEASE) is not None
    assert services.claim_run(run.pk, "another") is None
    assert services.claim_next("another") is None
    run.refresh_from_db()
    assert (run.status, run.lease) == ("running", LEASE)


def test_messages_of_a_queue_are_never_more_than_the_rows_that_wait(
    start, hardware, valkey, django_capture_on_commit_callbacks
):
    redis.from_url(valkey).flushdb()
    Worker.objects.create(name="all", queues=["agents", "build", hardware.queue], pid=1)
    number = QUEUE_HEAD + 2
    for _ in range(number):
        start()  # in a transaction that never commits: no message is sent
    sent = []
    for _ in range(4):  # all workers are busy meanwhile
        Run.objects.update(heartbeat_at=timezone.now() - timedelta(minutes=1))
        with django_capture_on_commit_callbacks(execute=True):
            sent.append(services.reap())
    assert sent == [QUEUE_HEAD, 2, 0, 0]
    assert queue.length(queue.AGENTS) == len(messages_in(queue.AGENTS)) == number


def test_the_message_of_a_built_evaluation_goes_to_its_hardware(
    start, hardware, valkey, django_capture_on_commit_callbacks
):
    run = start()
    services.claim_run(run.pk, LEASE)
    evaluation = ask_for_verdict(run)
    services.claim_evaluation(evaluation.pk, "queued", "building", LEASE)
    services.finish_build(evaluation.pk, LEASE)
    silence(evaluation)
    with django_capture_on_commit_callbacks(execute=True):
        assert services.reap() == 1
    assert messages_in(hardware.queue) == [("measure", (evaluation.pk,))]


def test_an_evaluation_that_waits_for_an_ended_run_ends(start):
    run = start()
    services.claim_run(run.pk, LEASE)
    orphan = ask_for_verdict(run, "round")
    services.finish_run(run.pk, LEASE, "failed", "Its agent gave up.", "candidate")
    Evaluation.objects.filter(pk=orphan.pk).update(status="queued", ended_at=None)
    assert services.reap() == 1
    assert services.reap() == 0
    orphan.refresh_from_db()
    assert orphan.status == "broken" and orphan.ended_at
