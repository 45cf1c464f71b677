"""Suspension of an agent while kernels are measured on the cores that it shares with them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from evaluation.bench.process.freezer import Freezer
from runners.session.control_socket import TimeBudget

POLL_SECONDS = 0.1
MAX_STOP_SECONDS = 1.0
VFORK_SECONDS = 0.02
"""Time for a child of vfork to start a program, until when its parent cannot be stopped."""
MAX_AWAKE_SECONDS = 2.0
"""Processor time that an agent may use in all its suspensions, once each has begun. Timers can wake
a process, and a thread that waits for a child of vfork stops no other one.
"""


class Suspension:
    """Suspends all processes below one while `measuring()`, and stops the clock of their time.

    So an agent neither disturbs the verdicts of others nor pays for them, and what it leaves at
    work cannot make its own rounds inconclusive. `end` is called for one that goes on.
    """

    def __init__(
        self,
        pid: int,
        clock: TimeBudget,
        measuring: Callable[[], bool],
        end: Callable[[], None] = lambda: None,
    ) -> None:
        self._freezer, self._clock, self._measuring = Freezer(pid), clock, measuring
        self._end = end
        self.awake_seconds = 0.0
        """Processor time that it used while it was suspended."""
        self._over = threading.Event()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Suspend and resume in a thread of its own; at the end the processes are resumed."""
        thread = threading.Thread(target=self._watch, name="suspension")
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join()

    def _watch(self) -> None:
        while not self._over.wait(POLL_SECONDS):
            if self._measuring():
                with self._clock.paused():
                    self._suspend()

    def _suspend(self) -> None:
        """Keep the processes suspended until nothing is measured any more."""
        before: Mapping[int, int] | None = None
        try:
            while self._measuring() and not self._over.is_set():
                stopped = self._freezer.wait_suspended(MAX_STOP_SECONDS)  # what started since, too
                if before is None and not stopped:  # once: a parent waits for its child of vfork
                    self._freezer.resume()
                    self._over.wait(VFORK_SECONDS)
                    self._freezer.wait_suspended(MAX_STOP_SECONDS)
                times = self._freezer.cpu_times()
                if before is not None:
                    self._count(times, before)
                before = times
                self._over.wait(POLL_SECONDS)
        finally:
            self._freezer.resume()

    def _count(self, times: Mapping[int, int], before: Mapping[int, int]) -> None:
        """Count the processor time used between two looks at suspended processes."""
        allowed = self.awake_seconds <= MAX_AWAKE_SECONDS
        used = (max(0, ns - before.get(pid, 0)) for pid, ns in times.items())
        self.awake_seconds += sum(used) / 1e9
        if allowed and self.awake_seconds > MAX_AWAKE_SECONDS:
            self._end()
