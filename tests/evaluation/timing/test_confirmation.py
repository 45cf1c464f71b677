"""The baseline is timed again without the candidate, and its faster time counts."""

from __future__ import annotations

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
    """Session whose baseline takes `alone_us` on each case, once its candidate has ended."""

    def __init__(self, task: Task, cache: Path, alone_us: float) -> None:
        super().__init__(task, cast(ForkServer, None), (), cache)
        self.alone_us = alone_us
        self.happened: list[str] = []
        cases = [SimpleNamespace(name=f"case-{number}") for number in range(CASES)]
        self._measured_cases = cast(list[Case], cases)
        ended = SimpleNamespace(kill_and_wait=lambda: self.happened.append("candidate ended"))
        self._processes["candidate"] = cast(Any, ended)
        self.windows = 0

    @contextmanager
    def bench(self, case: Case, plan: Plan, names: Sequence[str]) -> Iterator[Any]:
        assert names == ("plain",)
        self.happened.append(case.name)
        yield (SimpleNamespace(window=self.window),)

    def window(self) -> float:
        self.windows += 1
        return self.alone_us * 1e3


@pytest.fixture
def measured() -> list[Measurement]:
    return [measurement(f"case-{number}") for number in range(CASES)]


def test_slowed_baseline_is_timed_alone_on_all_cases_and_lowers_the_speedup(
    task: Task, tmp_path: Path, measured: list[Measurement]
) -> None:
    with AloneSession(task, tmp_path, alone_us=1.5) as session:
        confirmed = session.confirm_baseline(measured)
    assert session.happened[0] == "candidate ended" and "candidate" not in session._processes
    assert sorted(session.happened[1:]) == [m.case for m in measured], "each once"
    assert session.windows == CASES * CONFIRM_WINDOWS
    assert [m.case for m in confirmed] == [m.case for m in measured]
    for now in confirmed:
        assert now.baseline_us == 1.5 and now.candidate_us == 1.0
        assert (now.speedup, now.low, now.high) == pytest.approx((1.5, 1.425, 1.575))


@pytest.mark.parametrize("alone_us", [1.9, 2.0, 2.6])
def test_honest_baseline_is_timed_alone_on_two_secret_cases_and_changes_nothing(
    alone_us: float, task: Task, tmp_path: Path, measured: list[Measurement]
) -> None:
    drawn = set()
    for _ in range(60):
        with AloneSession(task, tmp_path, alone_us) as session:
            confirmed = session.confirm_baseline(measured)
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
        confirmed = session.confirm_baseline(measured)
    assert (
        any(now is not before for now, before in zip(confirmed, measured, strict=True)) is changes
    )


def test_noisy_cases_are_timed_alone_in_any_case(
    task: Task, tmp_path: Path, measured: list[Measurement]
) -> None:
    noisy = {"case-1", "case-3", "case-4"}
    measured = [measurement(m.case, m.case in noisy) for m in measured]
    with AloneSession(task, tmp_path, BASELINE_US) as session:
        session.confirm_baseline(measured)
    assert noisy <= set(session.happened)
    assert len(noisy) <= len(session.happened) - 1 <= len(noisy) + CONFIRMED
