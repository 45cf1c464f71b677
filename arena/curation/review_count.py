"""Number of drafts that wait for a review by the user of a page."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest

from arena.accounts.models import User
from arena.curation.models import Draft


def curation(request: HttpRequest) -> dict[str, Any]:
    """Return a function that counts the drafts which wait for a review by the user."""

    def to_review() -> int:
        user = getattr(request, "user", None)
        return Draft.objects.waiting_for(user).count() if isinstance(user, User) else 0

    return {"to_review": to_review}
