"""Computes statistics outside requests, and keeps them until results change.

Every set of filters has its statistics. A request gets those that are there, perhaps of an earlier
state of the results, and starts a computation where they are missing or old. One runs at a time.
"""

from __future__ import annotations

import logging
import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from arena.leaderboard.analysis.statistics import Sample, Statistics

log = logging.getLogger(__name__)

ROOT = Path(__file__).resolve().parents[3]
COMMAND = (sys.executable, "-m", "arena.leaderboard.analysis")
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
"""The matrices are small: threads of the linear algebra would wait for each other."""
MAX_SECONDS = 120
MIN_AGE_SECONDS = 30
"""Statistics are not computed more often, however fast the results change."""
THREAD = "statistics"
"""Name of the threads that wait for a computation."""
MAX_WAITING = 8
MAX_KEPT = 64


@dataclass(frozen=True)
class Kept:
    """Statistics of one state of the results; None if they could not be computed."""

    state: Hashable
    found: Statistics | None
    at: float


@dataclass(frozen=True)
class Answer:
    """The statistics known now. `current` is false while a newer result waits to be counted.

    Without statistics, `failed` says that they cannot be computed, else they are on their way.
    """

    found: Statistics | None
    current: bool
    failed: bool
    age_seconds: float


def computed_apart(
    sample: Sample, command: Sequence[str] = COMMAND, max_seconds: float = MAX_SECONDS
) -> Statistics:
    """Compute the statistics in a process of their own.

    Raises: subprocess.SubprocessError if that fails or takes too long.
    """
    done = subprocess.run(
        command,
        input=pickle.dumps(sample),
        stdout=subprocess.PIPE,
        env={**os.environ, **ONE_THREAD},
        cwd=ROOT,
        timeout=max_seconds,
        check=True,
    )
    found: Statistics = pickle.loads(done.stdout)
    return found


@dataclass
class Background:
    """The statistics that this process keeps, by filters, and the filters that wait for theirs.

    `now` is a monotonic clock.
    """

    compute: Callable[[Sample], Statistics] = computed_apart
    now: Callable[[], float] = time.monotonic
    kept: dict[Hashable, Kept] = field(default_factory=dict)
    waiting: set[Hashable] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)
    one_at_a_time: threading.Lock = field(default_factory=threading.Lock)

    def ask(self, filters: Hashable, state: Hashable, sample: Callable[[], Sample]) -> Answer:
        """Return the statistics of these filters at this state of the results, or older ones.

        If a computation begins, `sample` is called to read the runs, in this thread.
        """
        with self.lock:
            known = self.kept.get(filters)
            age = self.now() - known.at if known else 0.0
            current = known is not None and known.state == state
            due = not (current and known and known.found)
            start = (
                due
                and (known is None or age >= MIN_AGE_SECONDS)
                and filters not in self.waiting
                and len(self.waiting) < MAX_WAITING
            )
            if start:
                self.waiting.add(filters)
        if start:
            try:
                arguments = (filters, state, sample())
            except BaseException:
                with self.lock:
                    self.waiting.discard(filters)  # so that the next request begins anew
                raise
            threading.Thread(None, self._compute, THREAD, arguments, daemon=True).start()
        found = known.found if known else None
        return Answer(found, current, known is not None and found is None, age)

    def _compute(self, filters: Hashable, state: Hashable, sample: Sample) -> None:
        found = None
        try:
            with self.one_at_a_time:
                found = self.compute(sample)
        except (OSError, subprocess.SubprocessError, pickle.UnpicklingError):
            log.exception("The statistics of the analysis page could not be computed.")
        finally:
            with self.lock:
                self.waiting.discard(filters)
                self.kept.pop(filters, None)
                self.kept[filters] = Kept(state, found, self.now())
                while len(self.kept) > MAX_KEPT:
                    self.kept.pop(next(iter(self.kept)))


_background = Background()


def ask(filters: Hashable, state: Hashable, sample: Callable[[], Sample]) -> Answer:
    """Return what this process knows; see `Background.ask`."""
    return _background.ask(filters, state, sample)


def forget() -> None:
    """Drop what this process keeps, for a database that was replaced."""
    global _background
    _background = Background()
