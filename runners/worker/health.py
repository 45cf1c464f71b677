"""Health of a worker's machine: why it is not fit to take work, as a sentence for its page."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

from django.conf import settings
from django.utils import timezone

from arena.catalog.checkouts import commit, migrations
from arena.catalog.services import MAX_PROBLEM
from arena.catalog.workers import MachineState
from arena.leases import database_time
from evaluation import JUDGE_VERSION

MAX_OFFSET = timedelta(seconds=2)
"""Difference from the database's clock beyond which a machine's times are wrong."""
MIN_FREE_BYTES = 256 << 20
"""Free space that a build, a workspace and a trace need."""
MAX_BROKEN = 3
"""Evaluations in a row that broke here, after which others take the work."""


class Health:
    """State of a machine, as its process sees it. Threads that judge report; the loop asks."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._broken: dict[int, str] = {}
        self.last_error = ""

    def judged(self) -> None:
        """Note that an evaluation was judged."""
        with self._lock:
            self._broken.clear()

    def broke(self, evaluation_id: int, reason: str) -> None:
        """Note that an evaluation broke by a fault of the judge or of its machine."""
        with self._lock:
            self._broken[evaluation_id] = reason
            self.last_error = reason

    @property
    def breaks(self) -> str:
        """Return why this machine should leave evaluations to others; empty if it need not."""
        with self._lock:
            reasons = list(self._broken.values())
        if len(reasons) < MAX_BROKEN:
            return ""
        return f"The last {len(reasons)} evaluations broke here, the last one so: {reasons[-1]}"


here = Health()
"""Of this process."""


def clock_offset(
    database: Callable[[], datetime] = database_time,
    machine: Callable[[], datetime] = timezone.now,
) -> timedelta | None:
    """Return by how much this machine is ahead of the database; None for a slow answer."""
    before = machine()
    found = database()
    after = machine()
    if after - before > MAX_OFFSET:  # the answer took too long to compare
        return None
    return before + (after - before) / 2 - found


def clock_problem(offset: timedelta | None) -> str:
    """Return by how much the clock of this machine is off, if that is too much."""
    if offset is None or abs(offset) <= MAX_OFFSET:
        return ""
    side = "ahead of" if offset > timedelta() else "behind"
    seconds = abs(offset).total_seconds()
    return f"Its clock is {seconds:.0f} s {side} the database's: synchronise it, by NTP."


def free_bytes(folder: Path) -> int:
    return shutil.disk_usage(folder).free


def disk_problem(folder: Path, free: Callable[[Path], int] = free_bytes) -> str:
    """Return that the disk of a folder is full, if it nearly is."""
    left = free(folder)
    if left >= MIN_FREE_BYTES:
        return ""
    return f"{left >> 20} MiB are free in {folder}, and work needs {MIN_FREE_BYTES >> 20}."


def state(offset: timedelta | None) -> MachineState:
    """Return what this process says of its machine."""
    return MachineState(
        commit=commit(),
        judge_version=JUDGE_VERSION,
        migrations=migrations(),
        clock_offset=None if offset is None else offset.total_seconds(),
        free_bytes=free_bytes(settings.ARENA_HOME),
        last_error=here.last_error[:MAX_PROBLEM],
    )
