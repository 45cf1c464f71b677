"""Runs whose trace has left the database for the store of texts."""

from __future__ import annotations

from typing import Any

from django.db import models
from django.utils import timezone


class ArchivedTrace(models.Model):
    """The trace of a run in the store: its events as lines of JSON, up to `last_seq`.

    `spent` is what the events said of its tokens and cost.
    """

    run = models.OneToOneField("runs.Run", models.CASCADE, primary_key=True, related_name="archive")
    sha256 = models.CharField(max_length=64)
    size = models.PositiveBigIntegerField()
    last_seq = models.PositiveIntegerField()
    spent: Any = models.JSONField()
    archived_at = models.DateTimeField(default=timezone.now)

    def __str__(self) -> str:
        return f"{self.run_id} until {self.archived_at:%Y-%m-%d}"
