"""Answers that many views share: a part of a page, and a refusal on the page that follows."""

from __future__ import annotations

from types import TracebackType

from django.contrib import messages
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString

from arena.errors import UserError


def is_inserted(request: HttpRequest) -> bool:
    """Return whether `static/js/fragments.js` asks for a part of a page, to insert it there."""
    return request.headers.get("X-Requested-With") == "fragment"


def refusal(error: UserError) -> SafeString:
    """Return the text of an error as HTML, with its link."""
    if (link := error.link) is None:
        return format_html("{}", error.text)
    return format_html('{} <a href="{}">{}</a>', error.text, link.address, link.text)


class RefusalAsMessage:
    """Turns a UserError of its block into a message, which the next page of the user shows."""

    def __init__(self, request: HttpRequest) -> None:
        self._request = request

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        if isinstance(error, UserError):
            messages.error(self._request, refusal(error))
            return True
        return False
