"""Generalization: unseen cases, and cases drawn from the domain by a secret seed.

All are checked. A secret half of those whose work is like that of the seen cases is timed as well,
so that the speedup on them compares with the seen one. On one machine it is the same half for every
submission, so that agents compare. Counts and averages are public; failed cases are for staff only.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from functools import partial
from random import Random

from evaluation.building.cache_folder import machine_secret
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

SAMPLED, TIMED_SAMPLED = 4, 2
"""Cases drawn from the domain, and how many of them are timed: the same ones in every verdict."""
TIMED_NAMES = [f"sampled-{number}" for number in range(TIMED_SAMPLED)]
MAX_DRAWS = 200
MIN_TIMED = 4
"""Hidden cases that are timed, where so many are of the public ones' size."""


def judge(trial: Trial) -> GateResult:
    seed = secrets.randbits(63)
    secret = machine_secret(trial.cache)
    cases = hidden_cases(trial.task, seed, secret, trial.max_elements)
    private: dict[str, object] = {"seed": seed}
    measured: list[Measurement] = []
    timed = [] if trial.untimed else timed_cases(trial.task, cases, secret)
    plan = plan_for(trial.task.kind, final=False)
    result = partial(GateResult, NAME, total=len(cases), private=private)
    case = cases[0]
    if trial.compiled:
        trial.session.add_compiled(trial.compiled)

    def measure_again(measured_before: Case) -> Measurement:
        nonlocal case
        case = measured_before
        return measure(trial, case, plan)

    passed = 0
    try:
        for case in cases:
            trial.progress(NAME, passed, len(cases))
            trial.session.check(case, not trial.untimed)
            if case in timed:
                measured.append(measure(trial, case, plan))
            passed += 1
        measured, slowed = confirm(trial, measured, measure_again)
    except SubmissionError as error:
        private |= {"case": case.name, "symbols": dict(case.symbols), "message": error.message}
        unseen = case.split is Split.UNSEEN
        kind = "written, never shown" if unseen else "drawn from the domain"
        message = f"failed on one of {len(cases)} hidden cases ({kind})"
        return result(Verdict.FAILED, error.reason, message, passed=min(passed, len(cases) - 1))
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


def timed_cases(task: Task, cases: Sequence[Case], secret: bytes) -> list[Case]:
    """Return a half, drawn by `secret`, of the hidden cases of the public ones' size.

    These are timed. Where there are few, all are.
    """
    compared = work_range(task)
    alike = sorted((case for case in cases if case in compared), key=lambda case: case.name)
    sampled = [case for case in alike if case.name in TIMED_NAMES]
    unseen = [case for case in alike if case.split is Split.UNSEEN]
    wanted = max(MIN_TIMED, len(alike) // 2) - len(sampled)
    return [*sampled, *_random(secret, task).sample(unseen, min(len(unseen), wanted))]


def work_range(task: Task) -> WorkRange:
    return WorkRange.around(task.operator, task.cases(Split.SEEN))


def hidden_cases(
    task: Task, seed: int, secret: bytes, max_elements: int | None = None
) -> list[Case]:
    """Return the unseen cases and SAMPLED ones, smallest first.

    Those that may be timed are drawn by `secret`, until they are of the public ones' size. The
    others are drawn by `seed`. None has more than `max_elements`, and with such a limit nothing is
    timed.
    """
    known = task.cases(Split.UNSEEN, max_elements) if max_elements else lasting_cases(task, secret)
    fresh, names = Random(seed), {f"sampled-{number}" for number in range(SAMPLED)}
    drawn = [
        task.operator.domain.sample(fresh, name, task.dtypes, max_elements)
        for name in sorted(names - {case.name for case in known})
    ]
    return sorted([*known, *drawn], key=task.operator.elements)


def lasting_cases(task: Task, secret: bytes) -> list[Case]:
    """Return the hidden cases that are the same in every verdict on this machine, smallest first.

    They are the unseen ones, and those sampled by `secret` that may be timed.
    """
    compared, random = work_range(task), _random(secret, task)
    sampled = []
    for name in TIMED_NAMES:
        for _ in range(MAX_DRAWS):
            case = task.operator.domain.sample(random, name, task.dtypes)
            if case in compared:
                break
        sampled.append(case)
    return sorted([*task.cases(Split.UNSEEN), *sampled], key=task.operator.elements)


def _random(secret: bytes, task: Task) -> Random:
    """Return a generator whose numbers are the same for each submission to a task."""
    return Random(secret + task.hash.encode())
