"""Times too fast and noisy cases are measured once more."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from evaluation.bench.timing.disturbance import Disturbance
from evaluation.errors import SubmissionError
from evaluation.judge.report import is_noisy, overall
from evaluation.kinds.kernel.baselines import BaselineTimes
from evaluation.kinds.kernel.gates import Trial, generalization, performance
from evaluation.tasks.spec import Task
from evaluation.types import Case, Interval, Measurement, Reason, Split, Verdict


def measurement(case: Case, roofline_share: float, noisy: bool = False) -> Measurement:
    return Measurement(
        case=case.name, split=case.split, kind=case.kind, dtype=case.dtype, symbols=case.symbols,
        baseline="baseline", candidate_us=1.0, baseline_us=2.0, speedup=2.0, low=1.9, high=2.1,
        roofline_share=roofline_share, blocks=5, noisy=noisy,
    )  # fmt: skip


@pytest.fixture
def shares() -> list[float]:
    """Roofline shares of the next measurements, then 0.5."""
    return []


@pytest.fixture
def trial(task: Task, shares: list[float], tmp_path: Path) -> Trial:
    def measure(case: Case, plan: object) -> Measurement:
        return measurement(case, shares.pop(0) if shares else 0.5)

    session = SimpleNamespace(
        measure=measure,
        check=lambda case, thorough: 0.0,
        call=lambda case: None,
        end_process=lambda name: None,
        baseline=lambda: "baseline",
        baseline_times=BaselineTimes,
        disturbance=Disturbance(0.0, tolerant=False),
        measure_control=lambda measured: Interval(1.0, 0.99, 1.01),
    )
    stub: dict[str, Any] = {"task": task, "session": session, "final": True, "untimed": ""}
    stub |= {"broke_at": "", "of_suite": False}
    stub |= {
        "compiled": None,
        "cache": tmp_path,
        "max_elements": None,
        "progress": lambda *counted: None,
    }
    trial = SimpleNamespace(**stub)
    return cast(Trial, trial)


def test_performance_too_fast_once_passes_after_another_measurement(
    trial: Trial, shares: list[float]
) -> None:
    shares.append(2.1)
    result = performance.judge(trial)
    assert result.verdict is Verdict.PASSED and not shares
    assert [m.roofline_share for m in result.measurements] == [0.5] * result.total


@pytest.mark.parametrize(("count", "counted"), [(1, "1 case"), (2, "2 cases")])
def test_message_counts_the_timed_cases(trial: Trial, count: int, counted: str) -> None:
    cases = trial.task.cases(Split.SEEN)[:count]
    task = SimpleNamespace(kind=trial.task.kind, cases=lambda split: cases)
    some = SimpleNamespace(**{**vars(trial), "task": task})
    assert performance.judge(cast(Trial, some)).message.endswith(f" over {counted}")


def test_performance_too_fast_twice_is_disputed(trial: Trial, shares: list[float]) -> None:
    shares.extend([2.1, 1.5])
    result = performance.judge(trial)
    first, *_ = trial.task.cases(Split.SEEN)
    assert (result.verdict, result.reason) == (Verdict.DISPUTED, Reason.FASTER_THAN_ROOFLINE)
    assert result.message.startswith(f"case {first.name}: 1.00 us is 1.50 times as fast")
    assert result.passed == result.total - 1


def test_hidden_case_too_fast_twice_is_disputed_without_its_name(
    trial: Trial, shares: list[float]
) -> None:
    shares.extend([2.1, 0.5, 2.1, 1.5])
    result = generalization.judge(trial)
    assert (result.verdict, result.reason) == (Verdict.DISPUTED, Reason.FASTER_THAN_ROOFLINE)
    assert (result.passed, result.total) == (0, 0) and result.private["disputed"] == 1
    assert not [case.name for case in trial.task.cases(Split.UNSEEN) if case.name in result.message]


def test_mean_of_a_wide_interval_or_noisy_cases_is_noisy(trial: Trial) -> None:
    (case, *_) = trial.task.cases(Split.SEEN)

    def of(low: float, high: float, noisy: bool) -> Measurement:
        return dataclasses.replace(measurement(case, 0.5, noisy), low=low, high=high)

    narrow, wide = of(1.98, 2.02, False), of(1.8, 2.2, True)
    assert not is_noisy([])
    assert not is_noisy([narrow] * 3)
    assert is_noisy([wide])
    assert not is_noisy([narrow, narrow, narrow, wide])
    assert is_noisy([narrow, wide, wide])
    tolerated = of(1.98, 2.02, True)
    assert is_noisy([narrow, tolerated, tolerated])
    assert is_noisy([of(1.5, 2.7, False), narrow])


def test_noisy_case_counts_with_its_estimate(trial: Trial) -> None:
    (case, *_) = trial.task.cases(Split.SEEN)
    steady, noisy = measurement(case, 0.5), measurement(case, 0.5, noisy=True)
    assert speedup(steady) == speedup(noisy) == pytest.approx(2.0)
    assert speedup(steady, noisy) == pytest.approx(2.0)
    assert overall([]) is None


@pytest.mark.parametrize("gate", [performance, generalization])
def test_noisy_case_is_measured_again_after_the_others_and_the_narrower_interval_counts(
    gate: Any, trial: Trial
) -> None:
    order: list[str] = []

    def measure(case: Case, plan: object) -> Measurement:
        order.append(case.name)
        wide = len(order) in (1, 2)
        found = measurement(case, 0.5, noisy=wide)
        again = case.name in order[:-1]
        low, high = (1.0, 4.0) if wide else (1.5, 2.67) if again else (1.9, 2.1)
        return dataclasses.replace(found, low=low, high=high, noisy=wide)

    cast(Any, trial.session).measure = measure
    result = gate.judge(trial)
    assert order[-2:] == order[:2], "after all the others"
    assert [m.low for m in result.measurements][:2] == [1.5, 1.5]
    assert not any(m.noisy for m in result.measurements)


def test_final_verdict_on_a_cpu_carries_the_control(trial: Trial) -> None:
    assert performance.judge(trial).detail["control"] == Interval(1.0, 0.99, 1.01)
    trial.final = False
    assert performance.judge(trial).detail["control"] is None


def speedup(*measured: Measurement) -> float:
    found = overall(measured)
    assert found is not None and found.low <= found.speedup <= found.high
    return found.speedup


def test_candidate_that_fails_when_it_is_measured_again_names_the_hidden_case_to_staff_alone(
    trial: Trial,
) -> None:
    session = cast(Any, trial.session)
    measured_cases: list[Case] = []

    def first(case: Case, plan: object) -> Measurement:
        if case in measured_cases:
            raise SubmissionError(Reason.WRONG_VALUES, f"case {case.name}: wrong")
        measured_cases.append(case)
        return dataclasses.replace(measurement(case, 0.5), noisy=True)

    session.measure = first
    result = generalization.judge(trial)
    assert (result.verdict, result.reason) == (Verdict.FAILED, Reason.HIDDEN_CASE)
    assert (result.passed, result.total) == (0, 0)
    name = measured_cases[0].name
    assert (result.private["case"], result.private["message"]) == (name, f"case {name}: wrong")
    assert name not in result.message


def test_all_hidden_cases_are_gone_through_after_a_failure_in_an_order_that_is_drawn(
    trial: Trial,
) -> None:
    orders = []
    for _ in range(20):
        order: list[Case] = []

        def check(case: Case, thorough: bool, order: list[Case] = order) -> float:
            order.append(case)
            raise SubmissionError(Reason.WRONG_VALUES, f"case {case.name}: wrong")

        def call(case: Case, order: list[Case] = order) -> None:
            order.append(case)
            raise SubmissionError(Reason.CRASH, "it ended")

        session = cast(Any, trial.session)
        session.check, session.call = check, call
        result = generalization.judge(trial)
        names = {case.name for case in order}
        assert len(names) == len(order) > 3
        assert {case.name for case in trial.task.cases(Split.UNSEEN)} <= names
        assert result.private["case"] == order[0].name
        assert (result.passed, result.total, result.reason) == (0, 0, Reason.HIDDEN_CASE)
        assert not [each for each in ("WRONG", *names) if each in result.message]
        orders.append(order)
    places = {[case.split for case in order].index(Split.UNSEEN) for order in orders}
    assert len(places) > 1, "20 draws had the unseen case at the same place"
