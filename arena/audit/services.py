"""The one write to the audit log."""

from __future__ import annotations

from typing import Any

from django.db import models

from arena.audit.models import AuditEntry

COMMAND_LINE = "command line"


def record(actor: Any, action: str, subject: models.Model, text: str = "", **detail: Any) -> None:
    """Write an entry, in the transaction of the action.

    `actor` is a user, or None for the command line. `detail` must be JSON.
    """
    signed_in = actor is not None and actor.is_authenticated
    address = getattr(subject, "get_absolute_url", None)
    AuditEntry.objects.create(
        actor=actor if signed_in else None,
        actor_name=actor.get_username()[:150] if signed_in else COMMAND_LINE,
        action=action,
        object_kind=str(subject._meta.verbose_name),
        object_label=str(subject)[:200],
        url=address() if address else "",
        text=text,
        detail=detail,
    )
