"""Continuation of broken runs: a new run in the same place, so that nothing is paid for twice.

The new run starts from the task's own files. Its gateway replays the recorded model traffic of the
broken run, and calls the model where that ends. The broken run stays as it was.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from django.db import IntegrityError, transaction

from arena.accounts.models import User
from arena.audit.services import record_of_staff
from arena.errors import Conflict, Forbidden, UserError
from arena.leases import is_limited
from arena.runs.models import Run
from arena.runs.services.runs import end_run, start_run
from arena.runs.spending import spending
from arena.runs.states import Fault, RunStatus
from arena.runs.trace.recording import note

logger = logging.getLogger(__name__)

MAX_AUTOMATIC = 3
"""Runs in a row that are started without a request, each after the one before broke."""


def can_continue(run: Run) -> bool:
    """Return whether a run broke, and nothing else has taken its place since."""
    return Run.objects.continuable().filter(pk=run.pk).exists()


def continue_run(run: Run, user: User | None) -> Run:
    """Start a run that continues a broken one, with its budget.

    `user` is None for the command line.

    Raises: Forbidden; Conflict where it did not break or was continued; UserError as `start_run`.
    """
    if not Run.objects.changeable_by(user).contains(run):
        raise Forbidden("Only its owner or staff may continue a run.")
    if not can_continue(run):
        raise Conflict(
            f"This run cannot be continued: {_obstacle(run)}.", "Start a new run instead."
        )
    try:
        with transaction.atomic():
            counted = user is not None and not user.is_staff
            made = _continued(run, owner=run.owner, counted=counted)
            record_of_staff(user, "run.continue", made, f"It continues {run}.")
        return made
    except IntegrityError:
        raise Conflict("This run was continued just now.", "See its page.") from None


def interrupt_run(run_id: str, condition: Mapping[str, Any], reason: str) -> bool:
    """End a run whose worker is gone, and continue it at once where it has cost nothing.

    Returns: False where no run meets `condition`, and for a worker that may not start runs: another
    ends it once its lease is over.
    """
    if is_limited():
        return False
    with transaction.atomic():
        if not end_run(run_id, condition, RunStatus.BROKEN, reason, Fault.ARENA):
            return False
        run = Run.objects.get(pk=run_id)
        spent = spending(run_id)
        free = not spent.calls or spent.cost_usd == 0
        if free and _ancestors(run) < MAX_AUTOMATIC and can_continue(run):
            try:
                with transaction.atomic():
                    _continued(run, owner=run.owner, counted=False)
            except UserError as error:  # its agent or task is gone
                logger.warning("%s is not continued: %s", run_id, error.text)
    return True


def _continued(run: Run, owner: User | None, counted: bool) -> Run:
    """Start the run that continues `run`; `counted` applies the limit of its owner's runs."""
    with transaction.atomic():
        new = start_run(
            task_slug=run.task_version.task.slug,
            agent_slug=run.agent.slug,
            hardware_slug=run.hardware.slug,
            owner=owner,
            budget=run.budget,
            label=run.label,
            experiment=run.experiment,
            repeat=run.repeat,
            visibility=run.visibility,
            continues=run,
            counted=counted,
        )
        note(run.pk, "note", {"text": f"Continued as run {new.pk}.", "detail": {"run": new.pk}})
    return new


def _ancestors(run: Run) -> int:
    """Return the number of runs that this one continues, directly or not."""
    count = 0
    while run.continues is not None:
        run, count = run.continues, count + 1
    return count


def _obstacle(run: Run) -> str:
    if run.status != RunStatus.BROKEN:
        return f"it is {run.get_status_display().lower()}"
    if run.imported_at is not None:
        return "it ran on another machine"
    if hasattr(run, "archive"):
        return "its trace is archived"
    return "another run has taken its place"
