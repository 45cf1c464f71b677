"""Generalization: unseen cases, and cases drawn from the domain by a secret seed.

All are checked. Neighbours of the seen cases, drawn in secret, are timed as well, so that the
speedup on them compares with the seen one. On one machine they are the same ones for every
submission, so that agents compare. Averages are public. Of a failure nothing is but that it was on
hidden cases: neither its reason nor its time, the order of the cases is drawn for each verdict, and
the others are gone through after it.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence
from functools import partial
from random import Random

from evaluation.bench.timing.intervals import error_of_draw
from evaluation.bench.timing.plan import plan_for
from evaluation.errors import SubmissionError
from evaluation.judge.report import interval_text, overall
from evaluation.kinds.kernel.gates import BROKEN_BY_SIZE, Trial
from evaluation.kinds.kernel.gates.performance import (
    measure,
    narrow,
    too_fast,
)
from evaluation.kinds.kernel.machine_secret import machine_secret
from evaluation.tasks.neighbours import neighbours
from evaluation.tasks.spec import Task
from evaluation.types import Case, GateName, GateResult, Measurement, Reason, Split, Verdict

NAME, ORDER, STAGE, HIDDEN = GateName.GENERALIZATION, 50, "measure", True

MAX_REST_SECONDS = 120.0
"""Time for the cases after a failed one; the last may take as long as its limit beyond it."""
SAMPLED = 4
"""Cases drawn anew for each verdict from the whole domain; half as many where some are timed."""


def judge(trial: Trial) -> GateResult:
    if trial.broke_at:
        message = "specialised: other sizes are not judged"
        return GateResult(NAME, Verdict.SKIPPED, message=message)
    seed = secrets.randbits(63)
    secret = machine_secret(trial.cache)
    cases = hidden_cases(trial.task, seed, secret, trial.max_elements)
    secrets.SystemRandom().shuffle(cases)
    trial.uses_hidden = True
    private: dict[str, object] = {"seed": seed}
    measured: list[Measurement] = []
    timed = [] if trial.untimed else timed_cases(trial.task, secret)
    plan = plan_for(trial.task.kind, final=False)
    result = partial(GateResult, NAME, private=private)
    case = cases[0]

    def measure_again(measured_before: Case) -> Measurement:
        nonlocal case
        case = measured_before
        return measure(trial, case, plan)

    passed = 0
    try:
        if trial.compiled:
            trial.session.add_compiled(trial.compiled)
        for case in cases:
            trial.progress(NAME, passed, len(cases))
            trial.session.check(case, not trial.untimed)
            if case in timed:
                measured.append(measure(trial, case, plan))
            passed += 1
        measured = narrow(measured, {case.name: case for case in timed}, measure_again)
    except SubmissionError as error:
        private |= {
            "case": case.name,
            "symbols": dict(case.symbols),
            "reason": error.reason,
            "message": error.message,
            "passed": passed,
        }
        _go_through(trial, cases[passed + 1 :])
        return _failed(trial, result, error, len(cases))
    if disputed := sum(too_fast(m) for m in measured):
        private["disputed"] = disputed
        return result(
            Verdict.DISPUTED,
            Reason.FASTER_THAN_ROOFLINE,
            f"at least one of {len(cases)} hidden cases ran faster than the device's roofline",
            measurements=tuple(measured),
        )
    return _passed(result, cases, measured)


def _failed(
    trial: Trial, result: Callable[..., GateResult], error: SubmissionError, count: int
) -> GateResult:
    """Return the result of a failure on one of `count` hidden cases, without what failed."""
    message = f"failed on at least one of {count} hidden cases"
    if trial.of_suite and error.reason in BROKEN_BY_SIZE:
        trial.broke_at = "a hidden case"
        detail = {"broke_at": trial.broke_at}
        return result(Verdict.SPECIALISED, Reason.HIDDEN_CASE, message, detail=detail)
    return result(Verdict.FAILED, Reason.HIDDEN_CASE, message)


def _passed(
    result: Callable[..., GateResult], cases: Sequence[Case], measured: Sequence[Measurement]
) -> GateResult:
    speed = overall(measured)
    speed_text = ", speed not judged here"
    if speed:
        speed_text = f": {interval_text(speed)} on {len(measured)} near the public ones"
    drawn = [m.speedup for m in measured if m.split is Split.SAMPLED]
    return result(
        Verdict.PASSED,
        message=f"right on {len(cases)} hidden cases{speed_text}",
        passed=len(cases),
        total=len(cases),
        detail={
            "unseen": sum(c.split is Split.UNSEEN for c in cases),
            "sampled": sum(c.split is Split.SAMPLED for c in cases),
            "timed": len(measured),
            "error_of_draw": error_of_draw(drawn),
        },
        measurements=tuple(measured),
    )


def _go_through(trial: Trial, cases: Sequence[Case]) -> None:
    """Run the cases after a failed one, so that the time depends on all of them."""
    end = time.monotonic() + MAX_REST_SECONDS
    trial.session.end_process("candidate")
    for case in cases:
        if time.monotonic() > end:
            break
        try:
            trial.session.call(case)
        except SubmissionError:
            trial.session.end_process("candidate")


def timed_cases(task: Task, secret: bytes) -> list[Case]:
    """Return the hidden cases that are timed: the same ones in every verdict on this machine."""
    return neighbours(task, Random(secret + task.hash.encode()))


def lasting_cases(task: Task, secret: bytes) -> list[Case]:
    """Return the hidden cases that are the same in every verdict on this machine, smallest first.

    They are the unseen ones, and those of the timed ones that are drawn.
    """
    drawn = (case for case in timed_cases(task, secret) if case.split is Split.SAMPLED)
    return sorted([*task.cases(Split.UNSEEN), *drawn], key=task.operator.elements)


def hidden_cases(
    task: Task, seed: int, secret: bytes, max_elements: int | None = None
) -> list[Case]:
    """Return the lasting hidden cases and some drawn from the domain by `seed`, smallest first.

    With `max_elements` nothing is timed: they are the unseen ones and SAMPLED others of that size.
    """
    if max_elements:
        known, count = list(task.cases(Split.UNSEEN, max_elements)), SAMPLED
    else:
        known, count = lasting_cases(task, secret), SAMPLED // 2
    fresh = Random(seed)
    drawn = [
        task.operator.domain.sample(fresh, f"fresh-{number}", task.dtypes, max_elements)
        for number in range(count)
    ]
    return sorted([*known, *drawn], key=task.operator.elements)
