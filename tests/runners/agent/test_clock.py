"""An agent's time runs while it works and stands still while it waits for a verdict."""

from __future__ import annotations

import math
import time

from runners.agent.clock import Clock


def test_time_runs_out_after_the_seconds_given() -> None:
    assert 4.9 < Clock(5).deadline() - time.monotonic() <= 5


def test_there_is_no_deadline_while_paused_and_the_wait_is_given_back() -> None:
    clock = Clock(5)
    before = clock.deadline()
    with clock.paused():
        time.sleep(0.2)
        assert clock.deadline() == math.inf
    assert 0.2 <= clock.deadline() - before < 1
