"""Reaper: ends work whose lease has expired, and sends lost messages again."""

from __future__ import annotations

from datetime import timedelta

from django.db.models.functions import Now

from arena import queue
from arena.catalog.models import EXTERNAL, Hardware, Worker
from arena.leases import LEASE, SILENT
from arena.runs.models import Evaluation, Run, Submission
from arena.runs.services.continuation import interrupt_run
from arena.runs.services.evaluations import break_evaluation
from arena.runs.services.external import reap_external_runs
from arena.runs.services.runs import end_run
from arena.runs.states import (
    EVALUATION_WAITING,
    RUN_ACTIVE,
    EvaluationStatus,
    Fault,
    RunStatus,
    Scope,
)


def reap() -> int:
    """End abandoned work and send lost messages again; return the number of both."""
    return _end_abandoned(LEASE) + reap_external_runs() + _end_orphans() + _send_again()


def take_over() -> int:
    """End all active work at once, where no other worker uses this database."""
    return _end_abandoned(timedelta())


def _end_abandoned(lease: timedelta) -> int:
    """End the work of workers that were silent for so long; a judged run waits for its verdict."""

    def end(run: Run) -> bool:
        held = {"status": run.status, "lease": run.lease, "heartbeat_at__lt": Now() - lease}
        if run.cancel_requested:
            return end_run(run.pk, held, RunStatus.CANCELLED, "Cancelled.", Fault.USER)
        return interrupt_run(run.pk, held, SILENT)

    ended = Evaluation.objects.reap(
        lambda each: break_evaluation(each.pk, each.lease, SILENT, True), lease
    )
    running = Run.objects.filter(status=RunStatus.RUNNING).exclude(agent__adapter=EXTERNAL)
    return ended + running.reap(end, lease)


def _end_orphans() -> int:
    """End evaluations that wait for a run that has ended: one was held when the run did."""
    ended = Submission.objects.exclude(run__status__in=RUN_ACTIVE)
    waiting = Evaluation.objects.filter(status__in=EVALUATION_WAITING, submission__in=ended)
    return waiting.exclude(scope=Scope.REJUDGE).update(
        status=EvaluationStatus.BROKEN,
        message="The run ended before this was judged.",
        ended_at=Now(),
    )


def _send_again() -> int:
    """Send the messages of waiting work again; of runs only where a worker can judge them."""
    count = 0
    if Worker.objects.serving(queue.AGENTS):
        count += Run.objects.in_turn().served().send_again(queue.AGENTS)
    waiting = Evaluation.objects.order_by("pk").select_related("hardware")
    count += waiting.filter(status=EvaluationStatus.QUEUED).send_again(queue.BUILD)
    built = waiting.filter(status=EvaluationStatus.BUILT)
    for hardware in Hardware.objects.filter(pk__in=built.order_by().values("hardware")):
        count += built.filter(hardware=hardware).send_again(hardware.queue)
    return count
