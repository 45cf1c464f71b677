"""Asking for work by name: the arena knows actors and queues, never the code behind them.

An arena without a queue (`HEADLESS`) sends nothing: whoever works there reads the rows.
"""

from __future__ import annotations

import functools
import json
import logging
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db import transaction

if TYPE_CHECKING:
    from dramatiq.brokers.redis import RedisBroker

logger = logging.getLogger(__name__)

AGENTS = "agents"
BUILD = "build"


class Unreachable(Exception):
    """The queue does not answer now; the message says why."""


@functools.cache
def _broker(url: str) -> RedisBroker:
    from dramatiq.brokers.redis import RedisBroker

    return RedisBroker(url=url, middleware=[])  # type: ignore[no-untyped-call]


def enqueue(actor: str, queue: str, *args: Any) -> None:
    """Send `actor(*args)` to `queue` once the open transaction has committed.

    A message that cannot be sent is not an error of the caller: the row says what is due, and the
    reaper sends it again.
    """
    transaction.on_commit(lambda: _send(actor, queue, args))


def waiting(queue: str) -> set[tuple[str, tuple[Any, ...]]]:
    """The (actor, args) of every message that lies in `queue` and that no worker has fetched.

    Raises `Unreachable`.
    """
    import redis

    broker = _broker(settings.REDIS_URL)
    key = f"{broker.namespace}:{queue}"
    try:
        ids = broker.client.lrange(key, 0, -1)
        messages = broker.client.hmget(f"{key}.msgs", ids) if ids else []
    except (redis.RedisError, OSError) as error:
        raise Unreachable(str(error)) from error
    found = [json.loads(data) for data in messages if data]
    return {(message["actor_name"], tuple(message["args"])) for message in found}


def _send(actor: str, queue: str, args: tuple[Any, ...]) -> None:
    if settings.HEADLESS:
        return
    import redis
    from dramatiq import Message
    from dramatiq.errors import BrokerConnectionError

    message: Message[Any] = Message(
        queue_name=queue, actor_name=actor, args=args, kwargs={}, options={}
    )
    try:
        _broker(settings.REDIS_URL).enqueue(message)
    except (redis.RedisError, BrokerConnectionError, OSError) as error:
        logger.warning(
            "%s%r waits for the reaper: the queue is unreachable: %s", actor, args, error
        )
