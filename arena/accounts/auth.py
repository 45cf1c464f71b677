"""Authentication of API requests: a bearer token, a session, or anonymous."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest
from django.utils import timezone
from ninja.security import HttpBearer, SessionAuth

from arena.accounts.models import ApiToken, Scope, User
from arena.errors import Forbidden, Unauthorized


class TokenAuth(HttpBearer):
    """Accepts a live token with `scope`; any other token is an error, never anonymous."""

    def __init__(self, scope: Scope) -> None:
        super().__init__()
        self.scope = scope

    def authenticate(self, request: HttpRequest, token: str) -> User:
        found = ApiToken.objects.find(token)
        if found is None:
            raise Unauthorized("This token is unknown or revoked.", "Make one in the admin.")
        if self.scope not in found.scopes:
            raise Forbidden(
                f"This token lacks the scope {self.scope.value!r}.", "Make one that has it."
            )
        ApiToken.objects.filter(pk=found.pk).update(last_used_at=timezone.now())
        request.user = found.user
        return found.user


class Session(SessionAuth):
    """Accepts the user of a session, with its CSRF token; no session is no user."""

    def __call__(self, request: HttpRequest) -> Any:
        return super().__call__(request) if request.user.is_authenticated else None


class AnyoneAuth:
    """Accepts the user of the session or the anonymous user.

    `csrf` makes the documentation page send the CSRF token, so that operations work there.
    """

    csrf = True

    def __call__(self, request: HttpRequest) -> User | AnonymousUser:
        return request.user


def signed_in(request: HttpRequest) -> User:
    """Return the user of a request that only users can make."""
    assert isinstance(request.user, User)
    return request.user


READ: list[Any] = [TokenAuth(Scope.READ), AnyoneAuth()]
RUN = [TokenAuth(Scope.RUN), Session(csrf=True)]
