"""Generalization: unseen cases, and cases drawn from the domain by a secret seed.

Counts and averages are public; failed cases are for staff only.
"""

from __future__ import annotations

import secrets
from functools import partial
from random import Random

from evaluation.errors import SubmissionError
from evaluation.gates import Trial
from evaluation.gates.performance import interval_text, measure, overall, too_fast
from evaluation.timing.plan import plan_for
from evaluation.types import Case, GateName, GateResult, Measurement, Reason, Split, Verdict

NAME, ORDER, STAGE, HIDDEN = GateName.GENERALIZATION, 50, "measure", True

SAMPLED = 4
"""Number of cases drawn from the domain."""


def judge(trial: Trial) -> GateResult:
    seed = secrets.randbits(63)
    cases = hidden_cases(trial, seed)
    private: dict[str, object] = {"seed": seed}
    measured: list[Measurement] = []
    plan = plan_for(trial.task.kind, final=False)
    result = partial(GateResult, NAME, total=len(cases), private=private)
    for position, case in enumerate(cases):
        trial.progress(NAME, position, len(cases))
        try:
            trial.session.check(case, not trial.untimed)
            if not trial.untimed:
                measured.append(measure(trial, case, plan))
        except SubmissionError as error:
            private |= {"case": case.name, "symbols": dict(case.symbols), "message": error.message}
            unseen = case.split is Split.UNSEEN
            kind = "written, never shown" if unseen else "drawn from the domain"
            message = f"failed on one of {len(cases)} hidden cases ({kind})"
            return result(Verdict.FAILED, error.reason, message, passed=position)
    if disputed := sum(too_fast(m) for m in measured):
        return result(
            Verdict.DISPUTED,
            Reason.FASTER_THAN_ROOFLINE,
            f"{disputed} of {len(cases)} hidden cases ran faster than the device's roofline",
            passed=len(cases) - disputed,
            measurements=tuple(measured),
        )
    speed = overall(measured)
    speed_text = f": {interval_text(speed)}" if speed else ", speed not judged here"
    return result(
        Verdict.PASSED,
        message=f"right on {len(cases)} hidden cases{speed_text}",
        passed=len(cases),
        detail={"unseen": sum(c.split is Split.UNSEEN for c in cases), "sampled": SAMPLED},
        measurements=tuple(measured),
    )


def hidden_cases(trial: Trial, seed: int) -> list[Case]:
    """Return the unseen cases and SAMPLED ones drawn by `seed`, smallest first."""
    task, limit, random = trial.task, trial.max_elements, Random(seed)
    operator = task.operator
    sampled = [
        operator.domain.sample(random, f"sampled-{i}", task.dtypes, limit) for i in range(SAMPLED)
    ]
    return sorted([*task.cases(Split.UNSEEN, limit), *sampled], key=operator.elements)
