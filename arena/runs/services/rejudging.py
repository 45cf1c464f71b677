"""Judging a final verdict again: the new one counts once it has ended, and the old one is kept."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from django.db import transaction
from django.utils import timezone

from arena import queue, sockets
from arena.errors import Conflict
from arena.runs.models import Evaluation, Run
from arena.runs.scores import SCORES
from arena.runs.scoring.judges import judged_by
from arena.runs.scoring.records import refresh_records
from arena.runs.scoring.standings import keep_standing
from arena.runs.states import (
    EVALUATION_ACTIVE,
    NO_JUDGEMENT,
    RUN_JUDGED,
    EvaluationStatus,
    Scope,
    outcome_of,
)
from evaluation.types import Verdict


def request_rejudging(final: Evaluation) -> Evaluation:
    """Request another verdict in place of a final one, by the newest version of its task.

    A second request returns the first evaluation, while that is active.

    Raises: Conflict for a verdict that does not count, or a task that is gone.
    """
    run = final.submission.run
    judged = run.status in RUN_JUDGED or final.verdict == Verdict.INCONCLUSIVE
    if final.scope != Scope.FINAL or not judged:
        raise Conflict(f"Run {run.pk} has no final verdict that counts.")
    task = run.task_version.task
    version = task.version
    if version is None or not (version.folder_id or task.in_tree):
        raise Conflict(f"The files of {task} are gone, so nothing can be judged by them.")
    with transaction.atomic():
        evaluation, created = Evaluation.objects.get_or_create(
            submission=final.submission,
            scope=Scope.REJUDGE,
            case="",
            defaults={"hardware_id": final.hardware_id, "task_version": version},
        )
        if created:
            queue.enqueue(*evaluation.queue_message)
    return evaluation


def replace_verdict(
    evaluation: Evaluation, verdict: str, reason: str, scores: Mapping[str, Any]
) -> None:
    """Let a verdict that has ended count for its run, in the transaction that stores it.

    Where the hardware could not judge the task, the earlier verdict still counts.
    """
    if verdict in NO_JUDGEMENT:
        drop_rejudging(evaluation)
        return
    before = Run.objects.select_related("task_version").get(pk=evaluation.submission.run_id)
    finals = Evaluation.objects.filter(submission=evaluation.submission, scope=Scope.FINAL)
    finals.update(scope=Scope.PAST, task_version=before.task_version)
    Evaluation.objects.filter(pk=evaluation.pk).update(scope=Scope.FINAL)
    status, reason, fault = outcome_of(verdict, reason)
    Run.objects.filter(pk=before.pk).update(
        status=status,
        reason=reason,
        fault=fault,
        task_version=evaluation.judged_version,
        **{name: scores.get(name) for name in SCORES},
        **judged_by(before.pk),
    )
    if before.task_version_id != evaluation.judged_version.pk:
        refresh_records(before.task_version_id, before.hardware_id)  # a run has one record
    keep_standing(Run.objects.select_related("task_version").get(pk=before.pk))
    sockets.nudge(sockets.BOARD)


def drop_rejudging(evaluation: Evaluation) -> None:
    """Keep an evaluation that replaces nothing as a past one."""
    Evaluation.objects.filter(pk=evaluation.pk, scope=Scope.REJUDGE).update(scope=Scope.PAST)


def cancel_rejudging(evaluations: Collection[int]) -> int:
    """End those of the evaluations that are active, and return their number.

    A worker that judges one stops at its next heartbeat.
    """
    active = Evaluation.objects.filter(
        pk__in=evaluations, scope=Scope.REJUDGE, status__in=EVALUATION_ACTIVE
    )
    return active.update(
        status=EvaluationStatus.BROKEN,
        scope=Scope.PAST,
        verdict=Verdict.BROKEN,
        message="Cancelled before it had a verdict.",
        lease="",
        ended_at=timezone.now(),
    )
