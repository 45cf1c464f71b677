"""Quarantine of runs and agents: what is in it keeps its page and counts in no ranking."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction
from django.utils import timezone

from arena import sockets
from arena.catalog.models import Agent
from arena.errors import UserError
from arena.runs.models import Run
from arena.runs.scoring.standings import keep_standing


def quarantine(subject: Run | Agent, reason: str) -> None:
    """Take a run, or all runs of an agent, out of every ranking.

    Its page shows the reason. A second call replaces the reason.

    Raises: UserError without a reason.
    """
    if not (reason := reason.strip()):
        raise UserError("A quarantine needs a reason.", "Its public page shows it.")
    _mark(subject, quarantined_at=subject.quarantined_at or timezone.now(), reason=reason)


def release(subject: Run | Agent) -> None:
    """End the quarantine of a run or an agent, which counts again."""
    _mark(subject, quarantined_at=None, reason="")


def _mark(subject: Run | Agent, *, quarantined_at: datetime | None, reason: str) -> None:
    subject.quarantined_at, subject.quarantine_reason = quarantined_at, reason
    with transaction.atomic():
        subject.save(update_fields=["quarantined_at", "quarantine_reason"])
        if isinstance(subject, Run):
            keep_standing(subject)
        sockets.nudge(sockets.BOARD)
