"""Tables of curation: drafts of tasks, their checks and reviews, and verdicts judged again."""

from __future__ import annotations

from typing import Any, Self

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.urls import reverse
from django.utils import timezone

from arena.accounts.models import User, reviewers_among
from arena.catalog.models import Hardware, one_of
from arena.filters import containing
from arena.leases import ACTIVE, LeasedQuerySet, Retried
from arena.runs.models import Evaluation

OPEN = ("draft", "review", "approved")


class DraftState(models.TextChoices):
    DRAFT = "draft", "Draft"
    REVIEW = "review", "In review"
    APPROVED = "approved", "Approved"
    PUBLISHED = "published", "Published"
    DISCARDED = "discarded", "Discarded"


class CheckStatus(models.TextChoices):
    QUEUED = "queued", "Queued"
    RUNNING = "running", "Running"
    PASSED = "passed", "Passed"
    FAILED = "failed", "Failed"
    BROKEN = "broken", "No result"


class DraftQuerySet(models.QuerySet["Draft"]):
    def open(self) -> Self:
        return self.filter(state__in=OPEN)

    def waiting_for(self, user: User) -> Self:
        """Filter to those that wait for a review which the user may write."""
        if not user.is_reviewer:
            return self.none()
        others = self.filter(state=DraftState.REVIEW).exclude(author=user).exclude(editors=user)
        chosen = self.filter(reviewers__in=reviewers_among(User.objects.all()))
        mine = self.filter(reviewers=user)
        return others.filter(Q(pk__in=mine.values("pk")) | ~Q(pk__in=chosen.values("pk")))

    def named(self, words: str) -> Self:
        """Filter by words, each in the name of the draft."""
        return self.filter(containing(words, "name"))


class Draft(models.Model):
    """A folder of one operator that is not published: its files are text, by their paths."""

    State = DraftState

    name = models.SlugField(max_length=60)
    author = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="drafts")
    editors = models.ManyToManyField(settings.AUTH_USER_MODEL, related_name="+", blank=True)
    """Those who changed the files since the last approval, besides the author."""
    reviewers = models.ManyToManyField(settings.AUTH_USER_MODEL, related_name="+", blank=True)
    """Those chosen to review it; see `chosen_reviewers`."""
    state = models.CharField(max_length=9, choices=DraftState, default=DraftState.DRAFT)
    files: Any = models.JSONField(default=dict)
    content_hash = models.CharField(max_length=64)
    origin = models.CharField(max_length=300, blank=True)
    """The archive, folder or commit that it was made from."""
    created_at = models.DateTimeField(default=timezone.now)
    updated_at = models.DateTimeField(default=timezone.now)

    objects = DraftQuerySet.as_manager()

    class Meta:
        ordering = ["-updated_at", "-pk"]
        constraints = [
            one_of("state", DraftState, "draft_state_known"),
            models.UniqueConstraint(
                fields=["name"], condition=Q(state__in=OPEN), name="draft_open_name_unique"
            ),
        ]

    def __str__(self) -> str:
        return self.name

    def get_absolute_url(self) -> str:
        return reverse("draft", args=[self.pk])

    @property
    def is_open(self) -> bool:
        return self.state in OPEN

    @property
    def short_hash(self) -> str:
        return self.content_hash[:12]

    def chosen_reviewers(self) -> models.QuerySet[User]:
        """Return those of whom one must approve, by name; none where any other reviewer can.

        One who has lost the role or the account since does not count.
        """
        return reviewers_among(self.reviewers.all())

    def possible_reviewers(self) -> models.QuerySet[User]:
        """Return the reviewers who neither wrote the draft nor edited it, by name."""
        others = User.objects.exclude(pk=self.author_id).exclude(pk__in=self.editors.all())
        return reviewers_among(others)


class Check(Retried):
    """One admission of a draft's content on one hardware; `total` is its number of steps.

    One that `fits` computes the tolerance of the task instead, which is a step of its own.
    """

    Status = CheckStatus

    draft = models.ForeignKey(Draft, models.CASCADE, related_name="checks")
    content_hash = models.CharField(max_length=64)
    hardware = models.ForeignKey(Hardware, models.PROTECT, related_name="+")
    requested_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+"
    )
    status = models.CharField(max_length=7, choices=CheckStatus, default=CheckStatus.QUEUED)
    message = models.TextField(blank=True)
    total = models.PositiveIntegerField(default=0)
    fits = models.BooleanField(default=False)

    objects = LeasedQuerySet["Check"].as_manager()

    class Meta:
        ordering = ["-pk"]
        constraints = [
            one_of("status", CheckStatus, "check_status_known"),
            models.UniqueConstraint(
                fields=["draft", "hardware"],
                condition=Q(status__in=ACTIVE),
                name="check_one_active",
            ),
        ]

    def __str__(self) -> str:
        return f"check of {self.draft} on {self.hardware}"

    def get_absolute_url(self) -> str:
        return reverse("check", args=[self.pk])

    @property
    def queue_message(self) -> tuple[str, str, int]:
        """Return actor, queue and argument of its message, for a worker of its hardware."""
        return "check_draft", self.hardware.queue, self.pk


class CheckStep(models.Model):
    """A line that the judge printed in a check, numbered from 1."""

    check_of = models.ForeignKey(Check, models.CASCADE, related_name="steps")
    number = models.PositiveIntegerField()
    body: Any = models.JSONField()

    class Meta:
        ordering = ["check_of", "number"]
        constraints = [
            models.UniqueConstraint(fields=["check_of", "number"], name="check_step_unique")
        ]

    def __str__(self) -> str:
        return f"{self.check_of} step {self.number}"


class Review(models.Model):
    """An answer of a second person to one content of a draft."""

    draft = models.ForeignKey(Draft, models.CASCADE, related_name="reviews")
    content_hash = models.CharField(max_length=64)
    author = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="+")
    """The author of the draft, so that the database can refuse a review by that person."""
    reviewer = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="+")
    approved = models.BooleanField()
    comment = models.TextField(blank=True)
    at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["-pk"]
        constraints = [
            models.CheckConstraint(
                condition=~Q(author=models.F("reviewer")), name="review_by_a_second_person"
            ),
            models.CheckConstraint(
                condition=Q(approved=True) | ~Q(comment=""), name="review_return_has_comment"
            ),
        ]

    def __str__(self) -> str:
        return f"review of {self.draft}"


class RejudgingState(models.TextChoices):
    RUNNING = "running", "Running"
    ENDED = "ended", "Ended"
    CANCELLED = "cancelled", "Cancelled"


class Rejudging(models.Model):
    """Final verdicts that are judged again together, with the filters that chose them."""

    State = RejudgingState

    requested_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+"
    )
    reason = models.TextField()
    filters: Any = models.JSONField(default=dict)
    judge_version = models.CharField(max_length=50)
    """That of the judge on the web server that started it."""
    state = models.CharField(max_length=9, choices=RejudgingState, default=RejudgingState.RUNNING)
    created_at = models.DateTimeField(default=timezone.now)
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-pk"]
        verbose_name = "re-judging"
        constraints = [one_of("state", RejudgingState, "rejudging_state_known")]

    def __str__(self) -> str:
        return f"re-judging {self.pk}"

    def get_absolute_url(self) -> str:
        return reverse("rejudging", args=[self.pk])

    @property
    def active(self) -> bool:
        return self.state == RejudgingState.RUNNING


class ItemStatus(models.TextChoices):
    WAITING = "waiting", "Waiting"
    JUDGING = "judging", "Being judged"
    REPLACED = "replaced", "Replaced"
    KEPT = "kept", "Kept"
    CANCELLED = "cancelled", "Cancelled"


OPEN_ITEMS = (ItemStatus.WAITING, ItemStatus.JUDGING)


class RejudgingItem(models.Model):
    """One verdict of a re-judging; `replacement` is the evaluation that is to replace it.

    A verdict is kept where the new evaluation broke or the hardware cannot judge it.
    """

    Status = ItemStatus

    rejudging = models.ForeignKey(Rejudging, models.CASCADE, related_name="items")
    evaluation = models.ForeignKey(Evaluation, models.CASCADE, related_name="+")
    replacement = models.OneToOneField(
        Evaluation, models.SET_NULL, null=True, blank=True, related_name="+"
    )
    status = models.CharField(max_length=9, choices=ItemStatus, default=ItemStatus.WAITING)
    message = models.TextField(blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["rejudging", "pk"]
        indexes = [models.Index(fields=["rejudging", "status"], name="rejudging_item_status")]
        verbose_name = "re-judged verdict"
        constraints = [
            one_of("status", ItemStatus, "rejudging_item_status_known"),
            models.UniqueConstraint(
                fields=["evaluation"],
                condition=Q(status__in=OPEN_ITEMS),
                name="rejudging_item_one_open",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.rejudging}: {self.evaluation}"
