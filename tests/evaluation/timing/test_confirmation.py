"""The baseline is timed again without the candidate, and its faster time counts."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from evaluation.process.fork_server import ForkServer
from evaluation.session import CONFIRM_WINDOWS, CONFIRMED, SLOWED, MeasurementSession
from evaluation.tasks.spec import Task
from evaluation.timing.plan import Plan
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
        self._measured_cases = cast(list[Case], cases)
        self.windows = 0
        self._start_candidate()

    def confirm(self, measured: list[Measurement]) -> tuple[list[Measurement], int]:
        return self.confirm_baseline(measured, self._measure_again)

    def _measure_again(self, case: Case) -> Measurement:
        assert "candidate" not in self._processes, "a new process of the candidate"
        self._start_candidate()
        self.measured_again.append(case.name)
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
    assert sorted(session.measured_again) == names, "each once"
    assert session.windows == 2 * CASES * CONFIRM_WINDOWS and slowed == CASES
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


def test_noisy_cases_are_timed_alone_in_any_case(
    task: Task, tmp_path: Path, measured: list[Measurement]
) -> None:
    noisy = {"case-1", "case-3", "case-4"}
    measured = [measurement(m.case, m.case in noisy) for m in measured]
    with AloneSession(task, tmp_path, BASELINE_US) as session:
        session.confirm(measured)
    assert noisy <= set(session.happened)
    assert len(noisy) <= len(session.happened) - 1 <= len(noisy) + CONFIRMED
