"""Writes to the audit log."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db import models

from arena.audit.models import AuditEntry

COMMAND_LINE = "command line"
MAX_REASON = 2_000


def reason_of(text: str) -> str:
    """Return a person's reason as the audit log keeps it, empty for none."""
    return text.replace("\0", "").strip()[:MAX_REASON]


def record(
    actor: Any, action: str, subject: models.Model | str, text: str = "", **detail: Any
) -> None:
    """Write an entry, in the transaction of the action.

    `actor` is a user, or None for the command line. `subject` is a row, or the name of something
    that has none. `detail` must be JSON.
    """
    signed_in = actor is not None and actor.is_authenticated
    # An offline GPU box has no pages.
    address = None if settings.HEADLESS else getattr(subject, "get_absolute_url", None)
    AuditEntry.objects.create(
        actor=actor if signed_in else None,
        actor_name=actor.get_username()[:150] if signed_in else COMMAND_LINE,
        action=action,
        object_kind="" if isinstance(subject, str) else str(subject._meta.verbose_name),
        object_label=str(subject)[:200],
        url=address() if address else "",
        text=text,
        detail=detail,
    )


def last_reason(action: str, subject: models.Model) -> str:
    """Return the reason that the newest entry of an action on a row gives; empty without one."""
    found = AuditEntry.objects.filter(
        action=action,
        object_kind=str(subject._meta.verbose_name),
        object_label=str(subject)[:200],
    )
    return found.order_by("-pk").values_list("text", flat=True).first() or ""


def record_of_staff(
    actor: Any, action: str, subject: models.Model | str, text: str = "", **detail: Any
) -> None:
    """Write an entry for an action that everybody may do with their own, if staff did it."""
    if actor is None or actor.is_staff:
        record(actor, action, subject, text, **detail)
