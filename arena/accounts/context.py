"""Facts about accounts that every page can show."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.http import HttpRequest


def accounts(request: HttpRequest) -> dict[str, Any]:
    """Return whether visitors can sign up."""
    return {"signup_open": settings.SIGNUP_OPEN}
