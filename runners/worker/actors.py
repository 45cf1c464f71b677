"""Actors of dramatiq messages, those of one device in the queue of its hardware.

Each claims its row first, so a doubled message does nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import dramatiq
from dramatiq import Broker, MessageProxy, Middleware

from arena import logs, queue, telemetry
from runners.worker import attempt, judging

ABOUT = {
    "run_agent": "run",
    "build": "evaluation",
    "measure": "evaluation",
    "compose": "composition",
    "check_draft": "check",
}
"""Names of what actors work on, which is their first argument."""


class Current(Middleware):
    """Number of messages and comparisons of this process; log lines have what each is about."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.count = 0

    def _add(self, change: int) -> None:
        with self._lock:
            self.count += change

    @contextmanager
    def one_more(self) -> Iterator[None]:
        """Count work that no message asked for."""
        self._add(1)
        try:
            yield
        finally:
            self._add(-1)

    def before_process_message(self, broker: Broker, message: MessageProxy) -> None:
        self._add(1)
        logs.begin()
        for subject in message.args[:1]:
            logs.add(**{ABOUT[message.actor_name]: subject})

    def after_process_message(self, broker: Broker, message: MessageProxy, **ended: Any) -> None:
        self._add(-1)


current = Current()
broker = queue.broker()
broker.add_middleware(current)
broker.add_middleware(telemetry.Messages())


@dramatiq.actor(broker=broker, queue_name=queue.AGENTS)
def run_agent(run_id: str = "") -> None:
    """Execute a run, by default the next in turn.

    A run without hardware is skipped, and the reaper sends it again once hardware is there.
    """
    attempt.attempt(run_id)


@dramatiq.actor(broker=broker, queue_name=queue.BUILD)
def build(evaluation_id: int) -> None:
    judging.build(evaluation_id)


@dramatiq.actor(broker=broker, queue_name="measure")
def measure(evaluation_id: int) -> None:
    judging.measure(evaluation_id)


@dramatiq.actor(broker=broker, queue_name="measure")
def compose(composition_id: int) -> None:
    from runners.worker import composing  # an offline GPU box has no boards

    composing.compose(composition_id)


@dramatiq.actor(broker=broker, queue_name="measure")
def check_draft(check_id: int) -> None:
    from runners.worker import checking  # an offline GPU box has no drafts

    checking.check(check_id)
