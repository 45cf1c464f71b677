"""Messages to workers, by the names of actors and queues.

With `HEADLESS` set, messages stay in this process, and so do the workers.
"""

from __future__ import annotations

import functools
import logging
from typing import Any

from django.conf import settings
from django.db import close_old_connections, transaction
from dramatiq import Broker, Message, MessageProxy, Middleware
from dramatiq.brokers.stub import StubBroker
from dramatiq.errors import BrokerConnectionError

from arena import telemetry

logger = logging.getLogger(__name__)

AGENTS = "agents"
BUILD = "build"


class FreshConnections(Middleware):
    """Closes old database connections before and after each message, since threads live long."""

    def before_process_message(self, broker: Broker, message: MessageProxy) -> None:
        close_old_connections()

    def after_process_message(self, broker: Broker, message: MessageProxy, **ended: Any) -> None:
        close_old_connections()


def broker() -> Broker:
    """Return the broker of this process: the server at REDIS_URL, or memory with `HEADLESS`."""
    return _broker("" if settings.HEADLESS else settings.REDIS_URL)


@functools.cache
def _broker(url: str) -> Broker:
    if not url:
        return StubBroker(middleware=[FreshConnections()])
    from dramatiq.brokers.redis import RedisBroker  # an offline GPU box has no Redis client

    return RedisBroker(url=url, middleware=[FreshConnections()])  # type: ignore[no-untyped-call]


def enqueue(actor: str, queue: str, *args: Any) -> None:
    """Send `actor(*args)` to `queue` once the open transaction has committed.

    A message that cannot be sent is not an error of the caller: the reaper sends it again.
    """
    message: Message[Any] = Message(
        queue_name=queue, actor_name=actor, args=args, kwargs={}, options={**telemetry.carrier()}
    )
    transaction.on_commit(lambda: _send(message))


def length(queue: str) -> int:
    """Return the number of messages in a queue that no worker has taken; 0 if it is unreachable."""
    found: Any = broker()
    if settings.HEADLESS:
        found.declare_queue(queue)
        return int(found.queues[queue].qsize())
    import redis  # an offline GPU box has none

    try:
        return int(found.client.llen(f"{found.namespace}:{queue}"))
    except (redis.RedisError, OSError):
        return 0


def is_reachable() -> bool:
    """Return whether the server of the queue answers."""
    if settings.HEADLESS:
        return True
    import redis  # an offline GPU box has none

    found: Any = broker()
    try:
        return bool(found.client.ping())
    except (redis.RedisError, OSError):
        return False


def _send(message: Message[Any]) -> None:
    broker().declare_queue(message.queue_name)
    if settings.HEADLESS:
        broker().enqueue(message)
        return
    import redis  # an offline GPU box has none

    try:
        broker().enqueue(message)
    except (redis.RedisError, BrokerConnectionError, OSError) as error:
        logger.warning("%s waits for the reaper: the queue is unreachable: %s", message, error)
