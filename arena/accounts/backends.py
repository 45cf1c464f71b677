"""Password login with a limit on the number of attempts."""

from __future__ import annotations

import time
from typing import Any

from django.contrib.auth.backends import ModelBackend
from django.core.cache import cache
from django.core.exceptions import ValidationError
from django.http import HttpRequest

from arena.accounts.models import User, digest_of

MAX_ATTEMPTS = 5
"""For one name and address, in each period."""
PERIOD_SECONDS = 300


class SlowedBackend(ModelBackend):
    """Django's backend with a limit on failed attempts.

    An attempt counts before its password is checked, so that parallel attempts do not evade the
    limit.

    Raises: ValidationError, which every login form shows.
    """

    def authenticate(
        self,
        request: HttpRequest | None,
        username: str | None = None,
        password: str | None = None,
        **more: Any,
    ) -> User | None:
        address = request.META.get("REMOTE_ADDR", "") if request else ""
        period, elapsed = divmod(int(time.time()), PERIOD_SECONDS)
        wait = PERIOD_SECONDS - elapsed
        key = "login-" + digest_of(f"{period} {address} {username}")
        cache.add(key, 0, 2 * PERIOD_SECONDS)
        if cache.incr(key) > MAX_ATTEMPTS:
            raise ValidationError(f"Too many attempts. Try again in {wait} seconds.", "throttled")
        user = super().authenticate(request, username, password, **more)
        if user is not None:
            cache.set(key, 0, 2 * PERIOD_SECONDS)
        return user
