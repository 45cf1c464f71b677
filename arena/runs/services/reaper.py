"""Nothing stays running for ever: expired leases are ended, and lost messages sent again."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.db import OperationalError
from django.utils import timezone

from arena import queue
from arena.runs.models import Evaluation, Run
from arena.runs.services.evaluations import break_evaluation
from arena.runs.services.runs import end_run
from arena.runs.states import EVALUATION_HELD, EvaluationStatus, Fault, RunStatus

logger = logging.getLogger(__name__)

LEASE = timedelta(seconds=30)
MESSAGE_GRACE = timedelta(seconds=10)
SILENT = "Its worker stopped answering."


def reap() -> int:
    """End what nobody keeps alive and ask again for what nobody was told of; how many of both."""
    return _reap_evaluations() + _reap_runs() + _send_again()


def take_over() -> int:
    """End at once what is held, for one who knows that no other works on this database."""
    return _reap_evaluations(timedelta()) + _reap_runs(timedelta())


def _reap_evaluations(lease: timedelta | None = None) -> int:
    before = timezone.now() - (LEASE if lease is None else lease)
    expired = Evaluation.objects.filter(status__in=EVALUATION_HELD, heartbeat_at__lt=before)
    return sum(
        _each(break_evaluation, pk, lease, SILENT)
        for pk, lease in expired.values_list("pk", "lease")
    )


def _reap_runs(lease: timedelta | None = None) -> int:
    """Runs whose agent went silent. One that is being judged waits for its evaluation instead."""
    before = timezone.now() - (LEASE if lease is None else lease)
    ended = 0
    for run in Run.objects.filter(status=RunStatus.RUNNING, heartbeat_at__lt=before):
        condition = {
            "status": RunStatus.RUNNING,
            "lease": run.lease,
            "heartbeat_at__lt": before,
        }
        if run.cancel_requested:
            end = (RunStatus.CANCELLED, "Cancelled.", Fault.USER)
        else:
            end = (RunStatus.BROKEN, SILENT, Fault.ARENA)
        ended += _each(end_run, run.pk, condition, *end)
    return ended


def _each(end: Callable[..., bool], pk: str | int, *how: Any) -> bool:
    """Whether that one was ended. One that cannot be is told, and left: others are to be ended."""
    try:
        return end(pk, *how)
    except OperationalError:  # the database is away or busy: all of it is asked for again
        raise
    except Exception:
        logger.exception("%s was not ended", pk)
        return False


def _send_again() -> int:
    """Rows that wait for a message that is in no queue."""
    before = timezone.now() - MESSAGE_GRACE
    due: list[tuple[str, str, str | int]] = []
    for run in Run.objects.in_turn().served().filter(created_at__lt=before):
        due.append(("run_agent", queue.AGENTS, run.pk))
    waiting = Evaluation.objects.filter(heartbeat_at__lt=before).select_related("hardware")
    for evaluation in waiting.filter(status=EvaluationStatus.QUEUED):
        due.append(("build", queue.BUILD, evaluation.pk))
    for evaluation in waiting.filter(status=EvaluationStatus.BUILT):
        due.append(("measure", evaluation.hardware.queue, evaluation.pk))
    try:
        there = {name: queue.waiting(name) for name in {name for _, name, _ in due}}
    except queue.Unreachable as error:
        logger.warning("lost messages wait for the next round: %s", error)
        return 0
    lost = [item for item in due if (item[0], (item[2],)) not in there[item[1]]]
    for actor, name, pk in lost:
        queue.enqueue(actor, name, pk)
    return len(lost)
