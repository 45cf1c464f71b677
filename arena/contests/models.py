"""Tables of contests and of what is entered in them."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import models
from django.db.models import F, Q
from django.urls import reverse
from django.utils import timezone

from arena.catalog.models import Hardware, Task
from arena.runs.models import Evaluation, Run

if TYPE_CHECKING:
    from arena.accounts.models import User

STARTS_LATER, OPEN, JUDGING, OVER = "starts later", "open", "judging", "over"


class Contest(models.Model):
    """One task on one device, from a start to a deadline."""

    slug = models.SlugField(max_length=60, unique=True)
    title = models.CharField(max_length=200)
    description = models.TextField(blank=True)
    task = models.ForeignKey(Task, models.PROTECT, related_name="contests")
    hardware = models.ForeignKey(Hardware, models.PROTECT, related_name="+")
    starts_at = models.DateTimeField()
    ends_at = models.DateTimeField(verbose_name="deadline")
    finals_requested_at = models.DateTimeField(null=True, blank=True, editable=False)
    """Time after the deadline at which the first final verdicts were requested."""

    class Meta:
        ordering = ["-ends_at", "-pk"]
        constraints = [
            models.CheckConstraint(
                condition=Q(ends_at__gt=F("starts_at")), name="contest_ends_after_its_start"
            )
        ]

    def __str__(self) -> str:
        return self.slug

    def get_absolute_url(self) -> str:
        return reverse("contest", args=[self.slug])

    def clean(self) -> None:
        """Refuse a deadline before the start. Raises ValidationError."""
        if self.starts_at and self.ends_at and self.starts_at >= self.ends_at:
            raise ValidationError({"ends_at": "The deadline must be after the start."})

    def has_started(self, now: datetime | None = None) -> bool:
        return (now or timezone.now()) >= self.starts_at

    def has_ended(self, now: datetime | None = None) -> bool:
        return (now or timezone.now()) > self.ends_at


class Entry(models.Model):
    """A run that a person entered. Of several before the deadline, the newest one counts.

    `final` is the verdict that is requested after the deadline; only entries that count get one.
    """

    contest = models.ForeignKey(Contest, models.CASCADE, related_name="entries")
    owner: models.ForeignKey[User | None, User | None] = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+"
    )
    team = models.CharField(max_length=60)
    run = models.ForeignKey(Run, models.CASCADE, related_name="+")
    speedup = models.FloatField()
    low = models.FloatField()
    high = models.FloatField()
    """Speedup on the public cases as the run had it when it was entered, and its 95 % interval."""
    entered_at = models.DateTimeField(default=timezone.now)
    final = models.ForeignKey(Evaluation, models.SET_NULL, null=True, blank=True, related_name="+")

    class Meta:
        ordering = ["entered_at", "pk"]
        verbose_name_plural = "entries"
        constraints = [
            models.UniqueConstraint(fields=["contest", "run"], name="entry_run_once_in_a_contest")
        ]

    def __str__(self) -> str:
        return f"{self.team} in {self.contest}"

    def get_absolute_url(self) -> str:
        return self.contest.get_absolute_url()

    @property
    def is_late(self) -> bool:
        return self.contest.has_ended(self.entered_at)
