"""Parts of pages that `static/js/fragments.js` inserts when they come into view."""

from __future__ import annotations

from django.http import HttpRequest


def is_inserted(request: HttpRequest) -> bool:
    """Return whether a page asks for a part of it, which is then sent without a page around it."""
    return request.headers.get("X-Requested-With") == "fragment"
