"""Views for some users alone: staff, and the group of reviewers."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse

from arena.accounts.auth import signed_in
from arena.accounts.models import User

View = Callable[..., HttpResponse]


def _only(may: Callable[[User], bool], refusal: str) -> Callable[[View], View]:
    """Let some users in; ask anonymous visitors to log in, and refuse others."""

    def decorated(view: View) -> View:
        @login_required
        @wraps(view)
        def guarded(request: HttpRequest, *args: Any, **more: Any) -> HttpResponse:
            if not may(signed_in(request)):
                raise PermissionDenied(refusal)
            return view(request, *args, **more)

        return guarded

    return decorated


def only_staff(refusal: str) -> Callable[[View], View]:
    """Let staff in alone; others read the refusal."""
    return _only(lambda user: user.is_staff, refusal)


reviewers_only = _only(lambda user: user.is_reviewer, "Only reviewers and staff curate tasks.")
staff_only = only_staff("Only staff do this.")
