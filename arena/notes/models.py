"""Notes of readers on runs and their events, and what rules found in traces."""

from __future__ import annotations

from typing import Any, Self

from django.conf import settings
from django.db import models
from django.urls import reverse
from django.utils import timezone

from arena.accounts.models import Viewer
from arena.catalog.models import one_of
from arena.runs.models import Run

MAX_QUOTE, MAX_TEXT, MAX_EXCERPT = 500, 2000, 200
"""Characters."""


class Mark(models.TextChoices):
    """Finding of a reader."""

    CLEAN = "clean", "clean"
    LEAK = "leak", "leak"
    REWARD_HACK = "reward_hack", "reward hack"
    INTERESTING = "interesting", "interesting"
    BUG = "bug", "bug"


class NoteQuerySet(models.QuerySet["Note"]):
    def of_staff(self) -> Self:
        """Return the notes that everybody sees who sees their run."""
        return self.filter(by_staff=True)

    def visible_to(self, viewer: Viewer) -> Self:
        """Return the notes of staff and the viewer's own; for staff all."""
        if viewer.is_staff:
            return self
        own = models.Q(author=viewer.pk) if viewer.is_authenticated else models.Q(pk=None)
        return self.filter(models.Q(by_staff=True) | own)

    def marks_of(self, run_ids: Any) -> dict[str, list[str]]:
        """Return the marks that staff gave to runs, each once, in the order of Mark."""
        staffs = self.of_staff().filter(run__in=run_ids).order_by()
        rows = staffs.values_list("run", "mark").distinct()
        order, found = Mark.values, dict[str, list[str]]()
        for run_id, mark in sorted(rows, key=lambda row: order.index(row[1])):
            found.setdefault(run_id, []).append(Mark(mark).label)
        return found


class Note(models.Model):
    """A mark on a run; with `seq` it is on that event of the run."""

    Mark = Mark

    run = models.ForeignKey(Run, models.CASCADE, related_name="notes")
    seq = models.PositiveIntegerField(null=True, blank=True)
    mark = models.CharField(max_length=11, choices=Mark)
    quote = models.CharField(max_length=MAX_QUOTE, blank=True)
    text = models.CharField(max_length=MAX_TEXT, blank=True)
    author = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="notes")
    by_staff = models.BooleanField(default=False, db_default=False)
    """True where its author was staff then: everybody sees it."""
    created_at = models.DateTimeField(default=timezone.now)

    objects = NoteQuerySet.as_manager()

    class Meta:
        ordering = ["run", models.F("seq").asc(nulls_first=True), "pk"]
        constraints = [one_of("mark", Mark, "note_mark_known")]

    def __str__(self) -> str:
        place = f"#{self.seq}" if self.seq else ""
        return f"{self.run_id}{place}: {self.get_mark_display()}"

    def get_absolute_url(self) -> str:
        address = reverse("run", args=[self.run_id])
        return f"{address}?at={self.seq}#e{self.seq}" if self.seq else address


class Scan(models.Model):
    """A trace that was read by a version of the rules."""

    run = models.OneToOneField(Run, models.CASCADE, primary_key=True, related_name="scan")
    version = models.PositiveIntegerField()
    at = models.DateTimeField(default=timezone.now)

    def __str__(self) -> str:
        return f"{self.run_id} by rules {self.version}"


class Hit(models.Model):
    """An event in which a rule found what it looks for."""

    run = models.ForeignKey(Run, models.CASCADE, related_name="hits")
    rule = models.CharField(max_length=20)
    seq = models.PositiveIntegerField()
    excerpt = models.CharField(max_length=MAX_EXCERPT)

    class Meta:
        ordering = ["run", "seq"]
        constraints = [
            models.UniqueConstraint(fields=["run", "rule", "seq"], name="hit_once_an_event")
        ]

    def __str__(self) -> str:
        return f"{self.run_id}#{self.seq}: {self.rule}"

    def get_absolute_url(self) -> str:
        return f"{reverse('run', args=[self.run_id])}?at={self.seq}#e{self.seq}"
