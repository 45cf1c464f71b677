"""Performance: the seen cases against the live baseline on the same device."""

from __future__ import annotations

from collections.abc import Sequence

from evaluation.gates import Trial
from evaluation.timing import estimates
from evaluation.timing import plan as plans
from evaluation.types import (
    Case,
    GateName,
    GateResult,
    Interval,
    Measurement,
    Reason,
    Split,
    Verdict,
)

NAME, ORDER, STAGE, HIDDEN = GateName.PERFORMANCE, 40, "measure", False


def judge(trial: Trial) -> GateResult:
    if why := trial.untimed:
        return GateResult(NAME, Verdict.SKIPPED, Reason.NO_DEVICE, why)
    plan = plans.plan_for(trial.task.kind, trial.final)
    measured = [measure(trial, case, plan) for case in trial.task.cases(Split.SEEN)]
    if disputed := [m for m in measured if too_fast(m)]:
        worst = max(disputed, key=lambda m: m.roofline_share)
        return GateResult(
            NAME,
            Verdict.DISPUTED,
            Reason.FASTER_THAN_ROOFLINE,
            f"case {worst.case}: {worst.candidate_us:.2f} us is {worst.roofline_share:.2f} times "
            "as fast as this device can move the bytes or do the arithmetic",
            total=len(measured),
            passed=len(measured) - len(disputed),
            measurements=tuple(measured),
        )
    total = overall(measured)
    assert total is not None, "a task has seen cases"
    interval = f"{total.speedup:.3f}x [{total.low:.3f}, {total.high:.3f}]"
    return GateResult(
        NAME,
        Verdict.PASSED,
        message=f"{interval} over {len(measured)} cases",
        passed=len(measured),
        total=len(measured),
        detail={"baseline": trial.judge.baseline(), "baseline_us": trial.judge.baseline_times()},
        measurements=tuple(measured),
    )


def measure(trial: Trial, case: Case, plan: plans.Plan) -> Measurement:
    """Measure one case; once more where it was faster than possible."""
    found = trial.judge.measure(case, plan)
    return trial.judge.measure(case, plan) if too_fast(found) else found


def too_fast(measurement: Measurement) -> bool:
    """Return whether a time beats the measured roofline by more than the error of its peaks."""
    return measurement.roofline_share > 1 / estimates.ROOFLINE_MARGIN


def overall(measurements: Sequence[Measurement]) -> Interval | None:
    """Return the geometric mean speedup with its interval; None without measurements."""
    drawn = [m.speedup for m in measurements if m.split is Split.SAMPLED]
    return estimates.combine([Interval(m.speedup, m.low, m.high) for m in measurements], drawn)
