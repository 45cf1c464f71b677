"""Generalization: unseen cases, and cases drawn from the domain by a secret seed.

Counts and averages are public; failed cases are for staff only.
"""

from __future__ import annotations

import secrets
from random import Random

from evaluation.errors import SubmissionError
from evaluation.gates import Trial
from evaluation.gates.performance import measure, overall, too_fast
from evaluation.timing import plan as plans
from evaluation.types import Case, GateName, GateResult, Measurement, Reason, Split, Verdict

NAME, ORDER, STAGE, HIDDEN = GateName.GENERALIZATION, 50, "measure", True

SAMPLED = 4


def judge(trial: Trial) -> GateResult:
    seed = secrets.randbits(63)
    cases = hidden_cases(trial, seed)
    private: dict[str, object] = {"seed": seed}
    measured: list[Measurement] = []
    for position, case in enumerate(cases):
        try:
            trial.judge.check(case, not trial.untimed)
            if not trial.untimed:
                measured.append(measure(trial, case, plans.plan_for(trial.task.kind, final=False)))
        except SubmissionError as error:
            private |= {"case": case.name, "symbols": dict(case.symbols), "message": error.message}
            return GateResult(
                NAME,
                Verdict.FAILED,
                error.reason,
                f"failed on one of {len(cases)} hidden cases ({_kind(case)})",
                passed=position,
                total=len(cases),
                private=private,
            )
    speed = overall(measured)
    disputed = sum(too_fast(m) for m in measured)
    if disputed:
        return GateResult(
            NAME,
            Verdict.DISPUTED,
            Reason.FASTER_THAN_ROOFLINE,
            f"{disputed} of {len(cases)} hidden cases ran faster than the device's roofline",
            passed=len(cases) - disputed,
            total=len(cases),
            private=private,
            measurements=tuple(measured),
        )
    said = (
        f": {speed.speedup:.3f}x [{speed.low:.3f}, {speed.high:.3f}]"
        if speed
        else ", speed not judged here"
    )
    return GateResult(
        NAME,
        Verdict.PASSED,
        message=f"right on {len(cases)} hidden cases{said}",
        passed=len(cases),
        total=len(cases),
        detail={"unseen": sum(c.split is Split.UNSEEN for c in cases), "sampled": SAMPLED},
        private=private,
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


def _kind(case: Case) -> str:
    return "written, never shown" if case.split is Split.UNSEEN else "drawn from the domain"
