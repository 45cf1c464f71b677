"""Password login with a limit on the number of attempts."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.backends import ModelBackend
from django.http import HttpRequest

from arena.accounts.attempts import (
    address_of,
    count_attempt,
    forget_attempts,
    uncount_attempt,
)
from arena.accounts.models import User

MAX_ATTEMPTS = 5
"""For one name and address, in each period."""
MAX_ATTEMPTS_OF_ADDRESS = 60
"""Failed ones with any names: each costs a hash, on a machine that may measure."""


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
        address = address_of(request)
        key = count_attempt("login", f"{address} {username}", MAX_ATTEMPTS)
        of_address = count_attempt("logins", address, MAX_ATTEMPTS_OF_ADDRESS)
        user = super().authenticate(request, username, password, **more)
        if user is not None:
            forget_attempts(key)
            uncount_attempt(of_address)
        return user
