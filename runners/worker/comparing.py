"""Comparison of the devices of a model: each judges one common task daily.

What is timed is the task's own reference, so a device that differs from the others does so by its
clocks, its cooling or its machine. One that is too far from their median, twice in a row, is taken
out until staff put it back.
"""

from __future__ import annotations

import logging
import math
import statistics
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from django.conf import settings
from django.db import connection
from django.db.models.functions import Now

from arena.catalog import devices
from arena.catalog.devices import Device
from arena.catalog.models import Task, TaskVersion
from arena.catalog.task_folders import root_of
from arena.runs.services.runs import kinds_of
from arena.runs.states import Scope
from evaluation import JUDGE_VERSION
from evaluation.types import Split, Verdict
from runners.worker.actors import current
from runners.worker.bench import Bench, taken
from runners.worker.judging import MEASURE, JudgeBroke, Judging, request_of

logger = logging.getLogger(__name__)

POLL_SECONDS = 60.0
"""Interval at which a worker polls for a comparison that is due."""


def in_thread(call: Callable[[], None]) -> None:
    """Call in a thread, for whose end a worker that drains waits."""

    def run() -> None:
        try:
            with current.one_more():
                call()
        except Exception:
            logger.exception("a device was not compared")
        finally:
            connection.close()  # that of the thread

    threading.Thread(target=run, name="comparison").start()


class Comparisons:
    """Comparisons that a worker starts for its devices, one at a time."""

    def __init__(self, start: Callable[[Callable[[], None]], None] = in_thread) -> None:
        self._start = start
        self._polled_at = -math.inf

    def advance(self, benches: Mapping[str, Bench]) -> bool:
        """Start a comparison that is due; return whether one was.

        `benches` has the benches of this process, by the keys of their devices.
        """
        if not settings.COMPARED_TASK or time.monotonic() - self._polled_at < POLL_SECONDS:
            return False
        self._polled_at = time.monotonic()
        due = Device.objects.due().filter(key__in=list(benches)).select_related("hardware").first()
        version = common_version(due.hardware.kind) if due else None
        if due is None or version is None:
            return False
        if not Device.objects.due().filter(pk=due.pk).update(tried_at=Now()):
            return False
        self._start(lambda: compare(due, version, benches[due.key]))
        return True


def common_version(kind: str) -> TaskVersion | None:
    """Return the version of the common task; None where that is not there for a kind of device."""
    task = Task.objects.runnable().by_slug(settings.COMPARED_TASK).first()
    return task.version if task and kind in kinds_of(task) else None


def compare(
    device: Device,
    version: TaskVersion,
    bench: Bench,
    measure: Callable[[Device, TaskVersion, Bench], float | None] | None = None,
) -> None:
    """Judge the common task on a device, and take it out where it differs twice in a row.

    A result that is noisy or did not pass counts for nothing, and another is tried after an hour.
    """
    measure = measure or latency_of
    name = f"{version.task.slug}@{version.content_hash[:12]} judge {JUDGE_VERSION}"
    for is_last in (False, True):
        found = measure(device, version, bench)
        if found is None:
            return
        apart = devices.store_comparison(device, name, found)
        logger.info("%s: %s", device, apart)
        if not apart.is_excessive:
            return
        if is_last:
            devices.exclude(device, apart, version.task.slug)


def latency_of(device: Device, version: TaskVersion, bench: Bench) -> float | None:
    """Return the latency of the common task's reference in microseconds; None without a result."""
    with taken([bench]) as free:
        if free is None:
            return None
        work = Judging(
            f"comparison of {device}", device.hardware, MEASURE, bench, _request(version)
        )
        try:
            report = work.carry_out()
        except JudgeBroke as error:
            logger.warning("%s: %s", work.name, error)
            return None
    return latency_in(report or {})


def latency_in(report: Mapping[str, Any]) -> float | None:
    """Return the geometric mean of a report's latencies over the seen cases; None if noisy."""
    if report.get("verdict") != Verdict.PASSED or report.get("noisy"):
        return None
    measured = [
        each["candidate_us"]
        for gate in report["gates"]
        for each in gate["measurements"]
        if each["split"] == Split.SEEN
    ]
    return statistics.geometric_mean(measured) if measured else None


def _request(version: TaskVersion) -> dict[str, Any]:
    """Return the request to judge the starter of a task, which is its reference."""
    target = version.public["target_file"]
    files = {target: version.public["starter"][target]}
    return request_of(version.task.slug, root_of(version), files, Scope.ROUND)
