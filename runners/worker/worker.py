"""A worker: executes messages of its queues, sends heartbeats, and reaps abandoned work."""

from __future__ import annotations

import logging
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db import DatabaseError, close_old_connections, connections
from dramatiq import Worker as Consumer

from arena import queue
from arena.catalog import services as catalog
from arena.catalog.models import Hardware
from arena.runs import services as runs
from runners import harnesses
from runners.process.supervisor import stopping
from runners.worker import bench
from runners.worker.actors import broker
from runners.worker.devices import find_devices

logger = logging.getLogger(__name__)

POLL_SECONDS = 5.0
CAPABILITIES_SECONDS = 30.0
"""Interval at which a worker that runs agents looks for their harnesses and keys."""
IDLE_POLL_MS = 300
SHUTDOWN_MS = 10_000


@dataclass(frozen=True)
class Duty:
    """Queues of a worker; `threads` is its number of parallel messages."""

    queues: Sequence[str]
    threads: int = 1
    hardware: Hardware | None = None
    devices: Sequence[str] = ("",)
    """UUIDs of its devices, each with a thread; a CPU's is empty."""

    @property
    def names(self) -> list[str]:
        """Return its unique names among live workers, one for each device."""
        name = f"{socket.gethostname()}/{'+'.join(self.queues)}"
        return [f"{name}/{device[:8]}" if device else name for device in self.devices]


def serve(*duties: Duty) -> None:
    """Work until SIGTERM or SIGINT, which also stop current work."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    with serving(*duties):
        while not stopping.is_set():
            poll(*duties)
            stopping.wait(POLL_SECONDS)
    bench.clear_here()


@contextmanager
def serving(*duties: Duty) -> Iterator[None]:
    """Execute messages in threads of this process; the end stops current work.

    The caller must `poll` every `POLL_SECONDS`.
    """
    consumers = [_consumer(duty) for duty in duties]
    try:
        for duty, consumer in zip(duties, consumers, strict=True):
            consumer.start()
            logger.info("%s is ready", ", ".join(duty.names))
        yield
    finally:
        stopping.set()
        for duty, consumer in zip(duties, consumers, strict=True):
            consumer.stop(timeout=SHUTDOWN_MS)
            for name in duty.names:
                catalog.remove_worker(name)


def _consumer(duty: Duty) -> Consumer:
    for name in duty.queues:
        broker.declare_queue(name)
    consumer = Consumer(
        broker,
        queues=set(duty.queues),
        worker_threads=duty.threads,
        worker_timeout=IDLE_POLL_MS,
    )
    consumer.queue_prefetch = duty.threads  # leave to others what we cannot start at once
    return consumer


def poll(*duties: Duty, reap: Callable[[], int] = runs.reap) -> None:
    """Send heartbeats and reap; any failure is logged, and the next call tries again."""
    try:
        with database_errors_logged():
            for duty in duties:
                found = _capabilities(duty)
                for name in duty.names:
                    catalog.heartbeat_worker(
                        name,
                        queues=duty.queues,
                        pid=os.getpid(),
                        hardware=duty.hardware,
                        capabilities=found,
                    )
            if count := reap() + _advance_rest(duties):
                logger.info("reaped or sent again: %s", count)
    except Exception:  # a worker that ends takes along all that it works on
        logger.exception("the reaper failed")


def _advance_rest(duties: Sequence[Duty]) -> int:
    """Go on with what comes after runs: drafts, verdicts judged again, and compositions."""
    if settings.HEADLESS:
        return 0  # an offline GPU box has runs alone
    from arena.curation import checks, rejudging
    from arena.leaderboard import compositions

    count = checks.reap_checks() + rejudging.advance() + compositions.reap()
    return count + sum(compositions.advance(each.hardware) for each in duties if each.hardware)


_found_at = -CAPABILITIES_SECONDS


def _capabilities(duty: Duty) -> dict[str, Any] | None:
    """Return the harnesses and providers found here, now and then; None in between."""
    global _found_at
    if queue.AGENTS not in duty.queues or time.monotonic() - _found_at < CAPABILITIES_SECONDS:
        return None
    _found_at = time.monotonic()
    return harnesses.capabilities()


@contextmanager
def database_errors_logged() -> Iterator[None]:
    """Log database errors of a loop that tries again, and reconnect."""
    close_old_connections()
    try:
        yield
    except DatabaseError as error:
        logger.warning("the database is tried again later: %s", error)
        connections.close_all()


def hardware_duties(device: str | None = None, every_kind: bool = False) -> list[Duty]:
    """Return one duty for each model, with a thread for each of its devices.

    The device can be named by slug, number or UUID. The default is all GPUs, else the CPU, whose
    cores builds and the judges of GPUs use; `every_kind` is GPUs and CPU.

    Raises: NoHardware.
    """
    found = find_devices(device)
    if device is None and not every_kind:
        best = next(iter(found.values())).model["kind"]
        found = {slug: each for slug, each in found.items() if each.model["kind"] == best}
    duties = []
    for slug, each in found.items():
        bench.here[slug] = each.benches
        hardware = catalog.register_hardware(each.model)
        devices = [one.lock for one in each.benches]
        duties.append(Duty((hardware.queue,), len(devices), hardware, devices))
    return duties
