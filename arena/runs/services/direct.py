"""Kernels submitted without an agent: a run of one round, whose verdict ends it."""

from __future__ import annotations

import math

from django.conf import settings
from django.db import transaction

from arena.accounts.models import User
from arena.catalog.models import Hardware
from arena.catalog.services import direct_agent
from arena.errors import QuotaExceeded, UserError
from arena.leases import database_time
from arena.runs.models import Evaluation, Run, Submission
from arena.runs.quotas import FINALS, KERNELS, check_day, lock_owner
from arena.runs.services.evaluations import request_evaluation, submit
from arena.runs.services.runs import find_hardware, kinds_of, task_version
from arena.runs.states import EvaluationStatus, RunStatus, Scope, Visibility

JUDGED_LATELY = 20
"""Verdicts over which the time of one is averaged."""
MIN_WAIT_SECONDS, DEFAULT_WAIT_SECONDS, MAX_WAIT_SECONDS = 1, 10, 300


def submit_kernel(
    *,
    task_slug: str,
    source: str,
    owner: User,
    hardware_slug: str | None = None,
    label: str = "",
    note: str = "",
    scope: str = Scope.ROUND,
    visibility: str = Visibility.OWNER,
) -> Submission:
    """Submit the target file of a task and request a verdict of this scope.

    A round has the public cases, a final verdict the held-out ones too. A public kernel with a
    final verdict is on the board of submitted kernels, and on no board of agents.

    Raises: QuotaExceeded; TooLarge; another UserError if it cannot be judged.
    """
    if scope not in (Scope.ROUND, Scope.FINAL):
        raise UserError(f"Unknown scope {scope!r}.", "One of round, final.")
    if visibility not in (Visibility.OWNER, Visibility.PUBLIC):
        raise UserError(f"Unknown visibility {visibility!r}.", "One of owner, public.")
    if not source.strip():
        raise UserError("The source is empty.", "Write the kernel into it.")
    version = task_version(task_slug)
    hardware = find_hardware(hardware_slug, kinds_of(version.task), "this task")
    with transaction.atomic():
        lock_owner(owner)
        _check_quota(owner, hardware)
        check_day(owner, KERNELS)
        if scope == Scope.FINAL:
            check_day(owner, FINALS)
        run = Run.objects.create_for(
            owner,
            task_version=version,
            agent=direct_agent(),
            hardware=hardware,
            label=label[:100],
            visibility=visibility,
            budget={"rounds": 1},
            status=RunStatus.RUNNING,
            started_at=database_time(),
        )
        submission = submit(run.pk, {version.public["target_file"]: source}, note)
        request_evaluation(submission, scope)
    return submission


def _check_quota(owner: User, hardware: Hardware) -> None:
    """Raise QuotaExceeded for a user with too many kernels that wait for a verdict."""
    pending = Run.objects.direct().active().filter(owner=owner).count()
    if pending < settings.MAX_PENDING_SUBMISSIONS:
        return
    seconds = _seconds_per_verdict(hardware)
    raise QuotaExceeded(
        f"{pending} of your submissions wait for a verdict, which is the limit.",
        f"Try again in {seconds} seconds, or cancel their runs.",
        retry_after=seconds,
    )


def _seconds_per_verdict(hardware: Hardware) -> int:
    """Return the seconds from the start of judging to a verdict, averaged over the latest."""
    judged = Evaluation.objects.filter(
        hardware=hardware, status=EvaluationStatus.DONE, scope=Scope.ROUND
    )
    times = judged.exclude(started_at=None).order_by("-ended_at")
    seconds = [
        (ended - started).total_seconds()
        for started, ended in times.values_list("started_at", "ended_at")[:JUDGED_LATELY]
        if started and ended
    ]
    mean = sum(seconds) / len(seconds) if seconds else DEFAULT_WAIT_SECONDS
    return min(MAX_WAIT_SECONDS, max(MIN_WAIT_SECONDS, math.ceil(mean)))
