"""What messages start. `measure` is sent to the queue of the hardware it is for."""

from __future__ import annotations

import dramatiq

from runners.worker import attempt, judging
from runners.worker.broker import broker

HOUR_MS = 3_600_000


@dramatiq.actor(broker=broker, queue_name="agents", max_retries=0, time_limit=48 * HOUR_MS)
def run_agent(run_id: str) -> None:
    """For each run that is due there is a message; which run it begins, the table says. One that
    nobody can judge is passed over, and the reaper asks again once somebody can.
    """
    attempt.attempt_next()


@dramatiq.actor(broker=broker, queue_name="build", max_retries=0, time_limit=HOUR_MS)
def build(evaluation_id: int) -> None:
    judging.build(evaluation_id)


@dramatiq.actor(broker=broker, queue_name="measure", max_retries=0, time_limit=HOUR_MS)
def measure(evaluation_id: int) -> None:
    judging.measure(evaluation_id)
