"""Devices: which process measures on each, and how fast it was beside others of its model.

One process at a time holds a device, by a conditional update of its row. All times are those of
the database's clock.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Self

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from arena.catalog.workers import WORKER_TIMEOUT

COMPARED_EACH = timedelta(days=1)
"""Time after which a device judges the common task again."""
COMPARED_WITHIN = timedelta(days=3)
"""Age at which a comparison says nothing of a device any more."""
RETRIED_EACH = timedelta(hours=1)
"""Time between two attempts at a comparison that had no result."""
MAX_DEVIATION = 0.03
"""Share by which a device may differ from the median of its model."""
MIN_COMPARED = 3
"""Devices of a model below which the median does not say which of them is wrong."""


class DeviceQuerySet(models.QuerySet["Device"]):
    def free_for(self, token: str) -> Self:
        """Return the devices that nobody holds, or whose holder is silent or has this token."""
        silent = Q(held_at=None) | Q(held_at__lt=Now() - WORKER_TIMEOUT)
        return self.filter(silent | Q(token="") | Q(token=token))

    def on(self, machine: str) -> Self:
        """Return the devices that a worker of this machine holds, or held last."""
        return self.filter(worker__startswith=f"{machine}/")

    def compared(self) -> Self:
        """Return the devices with a comparison that says something of them now."""
        return self.filter(compared_at__gt=Now() - COMPARED_WITHIN)

    def due(self) -> Self:
        """Return the devices that are to judge the common task, among others of their model.

        The only device of a model has none to be compared with.
        """
        early = Q(compared_at=None) | Q(compared_at__lt=Now() - COMPARED_EACH)
        waits = Q(tried_at=None) | Q(tried_at__lt=Now() - RETRIED_EACH)
        held = Device.objects.filter(held_at__gt=Now() - COMPARED_WITHIN).exclude(token="")
        others = held.filter(hardware=models.OuterRef("hardware")).exclude(pk=models.OuterRef("pk"))
        return self.filter(early & waits, models.Exists(others), excluded="")


class Device(models.Model):
    """A GPU, or the cores of a machine, on which workers measure."""

    key = models.CharField(max_length=100, unique=True)
    """UUID of a GPU, or the id of a machine: its containers share the cores."""
    hardware = models.ForeignKey("catalog.Hardware", models.CASCADE, related_name="devices")
    worker = models.CharField(max_length=200, blank=True)
    """Name of the worker that holds it, or held it last."""
    pid = models.PositiveIntegerField(null=True, blank=True)
    token = models.CharField(max_length=32, blank=True)
    """Random text in the lock file of its holder; empty once that gave the device back.

    A process that can lock the same file takes over this text, and need not wait for its silence.
    """
    held_at = models.DateTimeField(null=True, blank=True)
    """Last heartbeat of its holder; None before the first."""
    measure = models.CharField(max_length=200, blank=True)
    """Version of the common task and of the judge: only equal ones are compared."""
    latency_us = models.FloatField(null=True, blank=True)
    """Geometric mean of the reference's latencies over the cases of the common task."""
    tried_at = models.DateTimeField(null=True, blank=True)
    """Start of its last comparison."""
    compared_at = models.DateTimeField(null=True, blank=True)
    """End of its last comparison that had a result."""
    excluded = models.CharField(max_length=300, blank=True)
    """Reason for taking no work: it was too far from the median of its model."""

    objects = DeviceQuerySet.as_manager()

    class Meta:
        ordering = ["hardware__slug", "key"]

    def __str__(self) -> str:
        return self.key

    @property
    def holder(self) -> str:
        """Return the worker that holds it, with its process."""
        return f"{self.worker} (process {self.pid})"


@dataclass(frozen=True)
class Deviation:
    """Share by which a device is slower than the median of `count` devices of its model."""

    share: float
    count: int

    @property
    def is_excessive(self) -> bool:
        return self.count >= MIN_COMPARED and abs(self.share) > MAX_DEVIATION

    def __str__(self) -> str:
        side = "slower" if self.share > 0 else "faster"
        return f"{abs(self.share):.1%} {side} than the median of {self.count} devices"


def hold(key: str, hardware: Any, worker: str, pid: int, token: str) -> Device:
    """Take a device for a process, or renew its hold; return the row.

    Another token in it is that of the process which holds the device instead.
    """
    values = {"hardware": hardware, "worker": worker, "pid": pid, "token": token, "held_at": Now()}
    rows = Device.objects.filter(key=key)
    if not rows.free_for(token).update(**values):
        Device.objects.get_or_create(key=key, defaults={"hardware": hardware})
        rows.free_for(token).update(**values)
    return rows.get()


def give_back(key: str, token: str) -> None:
    """End the hold of a process that shuts down."""
    Device.objects.filter(key=key, token=token).update(token="", pid=None)


def store_comparison(device: Device, measure: str, latency_us: float) -> Deviation:
    """Store how fast a device was, and return how far it is from the median of its model."""
    values = {"measure": measure, "latency_us": latency_us, "compared_at": Now()}
    Device.objects.filter(pk=device.pk).update(**values)
    alike = Device.objects.compared().filter(hardware=device.hardware_id, measure=measure)
    found = alike.values_list("latency_us", flat=True)
    return deviation(latency_us, [each for each in found if each is not None])


def deviation(latency_us: float, latencies: Sequence[float]) -> Deviation:
    """Return how far a latency is from the median of several, its own among them."""
    return Deviation(latency_us / statistics.median(latencies) - 1, len(latencies))


def deviations() -> dict[int, Deviation]:
    """Return how far each device with a comparison is from the median, by its id."""
    alike: dict[tuple[int, str], dict[int, float]] = {}
    for each in Device.objects.compared():
        if each.latency_us is not None:
            alike.setdefault((each.hardware_id, each.measure), {})[each.pk] = each.latency_us
    return {
        pk: deviation(latency_us, list(group.values()))
        for group in alike.values()
        for pk, latency_us in group.items()
    }


def exclude(device: Device, found: Deviation, task: str) -> None:
    """Take a device out until `fleet.resume`."""
    text = f"It is taken out: on {task} it is {found} of its model."
    Device.objects.filter(pk=device.pk).update(excluded=text)
