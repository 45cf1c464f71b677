"""Performance: the seen cases against the live baseline on the same device."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from evaluation.bench.timing.estimates import ROOFLINE_MARGIN
from evaluation.bench.timing.intervals import half_width
from evaluation.bench.timing.plan import Plan, plan_for
from evaluation.device_kind import CPU
from evaluation.judge.report import cases_text, interval_text, overall
from evaluation.kinds.kernel.builds import COPYING
from evaluation.kinds.kernel.gates import Trial
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
    plan = plan_for(trial.task.kind, trial.final)
    # Other regimes inform, and one case of them is enough.
    one_regime = dataclasses.replace(plan, every_regime=False)
    cases = trial.task.cases(Split.SEEN)
    measured: list[Measurement] = []
    for case in cases:
        trial.progress(NAME, len(measured), len(cases))
        measured.append(measure(trial, case, one_regime if measured else plan))
    measure_again = partial(measure, trial, plan=one_regime)
    measured = narrow(measured, {case.name: case for case in cases}, measure_again)
    # On a GPU a second process takes seconds to start, and none is slowed by where it lies.
    tolerant = trial.session.disturbance.tolerant
    controlled = trial.final and trial.task.kind == CPU and not tolerant
    control = trial.session.measure_control(measured) if controlled else None
    result = partial(GateResult, NAME, total=len(measured), measurements=tuple(measured))
    if disputed := [m for m in measured if too_fast(m)]:
        worst = max(disputed, key=lambda m: m.roofline_share or 0.0)
        return result(
            Verdict.DISPUTED,
            Reason.FASTER_THAN_ROOFLINE,
            f"case {worst.case}: {worst.candidate_us:.2f} us is {worst.roofline_share:.2f} times "
            "as fast as this device can move the bytes or do the arithmetic",
            passed=len(measured) - len(disputed),
        )
    speed = overall(measured)
    assert speed is not None, "a task has seen cases"
    session, times = trial.session, trial.session.baseline_times()
    return result(
        Verdict.PASSED,
        message=f"{interval_text(speed)} over {cases_text(len(measured))}{_copies(measured)}",
        passed=len(measured),
        detail={
            "baseline": session.baseline(),
            "baseline_us": times.us,
            "left_out": times.left_out,
            "control": control,
        },
    )


def narrow(
    measured: Sequence[Measurement],
    cases: Mapping[str, Case],
    measure_again: Callable[[Case], Measurement],
) -> list[Measurement]:
    """Measure noisy cases once more, after the others; the narrower interval counts."""
    again = {m.case: measure_again(cases[m.case]) for m in measured if m.noisy}
    return [min(m, again.get(m.case, m), key=_width) for m in measured]


def _width(measurement: Measurement) -> float:
    return half_width(Interval(measurement.speedup, measurement.low, measurement.high))


def measure(trial: Trial, case: Case, plan: Plan) -> Measurement:
    """Measure one case; once more where it was faster than possible.

    A candidate that returns its outputs pays for a copy, its baseline does not. Where it is slower,
    it is measured again against the baseline with the same copy. No process can prove that it has
    copied, so this counts up to a speedup of 1.
    """
    session = trial.session
    found = session.measure(case, plan)
    if too_fast(found):
        found = session.measure(case, plan)
    if found.speedup < 1 and (copying := session.copying_baseline()):
        return up_to_parity(session.measure(case, plan, copying))
    return found


def up_to_parity(measurement: Measurement) -> Measurement:
    """Return a measurement with at most a speedup of 1."""
    if measurement.speedup <= 1:
        return measurement
    return dataclasses.replace(
        measurement,
        baseline_us=measurement.candidate_us,
        speedup=1.0,
        low=min(measurement.low, 1.0),
        high=1.0,
    )


def _copies(measured: Sequence[Measurement]) -> str:
    """Return a note on cases whose baseline copied its outputs; empty without any."""
    count = sum(m.baseline.endswith(COPYING) for m in measured)
    if not count:
        return ""
    return (
        f"; on {count} the baseline copies its outputs as yours are copied, which counts up to 1x:"
        " name the outputs as parameters and fill them to save the copy"
    )


def too_fast(measurement: Measurement) -> bool:
    """Return whether a time beats the measured roofline by more than the error of its peaks."""
    return (measurement.roofline_share or 0.0) > 1 / ROOFLINE_MARGIN
