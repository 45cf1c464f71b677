"""Quarantine of runs and agents by staff, with a reason, in the audit log."""

from __future__ import annotations

from django.db import transaction

from arena.accounts.models import User
from arena.audit.services import reason_of, record
from arena.catalog.models import Agent
from arena.errors import Conflict, Forbidden, NotFound
from arena.runs import services
from arena.runs.models import Run


def find(kind: str, name: str) -> Run | Agent:
    """Return a run by its id, or an agent by its slug. Raises NotFound."""
    name = name.strip()
    found: Run | Agent | None = None
    if kind == "run":
        found = Run.objects.select_related("agent").filter(pk=name).first()
    elif kind == "agent":
        found = Agent.objects.filter(slug=name).first()
    if found is None:
        raise NotFound(f"There is no {kind[:10]} {name[:100]!r}.")
    return found


def hold(user: User, kind: str, name: str, reason: str) -> Run | Agent:
    """Put a run or an agent into quarantine. Raises UserError, also without a reason."""
    subject = _of_staff(user, kind, name)
    reason = reason_of(reason)
    with transaction.atomic():
        services.quarantine(subject, reason)
        record(user, f"{kind}.quarantine", subject, reason)
    return subject


def free(user: User, kind: str, name: str, reason: str) -> Run | Agent:
    """End a quarantine. Raises UserError; Conflict for what is in none."""
    subject = _of_staff(user, kind, name)
    if subject.quarantined_at is None:
        raise Conflict(f"{subject} is in no quarantine.")
    with transaction.atomic():
        services.release(subject)
        record(user, f"{kind}.release", subject, reason_of(reason))
    return subject


def _of_staff(user: User, kind: str, name: str) -> Run | Agent:
    if not user.is_staff:
        raise Forbidden("Only staff decide on a quarantine.")
    return find(kind, name)
