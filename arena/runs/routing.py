"""URLs of the WebSockets."""

from __future__ import annotations

from typing import Any

from django.urls import path, re_path

from arena.runs.trace.consumers import BoardConsumer, NowhereConsumer, RunConsumer


def _app(consumer: type[Any]) -> Any:
    """Return the ASGI application of a consumer, which Django's types take for no view."""
    return consumer.as_asgi()


websocket_urls: list[Any] = [
    path("ws/runs/<str:run_id>/", _app(RunConsumer)),
    path("ws/board/", _app(BoardConsumer)),
    re_path("", _app(NowhereConsumer)),
]
