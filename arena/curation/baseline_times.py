"""Times of baselines on one device over time, from stored measurements, and which have drifted.

A baseline is measured anew beside each candidate, so its times show changes of the machine, of its
software and of the judge. A point is one evaluation: the geomean of the times of a baseline over
the seen cases of a task version.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from statistics import median

from django.db.models import Avg, Count, Q
from django.db.models.functions import Coalesce, Ln

from arena.catalog.models import Hardware, Task, TaskVersion
from arena.runs.models import Measurement
from arena.runs.states import EvaluationStatus
from evaluation.types import Split

MAX_DRIFT = 0.02
"""Difference of the newest time from the median from which a baseline is flagged."""
MIN_POINTS = 3
"""Points without which no median can be compared with."""
WIDTH, HEIGHT = 120, 24
RUN_VERSION = "evaluation__submission__run__task_version"


@dataclass(frozen=True)
class Point:
    """The geomean of one evaluation in microseconds; `noisy` if a case was."""

    at: datetime
    judge_version: str
    us: float
    noisy: bool


@dataclass(frozen=True)
class Series:
    """The points of one baseline of a task version on a device, oldest first."""

    version: TaskVersion
    baseline: str
    points: list[Point]

    @property
    def median_us(self) -> float:
        return median(point.us for point in self.points)

    @property
    def newest(self) -> Point:
        return self.points[-1]

    @property
    def drift(self) -> float | None:
        """Return the relative difference of the newest time from the median; None for too few."""
        if len(self.points) < MIN_POINTS:
            return None
        return self.newest.us / self.median_us - 1

    @property
    def drifted(self) -> bool:
        return self.drift is not None and abs(self.drift) > MAX_DRIFT

    @property
    def by_judge(self) -> list[tuple[str, float, int]]:
        """Return each judge version with its median and number of points, oldest first."""
        of_judge: dict[str, list[float]] = {}
        for point in self.points:
            of_judge.setdefault(point.judge_version, []).append(point.us)
        return [(judge, median(times), len(times)) for judge, times in of_judge.items()]

    @property
    def line(self) -> str:
        """Return the points as an SVG polyline; the middle of its height is the median."""
        times = [point.us / self.median_us - 1 for point in self.points]
        reach = max(MAX_DRIFT * 1.5, *map(abs, times))
        step = WIDTH / max(1, len(times) - 1)
        return " ".join(
            f"{number * step:.1f},{HEIGHT / 2 * (1 - 0.9 * each / reach):.1f}"
            for number, each in enumerate(times)
        )


def baseline_times(hardware: Hardware, tasks: Collection[Task]) -> list[Series]:
    """Return the series of the newest version of these tasks, in their order."""
    versions = {task.version.pk: task.version for task in tasks if task.version}
    found: dict[tuple[int, str], list[tuple[int, Point]]] = {}
    rows = (
        Measurement.objects.filter(
            split=Split.SEEN,
            evaluation__hardware=hardware,
            evaluation__status=EvaluationStatus.DONE,
            baseline_us__gt=0,
        )
        .annotate(version=Coalesce("evaluation__task_version", RUN_VERSION))
        .filter(version__in=versions)
        .values("version", "baseline", "evaluation")
        .annotate(
            log=Avg(Ln("baseline_us")),
            cases=Count("pk"),
            noisy_cases=Count("pk", filter=Q(noisy=True)),
        )
        .order_by("evaluation__ended_at", "evaluation")
        .values_list(
            "version", "baseline", "log", "cases", "noisy_cases",
            "evaluation__ended_at", "evaluation__judge_version",
        )
    )  # fmt: skip
    for version, baseline, log, cases, noisy, at, judge in rows:
        assert at is not None  # of an evaluation that is done
        point = Point(at, judge, math.exp(log), noisy > 0)
        found.setdefault((version, baseline), []).append((cases, point))
    series = [
        Series(versions[version], baseline, _whole(points))
        for (version, baseline), points in found.items()
    ]
    order = {pk: place for place, pk in enumerate(versions)}
    return sorted(series, key=lambda each: (order[each.version.pk], each.baseline))


def _whole(points: list[tuple[int, Point]]) -> list[Point]:
    """Return the points of evaluations that measured every case."""
    most = max(cases for cases, _ in points)
    return [point for cases, point in points if cases == most]


def measured_devices() -> list[Hardware]:
    """Return the devices that any run was judged on."""
    return list(Hardware.objects.exclude(evaluations=None).distinct().order_by("name"))


def measured_tasks(hardware: Hardware) -> list[Task]:
    """Return the tasks that a device was measured on, by their slugs, with their versions."""
    pks = hardware.runs.order_by().values_list("task_version__task", flat=True).distinct()
    tasks = Task.objects.filter(pk__in=list(pks)).select_related("operator")
    return list(tasks.prefetch_related("versions").order_by("operator__slug", "track"))
