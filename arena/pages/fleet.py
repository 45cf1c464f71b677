"""The fleet page for staff: machines with their workers and state, and a button to drain one."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import Any

from django.contrib import messages
from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST, require_safe

from arena import queue
from arena.accounts.access import only_staff
from arena.accounts.auth import signed_in
from arena.catalog import fleet
from arena.catalog.devices import Deviation, Device, deviations
from arena.catalog.models import Hardware, Worker
from arena.leases import machine_of
from arena.runs.models import Evaluation, Run
from arena.runs.states import EvaluationStatus, RunStatus

MACHINES_A_PAGE = 50
REFUSAL = "Only staff see the fleet."


@dataclass(frozen=True)
class Shown:
    """A device, and how far it is from others of its model; None where it was not compared."""

    device: Device
    deviation: Deviation | None


@dataclass(frozen=True)
class Machine:
    """A machine with its workers, that which was seen last first, and its devices."""

    name: str
    workers: tuple[Worker, ...]
    devices: tuple[Shown, ...] = ()

    @property
    def newest(self) -> Worker:
        return self.workers[0]

    @property
    def errors(self) -> list[str]:
        """Return the last errors of its workers, without repeats."""
        return sorted({each.last_error for each in self.workers if each.last_error})

    @property
    def is_out(self) -> bool:
        """Return whether staff drained it, or one of its devices was taken out."""
        drained = any(each.drained_by for each in self.workers)
        return drained or any(each.device.excluded for each in self.devices)


@dataclass(frozen=True)
class Line:
    """A queue: messages in it, rows that wait for its workers, and the workers that take them."""

    name: str
    messages: int
    waiting: int
    workers: int


@only_staff(REFUSAL)
@require_safe
def machines(request: HttpRequest) -> HttpResponse:
    workers = Worker.objects.select_related("hardware").order_by("name")
    devices = _devices()
    found = [
        Machine(
            name,
            tuple(sorted(group, key=lambda w: w.last_seen_at, reverse=True)),
            tuple(devices.get(name, ())),
        )
        for name, group in groupby(workers, key=lambda worker: worker.machine)
    ]
    page = Paginator(found, MACHINES_A_PAGE).get_page(request.GET.get("page"))
    return render(request, "fleet.html", {"page": page, "queues": _lines()})


def _devices() -> dict[str, list[Shown]]:
    """Return the devices of each machine that workers hold, or held last."""
    found: dict[str, list[Shown]] = {}
    apart = deviations()
    for device in Device.objects.select_related("hardware"):
        found.setdefault(machine_of(device.worker), []).append(Shown(device, apart.get(device.pk)))
    return found


def _lines() -> list[Line]:
    waiting: dict[str, QuerySet[Any]] = {
        queue.AGENTS: Run.objects.filter(status=RunStatus.QUEUED),
        queue.BUILD: Evaluation.objects.filter(status=EvaluationStatus.QUEUED),
    }
    built = Evaluation.objects.filter(status=EvaluationStatus.BUILT)
    for hardware in Hardware.objects.all():
        waiting[hardware.queue] = built.filter(hardware=hardware)
    return [
        Line(name, queue.length(name), rows.count(), len(Worker.objects.serving(name)))
        for name, rows in waiting.items()
    ]


@only_staff(REFUSAL)
@require_POST
def drain(request: HttpRequest) -> HttpResponse:
    """Let a machine take nothing new, or with `resume` take work again."""
    machine = request.POST.get("machine", "").replace("\0", "")
    if not fleet.is_known(machine):
        messages.error(request, "No worker of this machine is known.")
    elif "resume" in request.POST:
        fleet.resume(machine, signed_in(request))
        messages.success(request, f"{machine} takes work again within seconds.")
    else:
        fleet.drain(machine, signed_in(request))
        messages.success(request, f"{machine} takes nothing new, and finishes what it has.")
    return redirect("fleet")
