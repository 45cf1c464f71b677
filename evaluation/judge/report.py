"""Results of gates, means of measurements, and a score, as a report has them."""

from __future__ import annotations

import dataclasses
import statistics
import traceback
from collections.abc import Sequence
from typing import Any

from evaluation.bench.timing.estimates import NOISY
from evaluation.bench.timing.intervals import geomean, half_width
from evaluation.errors import (
    Broken,
    BuildError,
    Inconclusive,
    NoIsolation,
    Rejected,
    SubmissionError,
    TaskError,
)
from evaluation.types import GateName, GateResult, Interval, Measurement, Reason, Report, Verdict


class DeviceFull(Broken):
    """Raised where a case needs more memory than the device has free; the message is public."""


def passed(gate: GateName, message: str, checks: int = 1, **more: Any) -> GateResult:
    """Return the result of a gate whose checks all passed, with other fields of it."""
    return GateResult(gate, Verdict.PASSED, message=message, passed=checks, total=checks, **more)


def failure(gate: GateName, error: Exception) -> GateResult:
    """Return the result of a gate that raised `error`."""
    match error:
        case Rejected():
            return GateResult(gate, Verdict.REJECTED, error.reason, error.message, rule=error.rule)
        case BuildError(outputs=outputs):
            failed = GateResult(gate, Verdict.FAILED, error.reason, error.message)
            return dataclasses.replace(failed, compiler=outputs, total=len(outputs))
        case SubmissionError():
            return GateResult(gate, Verdict.FAILED, error.reason, error.message)
        case Inconclusive():
            return GateResult(gate, Verdict.INCONCLUSIVE, Reason.MACHINE_BUSY, str(error))
        case NoIsolation():
            return GateResult(gate, Verdict.BROKEN, Reason.NO_ISOLATION, str(error))
    notes: Sequence[str] = getattr(error, "__notes__", ())
    culprit = "the code of the task" if isinstance(error, TaskError) else "the judge"
    return GateResult(
        gate,
        Verdict.BROKEN,
        Reason.JUDGE_ERROR,
        str(error) if isinstance(error, DeviceFull) else f"{culprit} failed, not the submission",
        private={
            "error": "; ".join((f"{type(error).__name__}: {error}", *notes)),
            "trace": "".join(traceback.format_exception(error)),
        },
    )


def error_of(report: Report) -> str:
    """Return the error behind a broken verdict, which is for staff only; empty for others."""
    broken = (gate for gate in report.gates if gate.verdict is Verdict.BROKEN)
    return next((str(gate.private.get("error", "")) for gate in broken), "")


def overall(measurements: Sequence[Measurement]) -> Interval | None:
    """Return the geometric mean speedup with its interval; None without measurements.

    A noisy case counts with its estimate, as others do. Ranks use the lower end, so that noise is
    worth nothing.
    """
    return geomean([Interval(m.speedup, m.low, m.high) for m in measurements])


def is_noisy(measurements: Sequence[Measurement]) -> bool:
    """Return whether their geometric mean is to be marked as noisy.

    It is where its own interval is wide, or where most of its cases are noisy.
    """
    mean = overall(measurements)
    if mean is None:
        return False
    return half_width(mean) > NOISY or sum(m.noisy for m in measurements) > len(measurements) / 2


def interval_text(interval: Interval) -> str:
    return f"{interval.speedup:.3f}x [{interval.low:.3f}, {interval.high:.3f}]"


def cases_text(count: int) -> str:
    return "1 case" if count == 1 else f"{count} cases"


def aka_score(
    compiled: bool, results: Sequence[GateResult], seen: Sequence[Measurement]
) -> float | None:
    """Return AgentKernelArena's score: 0 to 20 unless correct, else 120 + 100 x speedup.

    A submission that compiles has 20. A correct one that could not be timed here has none.
    """
    passed = {result.gate for result in results if result.verdict is Verdict.PASSED}
    if not compiled:
        return 0.0
    if GateName.CORRECTNESS not in passed:
        return 20.0
    if seen:
        return 120.0 + 100.0 * statistics.fmean(m.speedup for m in seen)
    untimed = (Verdict.SKIPPED, Verdict.INCONCLUSIVE)
    timings = (each.verdict for each in results if each.gate is GateName.PERFORMANCE)
    return None if any(verdict in untimed for verdict in timings) else 120.0
