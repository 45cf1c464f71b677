"""A client that reads pages as a browser shows them."""

from __future__ import annotations

import re
from typing import Any

from django.http import HttpResponse
from django.test import Client


class Reader(Client):
    """Gets pages without the line ends of their templates, which no browser shows."""

    def request(self, **request: Any) -> Any:
        response = super().request(**request)
        kind = response.headers.get("Content-Type", "")
        other = {"Content-Encoding", "Content-Disposition"} & {*response.headers}
        plain = isinstance(response, HttpResponse) and not other
        if plain and kind.startswith("text/html"):
            response.content = one_line(response.content.decode())
        return response


def one_line(page: str) -> str:
    """Return HTML with one space for each white space, and none between tags; not in texts."""
    parts = re.split(r"(<(pre|textarea|script)\b.*?</\2>)", page, flags=re.DOTALL)
    flat = (re.sub(r"> <", "><", re.sub(r"[ \t\r\n]+", " ", part)) for part in parts[::3])
    return "".join(sum(zip(flat, [*parts[1::3], ""], strict=True), ()))
