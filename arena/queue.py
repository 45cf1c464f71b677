"""Asking for work by name: the arena knows actors and queues, never the code behind them."""

from __future__ import annotations

import functools
import json
import logging
from typing import Any

import redis
from django.conf import settings
from django.db import transaction
from dramatiq import Message
from dramatiq.brokers.redis import RedisBroker
from dramatiq.errors import BrokerConnectionError

logger = logging.getLogger(__name__)

AGENTS = "agents"
BUILD = "build"


@functools.cache
def _broker(url: str) -> RedisBroker:
    return RedisBroker(url=url, middleware=[])


def enqueue(actor: str, queue: str, *args: Any) -> None:
    """Send `actor(*args)` to `queue` once the open transaction has committed.

    A message that cannot be sent is not an error of the caller: the row says what is due, and the
    reaper sends it again.
    """
    transaction.on_commit(lambda: _send(actor, queue, args))


def waiting(queue: str) -> set[tuple[str, tuple[Any, ...]]]:
    """The (actor, args) of every message that lies in `queue` and that no worker has fetched."""
    broker = _broker(settings.REDIS_URL)
    key = f"{broker.namespace}:{queue}"
    ids = broker.client.lrange(key, 0, -1)
    if not ids:
        return set()
    found = [json.loads(data) for data in broker.client.hmget(f"{key}.msgs", ids) if data]
    return {(message["actor_name"], tuple(message["args"])) for message in found}


def _send(actor: str, queue: str, args: tuple[Any, ...]) -> None:
    message: Message[Any] = Message(
        queue_name=queue, actor_name=actor, args=args, kwargs={}, options={}
    )
    try:
        _broker(settings.REDIS_URL).enqueue(message)
    except (redis.RedisError, BrokerConnectionError, OSError) as error:
        logger.warning(
            "%s%r waits for the reaper: the queue is unreachable: %s", actor, args, error
        )
