"""The fleet: workers that staff drain, and those that are gone for long."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Now

from arena.accounts.models import User
from arena.audit.services import record
from arena.catalog.workers import Worker, WorkerQuerySet

FORGET = timedelta(days=1)
"""Time after which a silent worker is forgotten."""
COMMAND_LINE = "the command line"
CORES = "cores-"
"""Beginning of the name of a CPU as a device."""


def is_known(machine: str) -> bool:
    """Return whether a worker of this machine has a row."""
    return bool(Worker.objects.on(machine).exists())


def drain(machine: str, by: User | None = None) -> int:
    """Let the workers of a machine take nothing new, also after a restart; return their number."""
    return _set(machine, by.get_username() if by else COMMAND_LINE, by)


def resume(machine: str, by: User | None = None) -> int:
    """Let drained workers of a machine take work again; return their number."""
    return _set(machine, "", by)


def _set(machine: str, drained_by: str, by: User | None) -> int:
    workers = Worker.objects.on(machine)
    changed = workers.filter(drained_by="") if drained_by else workers.exclude(drained_by="")
    with transaction.atomic():
        count: int = changed.update(drained_by=drained_by)
        if by is not None and count:
            record(by, "machine.drain" if drained_by else "machine.resume", machine)
    return count


def unaware(machine: str, since: datetime) -> WorkerQuerySet:
    """Return the live workers of a machine that have not said since then that they take no work."""
    workers: WorkerQuerySet = Worker.objects.live().on(machine)
    return workers.filter(Q(problem="") | Q(last_seen_at__lte=since))


def drain_problem(names: Collection[str]) -> str:
    """Return who drained one of these workers; empty where nobody did."""
    drained = Worker.objects.filter(name__in=names).exclude(drained_by="")
    by = drained.values_list("drained_by", flat=True).first()
    return f"It is drained by {by}: it takes nothing new." if by else ""


def rival_of(name: str, pid: int) -> Worker | None:
    """Return the live worker that measures on the device of this one, as another process; or None.

    The cores are those of a machine, whatever the folders of its workers. A GPU is known by its
    UUID, whatever its container calls the machine.
    """
    machine, queue, *device = name.split("/")
    others = Worker.objects.live().exclude(hardware=None).exclude(name=name, pid=pid)
    if device and not device[0].startswith(CORES):
        others = others.filter(name__endswith=f"/{queue}/{device[0]}")
    else:
        others = others.filter(name__startswith=f"{machine}/{queue}")
    found: Worker | None = others.first()
    return found


def forget_silent() -> int:
    """Delete workers that have been silent for long and are not drained; return their number."""
    silent = Worker.objects.filter(last_seen_at__lt=Now() - FORGET, drained_by="")
    count: int = silent.delete()[0]
    return count
