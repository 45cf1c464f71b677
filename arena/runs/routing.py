"""URLs of the WebSockets."""

from __future__ import annotations

from django.urls import path, re_path

from arena.runs.trace.consumers import BoardConsumer, NowhereConsumer, RunConsumer

websocket_urls = [
    path("ws/runs/<str:run_id>/", RunConsumer.as_asgi()),
    path("ws/board/", BoardConsumer.as_asgi()),
    re_path("", NowhereConsumer.as_asgi()),
]
