"""Nudges to open pages, and the origin check of their WebSockets."""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.db import transaction

logger = logging.getLogger(__name__)

BOARD = "board"
CHANNEL = "arena.nudges"
RECONNECT_SECONDS = 1.0

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

    try:
        for group in groups:
            _client(settings.REDIS_URL).publish(CHANNEL, group)
    except (redis.RedisError, OSError) as error:
        logger.warning("no page was notified: %s", error)


@functools.cache
def _client(url: str) -> Any:
    """Return a client that tries once more at once, and no longer: a nudge is worth no wait."""
    import redis
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    return redis.Redis.from_url(url, socket_timeout=1, retry=Retry(NoBackoff(), 1))


async def follow_nudges(url: str, notify: Callable[[str], None]) -> None:
    """Call `notify` with the group of each nudge; connect again where the server was away.

    Nudges before a connection are lost, so each connection counts as a nudge of the boards.

    It ends by cancellation alone. No asynchronous generator is used: one that is collected or
    closed while its task still ends the connection raises "asynchronous generator is already
    running" in a place where nobody can catch it. The client has no limit of time for a command:
    it would use `asyncio.wait_for`, which in Python 3.11 loses a cancellation that comes at the
    moment in which the command ends, and this would then wait forever.
    """
    import redis.asyncio

    keep: dict[str, Any] = {} if url.startswith("unix:") else {"socket_keepalive": True}
    while True:
        try:
            client = redis.asyncio.from_url(url, socket_timeout=None, **keep)
            async with client, client.pubsub() as subscriber:
                await subscriber.subscribe(CHANNEL)
                while True:
                    message = await subscriber.get_message(timeout=None)
                    if message and message["type"] == "subscribe":
                        notify(BOARD)
                    elif message and message["type"] == "message":
                        notify(message["data"].decode())
        except (redis.RedisError, OSError) as error:
            logger.warning("no nudge arrives: %s", error)
            await asyncio.sleep(RECONNECT_SECONDS)


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
        else:
            await refuse(scope, receive, send)


async def refuse(scope: Scope, receive: Any, send: Any) -> None:
    """Refuse a socket before it opens."""
    from channels.security.websocket import WebsocketDenier

    denier: Any = WebsocketDenier()
    await denier(scope, receive, send)
