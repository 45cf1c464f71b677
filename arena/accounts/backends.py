"""Who logs in with a password, and how often one may try."""

from __future__ import annotations

import time
from typing import Any

from django.contrib.auth.backends import ModelBackend
from django.core.cache import cache
from django.core.exceptions import ValidationError
from django.http import HttpRequest

from arena.accounts.models import User, digest_of

MOST_TRIES = 5
"""Of one name from one address, in each stretch."""
STRETCH_SECONDS = 300


class SlowedBackend(ModelBackend):
    """Django's own, which stops looking at passwords where too many were wrong.

    A try counts before its password is looked at, so that many at once are no way around. Raises
    ValidationError, which every form that logs in shows.
    """

    def authenticate(
        self,
        request: HttpRequest | None,
        username: str | None = None,
        password: str | None = None,
        **more: Any,
    ) -> User | None:
        address = request.META.get("REMOTE_ADDR", "") if request else ""
        stretch, gone = divmod(int(time.time()), STRETCH_SECONDS)
        wait = STRETCH_SECONDS - gone
        key = "login-" + digest_of(f"{stretch} {address} {username}")
        cache.add(key, 0, 2 * STRETCH_SECONDS)
        if cache.incr(key) > MOST_TRIES:
            raise ValidationError(f"Too many tries. Try again in {wait} seconds.", "throttled")
        user = super().authenticate(request, username, password, **more)
        if user is not None:
            cache.set(key, 0, 2 * STRETCH_SECONDS)
        return user
