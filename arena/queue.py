"""Messages to workers, by the names of actors and queues.

An arena without a queue (`HEADLESS`) sends nothing: its executor reads the rows.
"""

from __future__ import annotations

import functools
import logging
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db import transaction

if TYPE_CHECKING:
    from dramatiq.brokers.redis import RedisBroker

logger = logging.getLogger(__name__)

AGENTS = "agents"
BUILD = "build"


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
