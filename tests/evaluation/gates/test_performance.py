"""A time beyond the roofline is measured once more, and disputed if it repeats."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from evaluation.gates import Trial, generalization, performance
from evaluation.tasks.spec import Task
from evaluation.types import Case, Measurement, Reason, Split, Verdict


def measurement(case: Case, roofline_share: float) -> Measurement:
    return Measurement(
        case.name, case.split, case.kind, case.dtype, case.symbols, "baseline", 1.0, 2.0, 2.0, 1.9,
        2.1, 1.0, 1.0, roofline_share, None, 5, noisy=False,
    )  # fmt: skip


@pytest.fixture
def shares() -> list[float]:
    """Roofline shares of the next measurements, then 0.5."""
    return []


@pytest.fixture
def trial(task: Task, shares: list[float]) -> Trial:
    def measure(case: Case, plan: object) -> Measurement:
        return measurement(case, shares.pop(0) if shares else 0.5)

    session = SimpleNamespace(
        measure=measure,
        check=lambda case, thorough: 0.0,
        baseline=lambda: "baseline",
        baseline_times=dict,
    )
    stub: dict[str, Any] = {"task": task, "session": session, "final": True, "untimed": ""}
    trial = SimpleNamespace(**stub, max_elements=None, progress=lambda *counted: None)
    return cast(Trial, trial)


def test_performance_too_fast_once_passes_after_another_measurement(
    trial: Trial, shares: list[float]
) -> None:
    shares.append(2.1)
    result = performance.judge(trial)
    assert result.verdict is Verdict.PASSED and not shares
    assert [m.roofline_share for m in result.measurements] == [0.5] * result.total


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
    assert result.passed == result.total - 1
    assert not [case.name for case in trial.task.cases(Split.UNSEEN) if case.name in result.message]
