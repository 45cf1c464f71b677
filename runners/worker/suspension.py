"""Suspension of an agent while kernels are measured on the cores that it shares with them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from evaluation.bench.process.freezer import Freezer
from runners.session.control_socket import TimeBudget

POLL_SECONDS = 0.1
MAX_STOP_SECONDS = 1.0


class Suspension:
    """Suspends all processes below one while `measuring()`, and stops the clock of their time.

    So an agent neither disturbs the verdicts of others nor pays for them, and what it leaves at
    work cannot make its own rounds inconclusive.
    """

    def __init__(self, pid: int, clock: TimeBudget, measuring: Callable[[], bool]) -> None:
        self._freezer, self._clock, self._measuring = Freezer(pid), clock, measuring
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
        try:
            while self._measuring() and not self._over.is_set():
                self._freezer.wait_suspended(MAX_STOP_SECONDS)  # what started since, too
                self._over.wait(POLL_SECONDS)
        finally:
            self._freezer.resume()
