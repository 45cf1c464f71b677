"""Models of users and of their API tokens."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Self

from django.contrib.auth.models import AbstractUser, AnonymousUser
from django.db import models, transaction
from django.db.models import Q
from django.utils import timezone

from arena.audit.services import record_of_staff

TOKEN_PREFIX = "arena_"
REVIEWERS, STAFF = "Reviewers", "Staff"
"""Names of the groups of the roles; `arena.accounts.roles` creates them."""
USED_STEP = timedelta(minutes=1)
"""Precision of the time of the last use of a token, which spares a write at each request."""


class User(AbstractUser):
    """An account of the arena, with limits of its own where these are not empty."""

    daily_runs = models.PositiveIntegerField(
        null=True, blank=True, help_text="Runs a day; empty for the limit of everybody."
    )
    daily_kernels = models.PositiveIntegerField(
        null=True, blank=True, help_text="Kernels a day without an agent; empty as above."
    )
    daily_finals = models.PositiveIntegerField(
        null=True,
        blank=True,
        help_text="Final verdicts a day of kernels and of own agents; empty as above.",
    )

    class Meta(AbstractUser.Meta):
        permissions = [("use_models", "Can start agents that call a model")]

    @property
    def is_reviewer(self) -> bool:
        """Return whether the user may review tasks: staff may, and the group of reviewers."""
        return self.is_staff or self.groups.filter(name=REVIEWERS).exists()

    @property
    def may_use_models(self) -> bool:
        """Return whether the user may spend the keys of this arena on calls of models."""
        return self.is_staff or self.has_perm("accounts.use_models")


Viewer = User | AnonymousUser


def reviewers_among(users: models.QuerySet[User]) -> models.QuerySet[User]:
    """Filter users to those who may review tasks and can sign in, by name."""
    may_review = Q(is_staff=True) | Q(groups__name=REVIEWERS)
    return users.filter(may_review, is_active=True).distinct().order_by("username")


class Scope(models.TextChoices):
    """Permissions of a token."""

    READ = "read", "read: read what you can see"
    SUBMIT = "submit", "submit: submit kernels"
    RUN = "run", "run: start agents of this arena, and submit kernels"
    INGEST = "ingest", "ingest: bring an agent that runs elsewhere"


class ApiTokenQuerySet(models.QuerySet["ApiToken"]):
    def live(self) -> Self:
        unexpired = Q(expires_at=None) | Q(expires_at__gt=timezone.now())
        return self.filter(unexpired, revoked_at=None, user__is_active=True)

    def revoke(self, by: User) -> int:
        """Refuse these tokens from now on; return how many were live."""
        return sum(token.revoke(by) for token in self.filter(revoked_at=None))

    def find(self, secret: str) -> ApiToken | None:
        """Return the live token with this secret, or None."""
        return self.live().select_related("user").filter(digest=digest_of(secret)).first()


class ApiToken(models.Model):
    """A bearer token, stored as its SHA-256 and a prefix to recognise it by."""

    user = models.ForeignKey(User, models.CASCADE, related_name="tokens")
    name = models.CharField(max_length=100)
    prefix = models.CharField(max_length=16)
    digest = models.CharField(max_length=64, unique=True)
    scopes = models.JSONField(default=list)
    created_at = models.DateTimeField(default=timezone.now)
    last_used_at = models.DateTimeField(null=True, blank=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    objects = ApiTokenQuerySet.as_manager()

    class Meta:
        ordering = ["-created_at"]
        verbose_name = "API token"

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"

    @property
    def state(self) -> str:
        """Return live, expired or revoked."""
        if self.revoked_at is not None:
            return "revoked"
        expired = self.expires_at is not None and self.expires_at <= timezone.now()
        return "expired" if expired else "live"

    def note_use(self) -> None:
        """Record the time of a use, unless the last one was less than `USED_STEP` ago."""
        now = timezone.now()
        if self.last_used_at is None or now - self.last_used_at >= USED_STEP:
            ApiToken.objects.filter(pk=self.pk).update(last_used_at=now)

    def revoke(self, by: User) -> bool:
        """Refuse the token from now on; False if it was revoked before."""
        live = ApiToken.objects.filter(pk=self.pk, revoked_at=None)
        with transaction.atomic():
            revoked = bool(live.update(revoked_at=timezone.now()))
            if revoked:
                record_of_staff(by, "token.revoke", self, f"A token of {self.user}.")
        return revoked

    @classmethod
    def issue(
        cls, user: User, name: str, scopes: Iterable[str], expires_at: datetime | None = None
    ) -> tuple[ApiToken, str]:
        """Return a new token and its secret, which is not stored and cannot be shown again."""
        secret = TOKEN_PREFIX + secrets.token_urlsafe(32)
        token = cls.objects.create(
            user=user,
            name=name,
            prefix=secret[:12],
            digest=digest_of(secret),
            scopes=sorted({Scope(scope).value for scope in scopes}),
            expires_at=expires_at,
        )
        return token, secret


def digest_of(secret: str) -> str:
    """Return the SHA-256 of a secret as hexadecimal."""
    return hashlib.sha256(secret.encode()).hexdigest()
