"""URLs of the WebSockets."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.urls import path, re_path

from arena.runs.live import consumers


def _app(consumer: Any) -> Any:
    """Return an ASGI application, which Django's types take for no view."""
    return consumer


SOCKETS = f"{settings.PREFIX}/ws"[1:]

websocket_urls: list[Any] = [
    path(f"{SOCKETS}/runs/<str:run_id>/", _app(consumers.run)),
    path(f"{SOCKETS}/board/", _app(consumers.board)),
    re_path("", _app(consumers.nowhere)),
]
