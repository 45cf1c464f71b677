"""The judge's clock: the only place where the time of a window starts and stops."""

from __future__ import annotations

import time


class WindowClock:
    """Elapsed time of one window, on the judge's monotonic clock."""

    def start(self) -> None:
        self._started = time.perf_counter_ns()

    def stop(self) -> int:
        """Return the nanoseconds since `start`."""
        return time.perf_counter_ns() - self._started
