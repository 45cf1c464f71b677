"""The clock starts and stops around one window."""

from __future__ import annotations

import time

from evaluation.timing.clock import WindowClock


def test_window_clock_restarted_returns_nanoseconds_of_the_last_window() -> None:
    clock = WindowClock()
    clock.start()
    time.sleep(0.05)
    assert clock.stop() >= 50_000_000
    clock.start()
    assert 0 <= clock.stop() < 50_000_000
