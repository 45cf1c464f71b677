"""Copies of the history of Django's admin in the audit log."""

from __future__ import annotations

from typing import Any

from django.contrib.admin.models import LogEntry
from django.db.models.signals import post_save

from arena.audit.models import AuditEntry

ACTIONS = {1: "admin.add", 2: "admin.change", 3: "admin.delete"}


def connect() -> None:
    """Copy each new entry of the admin's history."""
    post_save.connect(_copy, sender=LogEntry, dispatch_uid="audit-of-admin")


def _copy(instance: LogEntry, created: bool, **more: Any) -> None:
    if not created:
        return
    address = instance.get_admin_url() if instance.action_flag != 3 else None
    AuditEntry.objects.create(
        actor=instance.user,
        actor_name=instance.user.get_username()[:150],
        action=ACTIONS[instance.action_flag],
        object_kind=str(instance.content_type or "")[:60],
        object_label=instance.object_repr[:200],
        url=(address or "")[:300],
        text=instance.get_change_message(),
    )
