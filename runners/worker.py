"""A worker: takes messages from its queues, says that it lives, and reaps what others left."""

from __future__ import annotations

import logging
import os
import signal
import socket
from collections.abc import Sequence
from dataclasses import dataclass

from django.db import DatabaseError, close_old_connections
from dramatiq import Worker as Consumer

import runners.actors  # noqa: F401  (declares on the broker what messages start)
from arena.catalog import services as catalog
from arena.catalog.models import Hardware
from arena.runs import services as runs
from runners.broker import broker
from runners.devices import NoHardware, find_devices
from runners.supervisor import stopping

logger = logging.getLogger(__name__)

TEND_SECONDS = 5.0
IDLE_POLL_MS = 300
SHUTDOWN_MS = 10_000


@dataclass(frozen=True)
class Duty:
    """What a worker takes on; `threads` is how much of it at a time."""

    queues: Sequence[str]
    threads: int = 1
    hardware: Hardware | None = None

    @property
    def name(self) -> str:
        """Unique among live workers: two alike on one host would be one too many."""
        return f"{socket.gethostname()}/{'+'.join(self.queues)}"


def serve(duty: Duty) -> None:
    """Work until told to stop by SIGTERM or SIGINT; what is at work then is stopped too."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    for queue in duty.queues:
        broker.declare_queue(queue)
    consumer = Consumer(
        broker,
        queues=set(duty.queues),
        worker_threads=duty.threads,
        worker_timeout=IDLE_POLL_MS,
    )
    consumer.queue_prefetch = duty.threads  # leave to others what we cannot start at once
    consumer.start()
    logger.info("%s is ready", duty.name)
    while not stopping.is_set():
        _tend(duty)
        stopping.wait(TEND_SECONDS)
    consumer.stop(timeout=SHUTDOWN_MS)
    catalog.remove_worker(duty.name)


def _tend(duty: Duty) -> None:
    """Say that we live and reap; a database that is away for a moment is asked again later."""
    close_old_connections()
    try:
        catalog.heartbeat_worker(
            duty.name, queues=duty.queues, pid=os.getpid(), hardware=duty.hardware
        )
        if count := runs.reap():
            logger.info("reaped or sent again: %s", count)
    except DatabaseError as error:
        logger.warning("not tended: %s", error)


def hardware_duty(device: str | None) -> Duty:
    """One process with one thread a device: whoever holds it has it alone.

    The device named, else the first. Raises `NoHardware`.
    """
    found = find_devices()
    if device and device not in found:
        raise NoHardware(f"no {device} here; there are: {', '.join(found)}")
    hardware = catalog.register_hardware(found[device or next(iter(found))])
    return Duty(queues=(hardware.queue,), hardware=hardware)
