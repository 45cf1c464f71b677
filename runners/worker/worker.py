"""A worker: executes messages of its queues, sends heartbeats, and reaps abandoned work."""

from __future__ import annotations

import logging
import math
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import DatabaseError, close_old_connections, connections
from dramatiq import Worker as Consumer

from arena import queue
from arena.catalog import alerts, fleet
from arena.catalog import services as catalog
from arena.catalog.checkouts import judge_problem, schema_problem
from arena.catalog.models import Hardware
from arena.catalog.workers import Worker
from arena.leases import is_limited, machine_of
from arena.runs import artefacts
from arena.runs import services as runs
from runners import harnesses
from runners.process.supervisor import stopping
from runners.worker import bench, device_locks, health
from runners.worker.actors import broker, current
from runners.worker.comparing import Comparisons
from runners.worker.devices import find_devices

logger = logging.getLogger(__name__)

POLL_SECONDS = 5.0
CAPABILITIES_SECONDS = 30.0
"""Interval at which a worker that runs agents looks for their harnesses and keys."""
IDLE_POLL_MS = 300
SHUTDOWN_MS = 10_000
DRAIN_SECONDS = 0.5
"""Interval at which a worker that ends looks whether its work has ended."""
UNKNOWN = "The database does not say whether it may take work: its log says why."


@dataclass(frozen=True)
class Duty:
    """Queues of a worker; `threads` is its number of parallel messages."""

    queues: Sequence[str]
    threads: int = 1
    hardware: Hardware | None = None
    devices: Sequence[str] = ("",)
    """Locks of its devices, each served by a thread; one empty name where nothing is measured."""

    @property
    def names(self) -> list[str]:
        """Return its unique names among live workers, one for each device."""
        name = f"{socket.gethostname()}/{'+'.join(self.queues)}"
        return [f"{name}/{device[:8]}" if device else name for device in self.devices]


def serve(
    *duties: Duty, grace: float = 0.0, seconds: float = math.inf, idle_seconds: float = math.inf
) -> None:
    """Work until SIGTERM, SIGINT, the end of `seconds`, or `idle_seconds` without any work.

    Then it takes nothing new, and current work has `grace` seconds to end. What has not ended by
    then, or at a second signal, is stopped and left to another worker.
    """
    draining = threading.Event()

    def end(*_: object) -> None:
        if draining.is_set() or not grace:
            stopping.set()
        draining.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    until = time.monotonic() + seconds
    busy_at = time.monotonic()
    with serving(*duties, start=False) as consumers:
        while not draining.is_set() and (now := time.monotonic()) < until:
            problem = poll(*duties)
            hold_idle(duties, consumers, problem)  # starts the others
            if not problem:
                compare_devices(duties)
            if current.count or any(queue.length(name) for each in duties for name in each.queues):
                busy_at = now
            elif now - busy_at >= idle_seconds:
                break
            draining.wait(min(POLL_SECONDS, max(0.0, until - time.monotonic())))
        _drain(duties, consumers, grace)
    bench.clear_here()


def _drain(duties: Sequence[Duty], consumers: Sequence[Consumer], grace: float) -> None:
    """Take nothing new, and wait for current work, for `grace` seconds at most."""
    hold(consumers, True)
    until = next_poll = time.monotonic()
    until += grace
    while current.count and not stopping.is_set() and (now := time.monotonic()) < until:
        if now >= next_poll:
            poll(
                *duties,
                problem=f"It ends: it finishes {current.count} more, and takes nothing new.",
            )
            next_poll = now + POLL_SECONDS
        stopping.wait(min(DRAIN_SECONDS, until - now))


def hold(consumers: Sequence[Consumer], held: bool) -> None:
    """Let consumers take nothing new from their queues, or go on; what they work on goes on.

    One that has not started yet starts when it may take something.
    """
    for consumer in consumers:
        if not held and not consumer.workers:
            consumer.start()
        for thread in consumer.consumers.values():
            if held != thread.paused:
                thread.pause() if held else thread.resume()


def hold_idle(duties: Sequence[Duty], consumers: Sequence[Consumer], problem: str) -> None:
    """Hold the consumers of duties without a device of their own, and let the others go on.

    With a problem, hold all.
    """
    for duty, consumer in zip(duties, consumers, strict=True):
        hold([consumer], bool(problem) or not _has_device(duty))


@contextmanager
def serving(*duties: Duty, start: bool = True) -> Iterator[list[Consumer]]:
    """Execute messages in threads of this process; the end stops current work.

    The caller must `poll` every `POLL_SECONDS`. Without `start`, its first `hold` that lets them go
    on starts the threads.
    """
    consumers = [_consumer(duty) for duty in duties]
    try:
        for duty, consumer in zip(duties, consumers, strict=True):
            if start:
                consumer.start()
            logger.info("%s is ready", ", ".join(duty.names))
        yield consumers
    finally:
        stopping.set()
        for duty, consumer in zip(duties, consumers, strict=True):
            consumer.stop(timeout=SHUTDOWN_MS)
            for name in duty.names:
                catalog.remove_worker(name, os.getpid())
        if any(duty.hardware for duty in duties):
            device_locks.here.give_back()


class _OneOfSeveral(Consumer):
    """A consumer of queues that are declared before it starts, one of several of a broker.

    Dramatiq's adds a middleware to the broker, which adds queues that are declared later to that
    consumer. It is never removed, so it would do so for a consumer that has been stopped.
    """

    def start(self) -> None:
        before = list(self.broker.middleware)
        super().start()
        self.broker.middleware = before


def _consumer(duty: Duty) -> Consumer:
    for name in duty.queues:
        broker.declare_queue(name)
    consumer = _OneOfSeveral(
        broker,
        queues=set(duty.queues),
        worker_threads=duty.threads,
        worker_timeout=IDLE_POLL_MS,
    )
    consumer.queue_prefetch = duty.threads  # leave to others what we cannot start at once
    return consumer


def poll(*duties: Duty, reap: Callable[[], int] = runs.reap, problem: str = "") -> str:
    """Send heartbeats and reap; any failure is logged, and the next call tries again.

    A worker with a role of its own leaves reaping to those that hold the whole database.

    Returns: why the process takes no work, by default what is wrong with its machine; empty where
    it takes some, be it for one of its devices.
    """
    found = problem or UNKNOWN  # until the database has answered
    reasons: dict[str, str] = {}
    try:
        with database_errors_logged():
            offset = health.clock_offset()
            problem = problem or _problem(duties, offset)
            found = problem or UNKNOWN
            reasons = _hold_devices(duties)
            names = [name for duty in duties for name in duty.names]
            is_idle = all(name in reasons for name in names)
            found = problem or (next(iter(reasons.values()), "") if is_idle else "")
            state = health.state(offset)
            for duty in duties:
                capabilities = _capabilities(duty)
                for name in duty.names:
                    reason = reasons.get(name, "")
                    if reason.startswith(f"{name} "):
                        continue  # the row is that of the other one
                    catalog.heartbeat_worker(
                        name,
                        queues=duty.queues,
                        pid=os.getpid(),
                        hardware=duty.hardware,
                        capabilities=capabilities,
                        problem=problem or reason,
                        state=state,
                    )
            if not is_limited():
                _reap_all(duties, reap)
    except Exception:  # a worker that ends takes along all that it works on
        logger.exception("the reaper failed")
    _log_problem(found or "; ".join(f"{name}: {reason}" for name, reason in reasons.items()))
    return found


def _reap_all(duties: Sequence[Duty], reap: Callable[[], int]) -> None:
    """Do what any worker of the whole database may do: reap, go on with the rest, and alert."""
    if count := reap() + _advance_rest(duties):
        logger.info("reaped or sent again: %s", count)
    artefacts.make_room()
    fleet.forget_silent()
    alerts.watch()
    if not (settings.HEADLESS or any(duty.hardware for duty in duties)):
        from arena.leaderboard import announcements  # without a web server there are no boards

        announcements.watch()  # boards take a core for a moment


def _hold_devices(duties: Sequence[Duty]) -> dict[str, str]:
    """Take the devices of this process, or renew its holds.

    Returns: by the names of workers, why nothing is measured on their devices: another process
    holds it, or it is taken out.
    """
    reasons: dict[str, str] = {}
    measuring = [
        (duty.hardware, *each)
        for duty in duties
        if duty.hardware
        for each in zip(duty.names, duty.devices, strict=True)
    ]
    for hardware, name, device in measuring:
        other, excluded = device_locks.here.hold(name, device, hardware)
        reason = f"{other} measures on this device: one at a time does." if other else excluded
        if reason:
            reasons[name] = reason
        for each in bench.here.get(hardware.slug, ()):
            if each.lock == device:
                each.ours = not reason
    return reasons


def _has_device(duty: Duty) -> bool:
    """Return whether a duty has a device to measure on, or needs none."""
    benches = bench.here.get(duty.hardware.slug, ()) if duty.hardware else ()
    return not benches or any(each.ours for each in benches)


def _problem(duties: Sequence[Duty], offset: timedelta | None) -> str:
    """Return why this machine should take no work; empty if it is fit."""
    found = (
        schema_problem()  # first, since without its tables nothing else can be read
        or fleet.drain_problem([name for duty in duties for name in duty.names])
        or health.clock_problem(offset)
        or health.disk_problem(settings.ARENA_HOME)
        or judge_problem()
    )
    if found or not health.here.breaks:
        return found
    queues = {name for duty in duties for name in duty.queues}
    machines = {machine_of(each.name) for name in queues for each in Worker.objects.serving(name)}
    return health.here.breaks if machines - {socket.gethostname()} else ""


comparisons = Comparisons()
_logged = ""


def compare_devices(duties: Sequence[Duty], comparisons: Comparisons = comparisons) -> None:
    """Start a comparison of a device that this process measures on with others, if one is due."""
    benches = {
        device_locks.key_of(each.lock): each
        for duty in duties
        if duty.hardware
        for each in bench.here.get(duty.hardware.slug, ())
        if each.ours
    }
    if benches:
        with database_errors_logged():
            comparisons.advance(benches)


def _log_problem(problem: str) -> None:
    """Log a problem once, and its end."""
    global _logged
    if problem != _logged:
        logger.warning((problem and f"takes no work: {problem}") or "takes work again")
    _logged = problem


def _advance_rest(duties: Sequence[Duty]) -> int:
    """Go on with what comes after runs: drafts, verdicts, compositions, and reading of traces."""
    if settings.HEADLESS:
        return 0  # an offline GPU box has runs alone
    from arena.contests import entries
    from arena.curation import checks, rejudging
    from arena.notes import scans
    from runners.worker import composing

    count = checks.reap_checks() + rejudging.advance()
    count += entries.request_finals()
    scans.advance()  # a routine, which no log tells of
    return count + composing.advance(each.hardware for each in duties if each.hardware)


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
