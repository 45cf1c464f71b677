"""The clock starts and stops around one window."""

from __future__ import annotations

import time

from evaluation.bench.timing.clock import WindowClock


def test_window_clock_restarted_returns_nanoseconds_of_the_last_window() -> None:
    clock = WindowClock()
    for _ in range(2):
        before = time.perf_counter_ns()  # waits: bounds of the same time
        clock.start()
        begun = time.perf_counter_ns()  # waits: as above
        ended = time.perf_counter_ns()  # waits: as above
        found = clock.stop()
        after = time.perf_counter_ns()  # waits: as above
        assert ended - begun <= found <= after - before
