"""Draining of this machine: its workers take nothing new, and what they hold ends."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable

from django.apps import apps

from arena.catalog import fleet
from arena.leases import Leased, database_time

POLL_SECONDS = 2.0


def held_here() -> int:
    """Return the number of rows that workers of this machine hold."""
    models = [model for model in apps.get_models() if issubclass(model, Leased)]
    machine = socket.gethostname()
    rows = (model._default_manager.held_on(machine) for model in models)  # type: ignore[attr-defined]
    return sum(each.count() for each in rows)


def drain(pause: Callable[[float], object] = time.sleep) -> int:
    """Drain this machine, and return 0 once its workers hold nothing; 1 where it has no workers.

    A worker reads at a heartbeat that it is drained, and holds its queues before the next one. So
    what it holds counts after two heartbeats; a worker that falls silent is not waited for.

    They stay drained, also after a restart, until `resume`. An interrupt ends the wait alone.
    """
    machine = socket.gethostname()
    if not fleet.is_known(machine):
        print(f"worker: no worker of {machine} is known")
        return 1
    fleet.drain(machine)
    for _ in range(2):
        since = database_time()
        while count := fleet.unaware(machine, since).count():
            print(f"worker: {count} workers of {machine} are to read that they drain", flush=True)
            pause(POLL_SECONDS)
    while count := held_here():
        print(f"worker: {machine} takes nothing new, and finishes {count}", flush=True)
        pause(POLL_SECONDS)
    print(f"worker: {machine} is drained")
    return 0


def resume() -> int:
    """Let the workers of this machine take work again."""
    machine = socket.gethostname()
    print(f"worker: {fleet.resume(machine)} workers of {machine} take work again")
    return 0
