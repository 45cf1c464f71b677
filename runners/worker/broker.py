"""The dramatiq broker of this process."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db import close_old_connections
from dramatiq import Broker, MessageProxy, Middleware
from dramatiq.brokers.redis import RedisBroker
from dramatiq.middleware import Retries, TimeLimit


class FreshConnections(Middleware):
    """Closes old database connections before and after each message, since threads live long."""

    def before_process_message(self, broker: Broker, message: MessageProxy) -> None:
        close_old_connections()

    def after_process_message(
        self,
        broker: Broker,
        message: MessageProxy,
        *,
        result: Any = None,
        exception: BaseException | None = None,
    ) -> None:
        close_old_connections()


broker = RedisBroker(  # type: ignore[no-untyped-call]
    url=settings.REDIS_URL,
    middleware=[TimeLimit(), Retries(), FreshConnections()],
)
