"""A verdict waits for a quiet machine, in bounded time, and says what it saw."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from evaluation.bench.timing.disturbance import (
    QUIET_SAMPLES,
    SAMPLE_SECONDS,
    Disturbance,
    OtherWork,
    core_times,
)


class Machine:
    """Clock ticks of a machine whose cores are busy for these shares, one after the other."""

    def __init__(self, *shares: float) -> None:
        self.shares: Iterator[float] = iter(shares)
        self.idle = self.total = 0
        self.slept = 0.0

    def times(self) -> tuple[int, int]:
        return self.idle, self.total

    def sleep(self, seconds: float) -> None:
        self.slept += seconds
        busy = next(self.shares)
        self.idle, self.total = self.idle + round(100 * (1 - busy)), self.total + 100

    def disturbance(self, patience_seconds: float, tolerant: bool = False) -> Disturbance:
        return Disturbance(patience_seconds, self.times, self.sleep, tolerant)


def test_wait_on_a_quiet_machine_ends_after_two_samples() -> None:
    machine = Machine(0.1, 0.0)
    disturbance = machine.disturbance(10.0)
    assert disturbance.load is None
    assert disturbance.wait()
    assert machine.slept == QUIET_SAMPLES * SAMPLE_SECONDS
    assert disturbance.load == pytest.approx(0.05)


def test_wait_ends_when_other_work_ends() -> None:
    machine = Machine(1.0, 0.0, 1.0, 0.5, 0.0, 0.0)
    assert machine.disturbance(10.0).wait()
    assert machine.slept == 6 * SAMPLE_SECONDS


def test_waits_of_a_verdict_are_bounded_together_and_name_the_load() -> None:
    machine = Machine(*[0.74] * 8)
    disturbance = machine.disturbance(8 * SAMPLE_SECONDS)
    assert not disturbance.wait() and not disturbance.wait()
    assert machine.slept == 8 * SAMPLE_SECONDS
    error = disturbance.inconclusive("other work disturbed 31 of 40 pairs of windows")
    assert str(error) == (
        "processor busy 74 % of the time: inconclusive, other work disturbed 31 of 40 pairs of "
        "windows; judge again when the machine is idle"
    )


def test_measurements_in_vain_count_as_waited() -> None:
    machine = Machine(*[0.0] * 20)
    disturbance = machine.disturbance(10.0)
    assert disturbance.wait(spent=4.0) and disturbance.wait(spent=4.0)
    assert not disturbance.wait(spent=4.0), "on a machine that is quiet between measurements too"


def test_measurement_that_tolerates_other_work_is_repeated_at_once_in_bounded_time() -> None:
    machine = Machine()
    disturbance = machine.disturbance(10.0, tolerant=True)
    assert disturbance.wait(spent=4.0) and disturbance.wait(spent=4.0)
    assert not disturbance.wait(spent=4.0) and machine.slept == 0


def test_error_without_a_wait_names_no_load() -> None:
    assert str(Disturbance(0.0).inconclusive("why")).startswith("inconclusive, why;")


def test_core_times_of_this_machine_grow() -> None:
    cores = sorted(os.sched_getaffinity(0))
    idle, total = core_times(cores)
    assert 0 <= idle <= total and total > 0
    assert core_times([]) == (0, 0)
    before = core_times(cores)
    while core_times(cores)[1] == before[1]:
        pass  # until the next clock tick


def test_other_work_is_what_is_neither_idle_nor_own() -> None:
    times, own = iter([(10, 100), (60, 200)]), iter([5.0, 25.0])
    others = OtherWork(lambda: next(times), lambda: next(own))
    assert others.share() == pytest.approx(0.3)
