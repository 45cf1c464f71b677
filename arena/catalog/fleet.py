"""The fleet: workers that staff drain, and those that are gone for long."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Now

from arena.accounts.models import User
from arena.audit.services import record
from arena.catalog.devices import Device
from arena.catalog.workers import Worker, WorkerQuerySet

FORGET = timedelta(days=1)
"""Time after which a silent worker is forgotten."""
FORGET_DEVICE = timedelta(days=30)
"""Time after which a device on which nobody measures is forgotten."""
COMMAND_LINE = "the command line"


def is_known(machine: str) -> bool:
    """Return whether a worker of this machine has a row."""
    return bool(Worker.objects.on(machine).exists())


def drain(machine: str, by: User | None = None) -> int:
    """Let the workers of a machine take nothing new, also after a restart; return their number."""
    return _set(machine, by.get_username() if by else COMMAND_LINE, by)


def resume(machine: str, by: User | None = None) -> int:
    """Let drained workers and devices that were taken out work again; return their number."""
    with transaction.atomic():
        back = Device.objects.on(machine).exclude(excluded="").update(excluded="")
        if back and by is not None:
            record(by, "device.include", machine)
        return _set(machine, "", by) + back


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


def forget_silent() -> int:
    """Delete workers and devices that are gone for long; return the number of workers.

    What was drained or taken out stays so.
    """
    silent = Worker.objects.filter(last_seen_at__lt=Now() - FORGET, drained_by="")
    count: int = silent.delete()[0]
    Device.objects.filter(held_at__lt=Now() - FORGET_DEVICE, excluded="").delete()
    return count
