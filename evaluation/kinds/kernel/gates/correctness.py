"""Correctness in two stages (KernelBench-X): a call on the first case, then checks on all.

A problem of a public suite is checked at the suite's sizes first. A candidate that is right there
and fails at another size is specialised, and timed at the suite's sizes.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from evaluation.errors import SubmissionError
from evaluation.kinds.kernel.gates import BROKEN_BY_SIZE, Trial
from evaluation.tasks.operator import SUITE
from evaluation.types import Case, GateName, GateResult, Reason, Split, Verdict

NAME, ORDER, STAGE, HIDDEN = GateName.CORRECTNESS, 30, "measure", False
BOUNDARY = "boundary"
WRONG = (Reason.WRONG_VALUES, Reason.NON_FINITE)


def judge(trial: Trial) -> GateResult:
    cases = trial.task.checked_cases(trial.max_elements)
    own = sum(case.kind != BOUNDARY for case in cases)
    if trial.of_suite:
        cases.sort(key=lambda case: case.kind == BOUNDARY)
    result = partial(GateResult, NAME, total=len(cases))
    rule: dict[str, Any] = {"precision_rule": trial.task.operator.precision}
    stages = {"call": "failed", "execute": "not reached"}
    passed, worst = 0, 0.0
    try:
        trial.session.call(cases[0])
        stages["call"], stages["execute"] = "passed", "failed"
        for case in cases:
            trial.progress(NAME, passed, len(cases))
            worst = max(worst, trial.session.check(case, not trial.untimed))
            passed += 1
        stages["execute"] = "passed"
    except SubmissionError as error:
        detail: dict[str, Any] = {"stages": stages, **rule}
        if trial.of_suite and 0 < own <= passed and error.reason in BROKEN_BY_SIZE:
            trial.broke_at = _size(cases[passed])
            trial.session.end_process("candidate")
            detail |= _kept_rules(trial, cases[0])
            return result(
                Verdict.SPECIALISED,
                error.reason,
                f"right at the suite's own size, not at every other one: {error.message}",
                passed=passed,
                detail={**detail, "largest_error": worst, "broke_at": trial.broke_at},
            )
        message = _with_case(error, cases[passed])
        if error.reason in WRONG:
            detail |= _kept_rules(trial, cases[passed])
        if SUITE in detail.get("right_by", ()):
            message += "; right by the suite's own tolerance"
        return result(Verdict.FAILED, error.reason, message, passed=passed, detail=detail)
    skipped = len(trial.task.cases(Split.SEEN)) - own
    note = f"; {skipped} too large for an interpreter" if skipped else ""
    rule |= _kept_rules(trial, cases[0])
    return result(
        Verdict.PASSED,
        message=f"right on {passed} cases, largest error {worst:.0%} of what is allowed{note}",
        passed=passed,
        detail={"stages": stages, "largest_error": worst, "skipped_cases": skipped, **rule},
    )


def _kept_rules(trial: Trial, case: Case) -> dict[str, Any]:
    """Return, as a detail, the rules that a kernel for a suite keeps at a size of that suite."""
    source = trial.task.operator.source
    suite_has_rule = source is not None and source.tolerance and case.dtype == "float32"
    if not suite_has_rule or case.kind == BOUNDARY or trial.untimed:
        return {}
    try:
        return {"right_by": trial.session.kept_rules(case)}
    except SubmissionError:
        return {"right_by": []}


def _with_case(error: SubmissionError, case: Case) -> str:
    """Return the message of a failure, with the sizes of its public case if it ran the kernel."""
    if error.reason not in BROKEN_BY_SIZE:
        return error.message
    name = "" if f"case {case.name}" in error.message else f"case {case.name}: "
    return f"{error.message} ({name}{_size(case)})"


def _size(case: Case) -> str:
    return ", ".join(f"{name} = {value}" for name, value in case.symbols.items())
