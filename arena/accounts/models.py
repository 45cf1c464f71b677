"""Models of users and of their API tokens."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable
from typing import Self

from django.contrib.auth.models import AbstractUser, AnonymousUser
from django.db import models
from django.utils import timezone

TOKEN_PREFIX = "arena_"


class User(AbstractUser):
    """An account of the arena."""


Viewer = User | AnonymousUser


class Scope(models.TextChoices):
    """Permissions of a token: to read, and to start and cancel runs."""

    READ = "read"
    RUN = "run"


class ApiTokenQuerySet(models.QuerySet["ApiToken"]):
    def live(self) -> Self:
        return self.filter(revoked_at=None, user__is_active=True)

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
    revoked_at = models.DateTimeField(null=True, blank=True)

    objects = ApiTokenQuerySet.as_manager()

    class Meta:
        ordering = ["-created_at"]
        verbose_name = "API token"

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"

    @classmethod
    def issue(cls, user: User, name: str, scopes: Iterable[str]) -> tuple[ApiToken, str]:
        """Return a new token and its secret, which is not stored and cannot be shown again."""
        secret = TOKEN_PREFIX + secrets.token_urlsafe(32)
        granted = sorted({Scope(scope).value for scope in scopes})
        token = cls.objects.create(
            user=user, name=name, prefix=secret[:12], digest=digest_of(secret), scopes=granted
        )
        return token, secret


def digest_of(secret: str) -> str:
    """Return the SHA-256 of a secret as hexadecimal."""
    return hashlib.sha256(secret.encode()).hexdigest()
