"""The queues of this process: the broker that its actors are declared on."""

from __future__ import annotations

from django.conf import settings
from django.db import close_old_connections
from dramatiq import Broker, MessageProxy, Middleware
from dramatiq.brokers.redis import RedisBroker
from dramatiq.middleware import Retries, TimeLimit


class FreshConnections(Middleware):
    """A worker's thread lives long: no message starts or ends on a connection past its age."""

    def before_process_message(self, broker: Broker, message: MessageProxy) -> None:
        close_old_connections()

    after_process_message = before_process_message  # type: ignore[assignment]


broker = RedisBroker(
    url=settings.REDIS_URL,
    middleware=[TimeLimit(), Retries(), FreshConnections()],
)
