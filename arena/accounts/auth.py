"""Authentication of API requests: a bearer token, a session, or anonymous."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.contrib.auth import get_user
from django.contrib.auth.models import AnonymousUser
from django.contrib.sessions.backends.db import SessionStore
from django.http import HttpRequest
from django.urls import reverse
from ninja.security import HttpBearer, SessionAuth

from arena.accounts.models import ApiToken, Scope, User, Viewer
from arena.errors import Forbidden, Unauthorized


class TokenAuth(HttpBearer):
    """Accepts a live token with one of `scopes`; any other token is an error, never anonymous."""

    def __init__(self, *scopes: Scope) -> None:
        super().__init__()
        self.scopes = scopes

    def authenticate(self, request: HttpRequest, token: str) -> User:
        found = ApiToken.objects.find(token)
        if found is None:
            raise Unauthorized(
                "This token is unknown, expired or revoked.",
                f"Make one on the page {reverse('account')}.",
            )
        require_scope(found.scopes, *self.scopes)
        found.note_use()
        request.user = found.user
        request.token_scopes = found.scopes  # type: ignore[attr-defined]
        return found.user


def require_scope(granted: Sequence[str], *scopes: Scope) -> None:
    """Raise Forbidden unless one of `scopes` is granted."""
    if not set(granted) & set(scopes):
        needed = " or ".join(repr(scope.value) for scope in scopes)
        raise Forbidden(f"This token lacks the scope {needed}.", "Make one that has it.")


def scopes_of(request: HttpRequest) -> Sequence[str]:
    """Return the scopes of the token of a request; every scope for a session."""
    granted: Sequence[str] = getattr(request, "token_scopes", Scope.values)
    return granted


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


def user_of_session(key: str) -> Viewer:
    """Return the user of a session as a new request would find it: it may have ended since.

    A change of the password ends the sessions from before it, and a user may be deactivated.
    """
    request = HttpRequest()
    request.session = SessionStore(key)
    found = get_user(request)
    return found if isinstance(found, User) else AnonymousUser()


def signed_in(request: HttpRequest) -> User:
    """Return the user of a request that only users can make."""
    assert isinstance(request.user, User)
    return request.user


READ: list[Any] = [TokenAuth(Scope.READ), AnyoneAuth()]
RUN = [TokenAuth(Scope.RUN), Session(csrf=True)]
SUBMIT = [TokenAuth(Scope.SUBMIT, Scope.RUN), Session(csrf=True)]
INGEST = [TokenAuth(Scope.INGEST), Session(csrf=True)]
START = [TokenAuth(Scope.RUN, Scope.INGEST), Session(csrf=True)]
CANCEL = [TokenAuth(Scope.RUN, Scope.SUBMIT, Scope.INGEST), Session(csrf=True)]
