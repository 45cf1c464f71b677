"""Speed against GPU memory of the kernels of a task: those that none beats in both."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from arena.catalog.models import Hardware, TaskVersion
from arena.leaderboard.pareto import pareto_front
from arena.runs.models import Run
from arena.runs.states import RunStatus

MAX_POINTS = 100
"""Kernels of a task on one device that are drawn, the fastest ones."""


@dataclass(frozen=True)
class MemoryPoint:
    """The kernel of a run, its most GPU memory in bytes, and that of its baseline."""

    run: Run
    memory: int
    baseline: int | None
    best: bool
    """No other kernel takes at most as much and is at least as fast, by the lower ends."""


@dataclass(frozen=True)
class MemoryFrontier:
    """The kernels of a task on one device, those with the least memory first."""

    device: Hardware
    points: list[MemoryPoint]

    @property
    def best(self) -> list[MemoryPoint]:
        return [point for point in self.points if point.best]

    @property
    def baseline(self) -> int | None:
        """Return the baseline's memory in the fastest kernel's verdict."""
        fastest = max(self.points, key=lambda point: point.run.unseen_low or 0.0)
        return fastest.baseline


def memory_frontiers(version: TaskVersion) -> list[MemoryFrontier]:
    """Return speed and memory of the public kernels of a task, by device; agents' and users'."""
    public = Run.objects.public().without_quarantined()
    passed = public.filter(task_version=version, status=RunStatus.PASSED)
    measured = {"peak_memory__isnull": False}
    known = passed.exclude(unseen_low=None).with_peak_memory().filter(**measured)
    by_device: dict[Hardware, list[Any]] = {}
    for run in known.with_names().order_by("hardware__slug", "-unseen_low", "pk"):
        by_device.setdefault(run.hardware, []).append(run)
    return [
        MemoryFrontier(device, points_of(runs[:MAX_POINTS])) for device, runs in by_device.items()
    ]


def points_of(runs: Iterable[Any]) -> list[MemoryPoint]:
    """Return the points of runs, which have the columns of `with_peak_memory`."""
    front = pareto_front(runs, lambda run: (run.peak_memory, run.unseen_low))
    return [MemoryPoint(run, run.peak_memory, run.baseline_memory, best) for run, best in front]
