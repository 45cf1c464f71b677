"""Nudges to open pages, and the origin check of their WebSockets."""

from __future__ import annotations

import logging
from typing import Any
from urllib.parse import urlsplit

from asgiref.sync import async_to_sync
from django.conf import settings
from django.db import transaction

logger = logging.getLogger(__name__)

BOARD = "board"

Scope = dict[str, Any]


def run_group(run_id: str) -> str:
    return f"run.{run_id}"


def nudge(*groups: str) -> None:
    """Notify `groups` of a change when the open transaction commits.

    A nudge carries no data and can be lost: listeners also read on a slow timer.
    """
    transaction.on_commit(lambda: _send(groups))


def _send(groups: tuple[str, ...]) -> None:
    if settings.HEADLESS:
        return  # no page is open
    import redis
    from channels.layers import get_channel_layer

    layer: Any = get_channel_layer()
    try:
        for group in groups:
            async_to_sync(layer.group_send)(group, {"type": "nudge"})
    except (redis.RedisError, OSError) as error:
        logger.warning("no page was notified: %s", error)


class SameOriginValidator:
    """Refuses a socket whose Origin is missing or differs from its host and port."""

    def __init__(self, application: Any) -> None:
        self.application = application

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        headers = dict(scope["headers"])
        host = headers.get(b"host", b"").decode("latin-1").lower()
        origin = urlsplit(headers.get(b"origin", b"").decode("latin-1").lower())
        if host and origin.scheme in ("http", "https") and origin.netloc == host:
            await self.application(scope, receive, send)
            return
        from channels.security.websocket import WebsocketDenier

        denier: Any = WebsocketDenier()
        await denier(scope, receive, send)
