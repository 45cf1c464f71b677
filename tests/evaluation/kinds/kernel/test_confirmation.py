"""The baseline is timed again without the candidate, and its faster time counts."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from evaluation.bench.process.fork_server import ForkServer
from evaluation.bench.timing.disturbance import Disturbance
from evaluation.bench.timing.estimates import Block, Blocks
from evaluation.bench.timing.plan import Plan
from evaluation.errors import Inconclusive
from evaluation.kinds.kernel.confirmation import CONFIRM_WINDOWS, CONFIRMED, SLOWED, SLOWED_TIMES
from evaluation.kinds.kernel.session import MeasurementSession
from evaluation.tasks.spec import Task
from evaluation.types import Case, Measurement, Split

CASES = 6
BASELINE_US, SPEEDUP, LOW, HIGH = 2.0, 2.0, 1.9, 2.1


def measurement(name: str, noisy: bool = False) -> Measurement:
    return Measurement(
        name, Split.SEEN, "", "float32", {}, "plain", 1.0, BASELINE_US, SPEEDUP, LOW, HIGH, 1.0,
        1.0, 0.5, None, 5, noisy=noisy,
    )  # fmt: skip


class AloneSession(MeasurementSession):
    """Session whose baseline takes `alone_us` on each case, once its candidate has ended.

    Measured again, each case comes to `again`.
    """

    def __init__(
        self, task: Task, cache: Path, alone_us: float, again: Measurement | None = None
    ) -> None:
        super().__init__(task, cast(ForkServer, None), (), cache)
        self.alone_us = alone_us
        self.again = again or measurement("any")
        self.happened: list[str] = []
        self.measured_again: list[str] = []
        cases = [SimpleNamespace(name=f"case-{number}") for number in range(CASES)]
        self.measured_cases = {case.name: cast(Case, case) for case in cases}
        self.baseline_ns = {case.name: [BASELINE_US * 1e3] * 4 for case in cases}
        self.windows = 0
        self._start_candidate()

    def confirm(self, measured: list[Measurement]) -> tuple[list[Measurement], int]:
        return self.confirm_baseline(measured, self._measure_again)

    def _measure_again(self, case: Case) -> Measurement:
        assert "candidate" not in self._processes, "a new process of the candidate"
        self._start_candidate()
        self.measured_again.append(case.name)
        self.baseline_ns[case.name] = [self.again.baseline_us * 1e3] * 4
        return dataclasses.replace(self.again, case=case.name)

    def _start_candidate(self) -> None:
        ended = SimpleNamespace(kill_and_wait=lambda: self.happened.append("candidate ended"))
        self._processes["candidate"] = cast(Any, ended)

    @contextmanager
    def bench(self, case: Case, plan: Plan, names: Sequence[str]) -> Iterator[Any]:
        assert names == ("plain",) and "candidate" not in self._processes
        self.happened.append(case.name)
        yield (SimpleNamespace(window=self.window),)

    def window(self) -> float:
        self.windows += 1
        return self.alone_us * 1e3


@pytest.fixture
def measured() -> list[Measurement]:
    return [measurement(f"case-{number}") for number in range(CASES)]


def test_slowed_baseline_is_measured_again_on_all_cases_and_lowers_the_speedup(
    task: Task, tmp_path: Path, measured: list[Measurement]
) -> None:
    with AloneSession(task, tmp_path, alone_us=1.5) as session:
        confirmed, slowed = session.confirm(measured)
    assert session.happened[0] == "candidate ended" and "candidate" not in session._processes
    names = [m.case for m in measured]
    assert sorted(set(session.measured_again)) == names
    assert len(session.measured_again) == (SLOWED_TIMES - 1) * CASES
    assert session.windows == SLOWED_TIMES * CASES * CONFIRM_WINDOWS and slowed == CASES
    assert [m.case for m in confirmed] == names
    for now in confirmed:
        assert now.baseline_us == 1.5 and now.candidate_us == 1.0
        assert (now.speedup, now.low, now.high) == pytest.approx((1.5, 1.425, 1.575))


def test_case_measured_on_a_machine_that_was_slow_for_both_is_measured_again(
    task: Task, tmp_path: Path, measured: list[Measurement]
) -> None:
    """Other work makes candidate and baseline slower alike, which says nothing of the candidate."""
    calm = dataclasses.replace(
        measurement("any"), candidate_us=0.75, baseline_us=1.5, speedup=2.01, low=1.95, high=2.05
    )
    with AloneSession(task, tmp_path, alone_us=1.5, again=calm) as session:
        confirmed, slowed = session.confirm(measured)
    assert slowed == 0 and len(session.measured_again) == CONFIRMED
    assert [m.speedup for m in confirmed].count(2.01) == CONFIRMED
    assert session.happened.count("candidate ended") == 1 + CONFIRMED


@pytest.mark.parametrize("alone_us", [1.9, 2.0, 2.6])
def test_honest_baseline_is_timed_alone_on_two_secret_cases_and_changes_nothing(
    alone_us: float, task: Task, tmp_path: Path, measured: list[Measurement]
) -> None:
    drawn = set()
    for _ in range(60):
        with AloneSession(task, tmp_path, alone_us) as session:
            confirmed, slowed = session.confirm(measured)
        assert slowed == 0 and not session.measured_again
        assert all(now is before for now, before in zip(confirmed, measured, strict=True))
        assert session.happened[0] == "candidate ended"
        assert len(set(session.happened[1:])) == len(session.happened[1:]) == CONFIRMED
        drawn |= set(session.happened[1:])
    assert drawn == {m.case for m in measured}


@pytest.mark.parametrize(("below", "changes"), [(0.001, True), (-0.001, False)])
def test_baseline_counts_as_slowed_beyond_the_error_of_its_speedup(
    below: float, changes: bool, task: Task, tmp_path: Path, measured: list[Measurement]
) -> None:
    least = 1 - (SPEEDUP / LOW - 1) - SLOWED
    with AloneSession(task, tmp_path, BASELINE_US * (least - below)) as session:
        confirmed, slowed = session.confirm(measured)
    assert bool(slowed) is bool(session.measured_again) is changes
    assert all(now is before for now, before in zip(confirmed, measured, strict=True)) != changes


def test_baseline_with_fast_windows_beside_the_candidate_was_not_slowed(
    task: Task, tmp_path: Path, measured: list[Measurement]
) -> None:
    """A processor at a lower clock rate slows some windows; the candidate would slow all."""
    with AloneSession(task, tmp_path, alone_us=1.5) as session:
        for name in session.baseline_ns:
            session.baseline_ns[name] = [1.5e3, 1.5e3, 2e3, 2e3, 2e3]
        confirmed, slowed = session.confirm(measured)
    assert slowed == 0 and not session.measured_again
    assert all(now is before for now, before in zip(confirmed, measured, strict=True))


class ControlSession(MeasurementSession):
    """Session whose second process of the baseline reads these speedups in turn.

    A speedup of 0 stands for windows that other work disturbed.
    """

    def __init__(self, task: Task, cache: Path, speedups: list[float]) -> None:
        super().__init__(
            task,
            cast(ForkServer, None),
            (),
            cache,
            disturbance=Disturbance(
                10.0, iter_times([100, 0]), lambda seconds: None, tolerant=False
            ),
        )
        self.speedups = speedups
        self._builds["plain"] = cast(Any, SimpleNamespace(discards=False))
        self.measured_cases = {"case-0": cast(Case, SimpleNamespace(name="case-0"))}
        self.ended: list[str] = []

    @contextmanager
    def bench(self, case: Case, plan: Plan, names: Sequence[str]) -> Iterator[Any]:
        assert names == ("control", "plain")
        yield (SimpleNamespace(), SimpleNamespace())

    def measure_blocks(self, candidate: Any, against: Any, plan: Plan) -> Blocks:
        if not (speedup := self.speedups.pop(0)):
            return Blocks([], 40)
        return Blocks([Block(100.0, 100.0 * speedup)] * plan.min_blocks)

    def end_process(self, name: str) -> None:
        self.ended.append(name)


def iter_times(idle_and_busy: list[int]) -> Any:
    """Return clock ticks that grow by these idle and busy ones at each call."""
    total = [0, 0]

    def times() -> tuple[int, int]:
        idle, busy = idle_and_busy
        total[0] += idle
        total[1] += idle + busy
        return total[0], total[1]

    return times


@pytest.mark.parametrize("speedups", [[1.0], [1.2, 1.001], [0.0, 0.999]])
def test_control_that_reads_one_is_returned(
    speedups: list[float], task: Task, tmp_path: Path
) -> None:
    session = ControlSession(task, tmp_path, list(speedups))
    control = session.measure_control([measurement("case-0")])
    assert control.speedup == pytest.approx(speedups[-1])
    assert session.ended == ["candidate", *["control"] * len(speedups)], "a new process each time"


@pytest.mark.parametrize(
    ("speedups", "message"),
    [
        ([1.2, 1.2], "the baseline against itself read 1.200x"),
        ([0.0, 0.0], "other work disturbed 40 of 40 pairs of windows"),
    ],
)
def test_control_that_does_not_read_one_twice_is_inconclusive(
    speedups: list[float], message: str, task: Task, tmp_path: Path
) -> None:
    session = ControlSession(task, tmp_path, speedups)
    with pytest.raises(Inconclusive, match=message):
        session.measure_control([measurement("case-0")])
