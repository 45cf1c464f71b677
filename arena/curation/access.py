"""The people who may curate: staff, and the group of reviewers."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse

from arena.accounts.auth import signed_in

View = Callable[..., HttpResponse]


def reviewers_only(view: View) -> View:
    """Let reviewers and staff in; ask anonymous visitors to log in, and refuse others."""

    @login_required
    @wraps(view)
    def guarded(request: HttpRequest, *args: Any, **more: Any) -> HttpResponse:
        if not signed_in(request).is_reviewer:
            raise PermissionDenied("Only reviewers and staff curate tasks.")
        return view(request, *args, **more)

    return guarded


def staff_only(view: View) -> View:
    """Let staff in; ask anonymous visitors to log in, and refuse others."""

    @login_required
    @wraps(view)
    def guarded(request: HttpRequest, *args: Any, **more: Any) -> HttpResponse:
        if not request.user.is_staff:
            raise PermissionDenied("Only staff do this.")
        return view(request, *args, **more)

    return guarded
