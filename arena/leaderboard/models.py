"""Tables of compositions and of announcements.

A composition has the best kernels of an architecture, measured together on one device.
"""

from __future__ import annotations

from typing import Any

from django.db import models
from django.db.models import Q
from django.urls import reverse

from arena.catalog.models import Hardware, one_of
from arena.leases import ACTIVE, LeasedQuerySet, Retried
from evaluation.types import Verdict


class CompositionStatus(models.TextChoices):
    QUEUED = "queued", "Queued"
    RUNNING = "running", "Running"
    DONE = "done", "Done"
    BROKEN = "broken", "Broken"


class Composition(Retried):
    """A measurement of one set of submissions in one model.

    `submissions` has the id and the content hash of each, by its operator. `key` stands for the
    hashes and the architecture's file. `gates` has the detail of each gate by its name.
    """

    Status = CompositionStatus

    architecture = models.SlugField(max_length=60)
    architecture_hash = models.CharField(max_length=64)
    hardware = models.ForeignKey(Hardware, models.PROTECT, related_name="+")
    key = models.CharField(max_length=64)
    submissions: Any = models.JSONField()
    status = models.CharField(
        max_length=7, choices=CompositionStatus, default=CompositionStatus.QUEUED
    )
    verdict = models.CharField(max_length=10, blank=True)
    message = models.TextField(blank=True)
    gates: Any = models.JSONField(default=dict, blank=True)
    judge_version = models.CharField(max_length=50, blank=True)
    fingerprint: Any = models.JSONField(default=dict, blank=True)

    objects = LeasedQuerySet["Composition"].as_manager()

    class Meta:
        ordering = ["-pk"]
        constraints = [
            one_of("status", CompositionStatus, "composition_status_known"),
            models.UniqueConstraint(
                fields=["hardware", "architecture", "key"], name="composition_unique"
            ),
            models.UniqueConstraint(
                fields=["hardware"], condition=Q(status__in=ACTIVE), name="composition_one_active"
            ),
        ]

    def __str__(self) -> str:
        return f"composition of {self.architecture} on {self.hardware}"

    def get_absolute_url(self) -> str:
        return f"{reverse('architecture', args=[self.architecture])}?hardware={self.hardware.slug}"

    @property
    def parts(self) -> list[dict[str, Any]]:
        """Return id and content hash of each submission."""
        return list(self.submissions.values())

    @property
    def passed(self) -> bool:
        return self.verdict == Verdict.PASSED

    @property
    def is_judged(self) -> bool:
        """Return whether the judge could measure it, with whatever result."""
        return self.status == CompositionStatus.DONE and self.verdict != Verdict.SKIPPED

    @property
    def queue_message(self) -> tuple[str, str, int]:
        """Return actor, queue and argument of its message, for a worker of its hardware."""
        return "compose", self.hardware.queue, self.pk


class AnnouncementKind(models.TextChoices):
    RECORD = "record", "Record"
    LEADERS = "leaders", "First three of a board"


class Announcement(models.Model):
    """A new record, whose subject is a run, or the first three of a board, that of a device.

    `number` counts the changes of a subject. `detail` has id, rank and speedup of leaders.
    """

    kind = models.CharField(max_length=7, choices=AnnouncementKind)
    subject = models.CharField(max_length=100)
    number = models.PositiveIntegerField(default=0)
    detail: Any = models.JSONField(default=dict, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    sent_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-pk"]
        constraints = [
            one_of("kind", AnnouncementKind, "announcement_kind_known"),
            models.UniqueConstraint(
                fields=["kind", "subject", "number"], name="announcement_unique"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} of {self.subject}"
