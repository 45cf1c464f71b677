"""Answers to an agent: gates and seen cases of a verdict, as text and as data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from arena.runs.models import Evaluation, Event
from arena.runs.states import EvaluationStatus
from evaluation.judge import report_text
from evaluation.types import Split, Verdict
from runners.session.arena_check import ARENA_FAULT
from runners.session.control_socket import NOT_PASSED, PASSED, Answer

GATE_FIELDS = ("gate", "verdict", "reason", "rule", "message", "passed", "total")
CASE_FIELDS = (
    "case", "dtype", "baseline", "candidate_us", "baseline_us", "speedup", "low", "high", "gbps",
    "roofline_share", "noisy",
)  # fmt: skip
SUMMARY_FIELDS = (
    "verdict", "reason", "message", "speedup", "low", "high", "noisy", "roofline_share",
)  # fmt: skip


def answer(evaluation: Evaluation, rounds: int, left: int) -> Answer:
    """Return the answer for an ended evaluation; `left` of `rounds` remain."""
    number = evaluation.submission.round
    head = f"round {number}, {left} of {rounds} left"
    if evaluation.status == EvaluationStatus.BROKEN:
        text = f"{head}: the arena could not judge this, through no fault of yours"
        return {"exit": ARENA_FAULT, "text": text, "rounds_left": left}
    if evaluation.verdict == Verdict.INCONCLUSIVE:
        text = f"{head}: {evaluation.message}"
        if left:
            text += f". Submit it again: such rounds are free, up to {rounds}"
        about = {"rounds_left": left, "verdict": evaluation.verdict}
        return {"exit": ARENA_FAULT, "text": text, **about}
    if evaluation.verdict == Verdict.SKIPPED:  # this hardware cannot run the task at all
        text = f"{head}: {evaluation.message}; no round of this task can be judged here"
        return {"exit": ARENA_FAULT, "text": text, "rounds_left": left}
    gates = list(evaluation.gates.values(*GATE_FIELDS))
    cases = list(evaluation.measurements.filter(split=Split.SEEN).values(*CASE_FIELDS))
    compiler = _compiler_text(evaluation)
    verdict = " ".join(filter(None, (evaluation.verdict, evaluation.reason)))
    parts = (_gate_table(gates), compiler, _case_table(cases), _speedup_line(evaluation))
    return {
        "exit": PASSED if evaluation.verdict == Verdict.PASSED else NOT_PASSED,
        "text": "\n".join(filter(None, (f"{head}: {verdict}", *parts))),
        "round": number,
        "rounds_left": left,
        **{name: getattr(evaluation, name) for name in SUMMARY_FIELDS},
        "gates": gates,
        "cases": cases,
        "compiler": compiler,
    }


def profile_answer(evaluation: Evaluation, profiles: int, left: int, changed: bool) -> Answer:
    """Return the answer for an ended profile; `left` of `profiles` remain.

    `changed` says that the workspace differs from the profiled source.
    """
    number = evaluation.submission.round
    head = f"profile of round {number}, {left} of {profiles} left"
    if changed:
        head += "; the file has changed since that round: ./arena-check submits it"
    if evaluation.status == EvaluationStatus.BROKEN:
        text = f"{head}: the arena could not profile this, through no fault of yours"
        return {"exit": ARENA_FAULT, "text": text, "profiles_left": left}
    report = evaluation.report
    kernels = report.get("kernels") or []
    return {
        "exit": PASSED if kernels else NOT_PASSED,
        "text": f"{head}\n{report.get('text') or evaluation.message}",
        "round": number,
        "profiles_left": left,
        "case": report.get("case") or "",
        "tool": report.get("tool") or "",
        "kernels": kernels,
        "message": evaluation.message,
    }


def _compiler_text(evaluation: Evaluation) -> str:
    """Return the compiler's output, which is kept as events of the evaluation's span."""
    events = Event.objects.filter(
        run_id=evaluation.submission.run_id,
        kind="compiler_output",
        span=f"evaluation-{evaluation.pk}",
    )
    return "\n".join(text for event in events if (text := event.body.get("text", "").strip()))


def _gate_table(gates: Sequence[Mapping[str, Any]]) -> str:
    rows = [
        (
            *(gate[name] for name in ("gate", "verdict", "reason")),
            f"{gate['passed']}/{gate['total']}" if gate["total"] else "",
            gate["message"],
        )
        for gate in gates
    ]
    return report_text.table(rows)


def _case_table(cases: Sequence[Mapping[str, Any]]) -> str:
    if not cases:
        return ""
    rows = [("case", "yours, us", "baseline, us", "speedup", "95 %", "roofline")]
    rows += [
        (
            case["case"],
            f"{case['candidate_us']:.2f}",
            f"{case['baseline_us']:.2f}",
            f"{case['speedup']:.3f}",
            f"{case['low']:.3f} - {case['high']:.3f}",
            "" if case["roofline_share"] is None else f"{case['roofline_share']:.1%}",
        )
        for case in cases
    ]
    return report_text.table(rows, right_from=1)


def _speedup_line(evaluation: Evaluation) -> str:
    if evaluation.speedup is None or evaluation.low is None or evaluation.high is None:
        return ""
    noisy = ", noisy" if evaluation.noisy else ""
    interval = f"{evaluation.low:.3f} to {evaluation.high:.3f}"
    return f"  speedup {evaluation.speedup:.3f}x ({interval}{noisy})"
