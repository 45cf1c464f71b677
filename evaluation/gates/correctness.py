"""Correctness in two stages (KernelBench-X): a call on the smallest case, then checks on all."""

from __future__ import annotations

from functools import partial

from evaluation.errors import SubmissionError
from evaluation.gates import Trial
from evaluation.types import GateName, GateResult, Split, Verdict

NAME, ORDER, STAGE, HIDDEN = GateName.CORRECTNESS, 30, "measure", False


def judge(trial: Trial) -> GateResult:
    cases = trial.task.checked_cases(trial.max_elements)
    result = partial(GateResult, NAME, total=len(cases))
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
        detail = {"stages": stages}
        return result(Verdict.FAILED, error.reason, error.message, passed=passed, detail=detail)
    skipped = len(trial.task.cases(Split.SEEN)) - sum(case.kind != "boundary" for case in cases)
    note = f"; {skipped} too large for an interpreter" if skipped else ""
    return result(
        Verdict.PASSED,
        message=f"right on {passed} cases, largest error {worst:.0%} of what is allowed{note}",
        passed=passed,
        detail={"stages": stages, "largest_error": worst, "skipped_cases": skipped},
    )
