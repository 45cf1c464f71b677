"""Generalization: unseen cases, and cases drawn from the domain by a secret seed.

All are checked. A secret half of those whose work is like that of the seen cases is timed as well,
so that the speedup on them compares with the seen one. Counts and averages are public; failed cases
are for staff only.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from functools import partial
from random import Random

from evaluation.errors import SubmissionError
from evaluation.gates import Trial
from evaluation.gates.performance import (
    confirm,
    interval_text,
    measure,
    overall,
    slowed_text,
    too_fast,
)
from evaluation.intervals import error_of_draw
from evaluation.tasks.spec import Task
from evaluation.tasks.work_range import WorkRange
from evaluation.timing.plan import plan_for
from evaluation.types import Case, GateName, GateResult, Measurement, Reason, Split, Verdict

NAME, ORDER, STAGE, HIDDEN = GateName.GENERALIZATION, 50, "measure", True

SAMPLED, MIN_TIMED_SAMPLED = 4, 2
"""Cases drawn from the domain, and how many of them are drawn until they can be timed."""
MAX_DRAWS = 200
MIN_TIMED = 4
"""Hidden cases that are timed, where so many are of the public ones' size."""


def judge(trial: Trial) -> GateResult:
    seed = secrets.randbits(63)
    cases = hidden_cases(trial.task, seed, trial.max_elements)
    private: dict[str, object] = {"seed": seed}
    measured: list[Measurement] = []
    timed = [] if trial.untimed else timed_cases(trial.task, cases)
    plan = plan_for(trial.task.kind, final=False)
    result = partial(GateResult, NAME, total=len(cases), private=private)
    for position, case in enumerate(cases):
        trial.progress(NAME, position, len(cases))
        try:
            trial.session.check(case, not trial.untimed)
            if case in timed:
                measured.append(measure(trial, case, plan))
        except SubmissionError as error:
            private |= {"case": case.name, "symbols": dict(case.symbols), "message": error.message}
            unseen = case.split is Split.UNSEEN
            kind = "written, never shown" if unseen else "drawn from the domain"
            message = f"failed on one of {len(cases)} hidden cases ({kind})"
            return result(Verdict.FAILED, error.reason, message, passed=position)
    measured, slowed = confirm(trial, measured)
    if disputed := sum(too_fast(m) for m in measured):
        return result(
            Verdict.DISPUTED,
            Reason.FASTER_THAN_ROOFLINE,
            f"{disputed} of {len(cases)} hidden cases ran faster than the device's roofline",
            passed=len(cases) - disputed,
            measurements=tuple(measured),
        )
    speed = overall(measured)
    speed_text = ", speed not judged here"
    if speed:
        speed_text = f": {interval_text(speed)} on {len(measured)} of the public ones' size"
        speed_text += slowed_text(slowed)
    drawn = [m.speedup for m in measured if m.split is Split.SAMPLED]
    return result(
        Verdict.PASSED,
        message=f"right on {len(cases)} hidden cases{speed_text}",
        passed=len(cases),
        detail={
            "unseen": sum(c.split is Split.UNSEEN for c in cases),
            "sampled": SAMPLED,
            "timed": len(measured),
            "slowed": slowed,
            "error_of_draw": error_of_draw(drawn),
        },
        measurements=tuple(measured),
    )


def timed_cases(task: Task, cases: Sequence[Case]) -> list[Case]:
    """Return the hidden cases to time: a secret half of those of the public ones' size.

    All of them where there are few.
    """
    compared = work_range(task)
    alike = [case for case in cases if case in compared]
    return secrets.SystemRandom().sample(alike, min(len(alike), max(MIN_TIMED, len(alike) // 2)))


def work_range(task: Task) -> WorkRange:
    return WorkRange.around(task.operator, task.cases(Split.SEEN))


def hidden_cases(task: Task, seed: int, max_elements: int | None = None) -> list[Case]:
    """Return the unseen cases and SAMPLED ones drawn by `seed`, smallest first.

    None has more than `max_elements`; with such a limit nothing is timed.
    """
    timed, random, sampled = work_range(task), Random(seed), []
    for number in range(SAMPLED):
        for _ in range(1 if max_elements or number >= MIN_TIMED_SAMPLED else MAX_DRAWS):
            name = f"sampled-{number}"
            case = task.operator.domain.sample(random, name, task.dtypes, max_elements)
            if case in timed:
                break
        sampled.append(case)
    unseen = task.cases(Split.UNSEEN, max_elements)
    return sorted([*unseen, *sampled], key=task.operator.elements)
