"""Reaper: ends work whose lease has expired, and sends lost messages again."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar

from django.db import OperationalError
from django.db.models import QuerySet
from django.db.models.functions import Now

from arena import queue
from arena.catalog.models import EXTERNAL, Worker
from arena.leases import LEASE, MESSAGE_GRACE, SILENT
from arena.runs.models import Evaluation, Run
from arena.runs.services.continuation import interrupt_run
from arena.runs.services.evaluations import break_evaluation
from arena.runs.services.external import reap_external_runs
from arena.runs.services.runs import end_run
from arena.runs.states import EVALUATION_HELD, EvaluationStatus, Fault, RunStatus

logger = logging.getLogger(__name__)

QUEUE_HEAD = 32
"""Messages of one kind that are sent again at a time, more than a worker has threads."""
Row = TypeVar("Row", Run, Evaluation)


def reap() -> int:
    """End abandoned work and send lost messages again; return the number of both."""
    return _reap_evaluations() + _reap_runs() + reap_external_runs() + _send_again()


def take_over() -> int:
    """End all active work at once, where no other worker uses this database."""
    return _reap_evaluations(timedelta()) + _reap_runs(timedelta())


def _reap_evaluations(lease: timedelta | None = None) -> int:
    before = Now() - (LEASE if lease is None else lease)
    expired = Evaluation.objects.filter(status__in=EVALUATION_HELD, heartbeat_at__lt=before)
    return sum(
        _each(break_evaluation, pk, lease, SILENT, True)
        for pk, lease in expired.values_list("pk", "lease")
    )


def _reap_runs(lease: timedelta | None = None) -> int:
    """Reap runs without a heartbeat; one that is being judged waits for its evaluation."""
    before = Now() - (LEASE if lease is None else lease)
    ended = 0
    silent = Run.objects.filter(status=RunStatus.RUNNING, heartbeat_at__lt=before)
    for run in silent.exclude(agent__adapter=EXTERNAL):
        condition = {
            "status": RunStatus.RUNNING,
            "lease": run.lease,
            "heartbeat_at__lt": before,
        }
        if run.cancel_requested:
            end = (RunStatus.CANCELLED, "Cancelled.", Fault.USER)
            ended += _each(end_run, run.pk, condition, *end)
        else:
            ended += _each(interrupt_run, run.pk, condition, SILENT)
    return ended


def _each(end: Callable[..., bool], pk: str | int, *how: Any) -> bool:
    """Return whether one was ended. One that cannot be is logged, and does not stop the others."""
    try:
        return end(pk, *how)
    except OperationalError:  # the database is away or busy: all of it is asked for again
        raise
    except Exception:
        logger.exception("%s was not ended", pk)
        return False


def _send_again() -> int:
    """Send the messages of waiting work again that nobody has claimed for MESSAGE_GRACE.

    A claim succeeds once, so a doubled message does nothing.
    """
    count = 0
    if Worker.objects.serving(queue.AGENTS):
        runs = Run.objects.in_turn().served()
        count += sum(
            _sent_again(run, "run_agent", queue.AGENTS) for run in _lost(runs, queue.AGENTS)
        )
    waiting = Evaluation.objects.order_by("pk").select_related("hardware")
    queued = waiting.filter(status=EvaluationStatus.QUEUED)
    count += sum(
        _sent_again(row, "build", queue.BUILD, row.pk) for row in _lost(queued, queue.BUILD)
    )
    built = waiting.filter(status=EvaluationStatus.BUILT)
    for name in built.order_by().values_list("hardware__queue", flat=True).distinct():
        rows = _lost(built.filter(hardware__queue=name), name)
        count += sum(_sent_again(row, "measure", name, row.pk) for row in rows)
    return count


def _lost(waiting: QuerySet[Row], name: str) -> list[Row]:
    """Return the first of waiting rows for which there is no message in their queue.

    Whose message is lost nobody knows. So there are never more messages than rows that wait, also
    while all workers are busy.
    """
    number = min(waiting.count() - queue.length(name), QUEUE_HEAD)
    return list(waiting.filter(heartbeat_at__lt=Now() - MESSAGE_GRACE)[: max(0, number)])


def _sent_again(row: Run | Evaluation, actor: str, name: str, *args: Any) -> bool:
    """Send one message, unless another worker has just done so or the row was claimed."""
    unclaimed = type(row).objects.filter(
        pk=row.pk, status=row.status, heartbeat_at__lt=Now() - MESSAGE_GRACE
    )
    if not unclaimed.update(heartbeat_at=Now()):
        return False
    queue.enqueue(actor, name, *args)
    return True
