"""Actors of dramatiq messages, those of one device in the queue of its hardware.

Each claims its row first, so a doubled message does nothing.
"""

from __future__ import annotations

import dramatiq

from arena import queue
from runners.worker import attempt, judging

broker = queue.broker()


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
