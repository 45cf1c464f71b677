"""The audit log: one row for each action of staff, which is never changed."""

from __future__ import annotations

from typing import Any, Self

from django.conf import settings
from django.db import models
from django.utils import timezone


class AuditQuerySet(models.QuerySet["AuditEntry"]):
    def matching(self, *, actor: str = "", action: str = "", text: str = "") -> Self:
        """Filter by actor, action and a part of the object or of the text; empty is ignored."""
        found = self
        if actor:
            found = found.filter(actor_name=actor)
        if action:
            found = found.filter(action=action)
        if text:
            part = models.Q(object_label__icontains=text) | models.Q(text__icontains=text)
            found = found.filter(part)
        return found

    def values_of(self, field: str) -> list[str]:
        """Return the distinct values of a column, in order."""
        return list(self.order_by(field).values_list(field, flat=True).distinct())


class AuditEntry(models.Model):
    """One action: who did it, on which object, with the text that a person reads.

    `actor_name` outlives the account; it is "command line" where nobody was signed in.
    """

    at = models.DateTimeField(default=timezone.now, db_index=True)
    actor = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="+"
    )
    actor_name = models.CharField(max_length=150, db_index=True)
    action = models.CharField(max_length=60, db_index=True)
    object_kind = models.CharField(max_length=60)
    object_label = models.CharField(max_length=200)
    url = models.CharField(max_length=300, blank=True)
    text = models.TextField(blank=True)
    detail: Any = models.JSONField(default=dict, blank=True)

    objects = AuditQuerySet.as_manager()

    class Meta:
        ordering = ["-at", "-pk"]
        verbose_name_plural = "audit entries"

    def __str__(self) -> str:
        return f"{self.actor_name}: {self.action} {self.object_label}"
