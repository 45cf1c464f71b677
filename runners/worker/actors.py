"""Actors of dramatiq messages. `measure` is sent to the queue of its hardware."""

from __future__ import annotations

import dramatiq

from runners.worker import attempt, judging
from runners.worker.broker import broker

HOUR_MS = 3_600_000


@dramatiq.actor(broker=broker, queue_name="agents", max_retries=0, time_limit=48 * HOUR_MS)
def run_agent(run_id: str) -> None:
    """Execute the next due run.

    Each due run has one message; the table says which run a message starts. A run without hardware
    is skipped, and the reaper sends it again once hardware is there.
    """
    attempt.attempt_next()


@dramatiq.actor(broker=broker, queue_name="build", max_retries=0, time_limit=HOUR_MS)
def build(evaluation_id: int) -> None:
    judging.build(evaluation_id)


@dramatiq.actor(broker=broker, queue_name="measure", max_retries=0, time_limit=HOUR_MS)
def measure(evaluation_id: int) -> None:
    judging.measure(evaluation_id)
