"""Outcomes of published kernels: a claim, beside what this judge found.

A kernel is published with a claim: that it is right, and often by how much it is faster than a
baseline. The rules below name what became of the claim. They are applied in the order of `OUTCOMES`
and stated on the page by its sentences, so that a figure and its rule cannot differ:

- A verdict other than *passed* decides alone: specialised, wrong, forbidden, failed, not judgeable.
- A kernel that passed without a claimed ratio is *right, no ratio claimed*.
- Its claim of more than 1x is *slower* where the judged interval ends below 1x.
- Else the claim *holds* where the judged interval ends at HOLDS_SHARE of the claimed ratio or
  above, and is *smaller* where it ends below that.

The rules take no account of hardware: many claims were made on other devices than the judge's,
which `same_device` marks.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

HOLDS_SHARE = 0.9
"""The least part of a claimed ratio that the judged interval must reach."""
DEVICE_NAME = re.compile(r"[A-Z]{0,4}\d{2,4}[A-Z]?")
"""The part of a device's name that tells models apart: H100, L40S, 4090."""


class Status(StrEnum):
    """Verdicts on a published kernel.

    A *passed* one is right at any size, a *specialised* one at the suite's sizes alone. One that is
    *right for its suite alone* is so by the suite's check there, and not by this judge.
    """

    PASSED = "passed"
    SPECIALISED = "specialised"
    SUITE_RIGHT = "suite_right"
    WRONG = "wrong"
    FORBIDDEN = "forbidden"
    FAILED = "failed"
    UNSUPPORTED = "unsupported"
    INCONCLUSIVE = "inconclusive"
    NOT_JUDGED = "not_judged"


RULES = {
    "suite": "its suite's own tolerance",
    "tf32": "matrix products in TF32",
    "ieee": "IEEE float32",
}
"""Rules of precision that a kernel may keep at the suite's size, the suite's own first."""
RIGHT_AT_SUITE_SIZE = (Status.PASSED, Status.SPECIALISED)
NO_VERDICT = (Status.UNSUPPORTED, Status.INCONCLUSIVE, Status.NOT_JUDGED)


OVER_MEMORY = "OUT_OF_MEMORY"
"""Reason of a kernel that took more memory than this judge gives one; its suite has no limit."""


@dataclass(frozen=True)
class Undecided:
    """Reason why this judge could not decide: a short label, and a sentence for a page."""

    label: str
    sentence: str


UNDECIDED = {
    "OVER_TIME_LIMIT": Undecided(
        "time limit of the judge", "The verdict took longer than this judge gives one."
    ),
    "JUDGE_ERROR": Undecided(
        "error of the judge", "The judge failed, which its message explains, and not the kernel."
    ),
    OVER_MEMORY: Undecided(
        "memory limit of the judge",
        "It took more GPU memory than this judge gives a kernel. Its suite sets no such limit.",
    ),
    "NO_TASK": Undecided(
        "problem not imported", "Its problem is not among those that this judge can take."
    ),
    "OTHER_ARGUMENTS": Undecided(
        "other arguments", "It takes other arguments than its problem gives."
    ),
    "FASTER_THAN_ROOFLINE": Undecided(
        "faster than the device",
        "Its time is shorter than this device needs to move the bytes or to do the arithmetic of "
        "the problem, so it leaves out work.",
    ),
    "UNSUPPORTED": Undecided(
        "unsupported by the judge", "It uses something that this judge does not support."
    ),
}
"""Reasons of kernels that are not judgeable: none of them counts for or against a model."""


class Outcome(StrEnum):
    """Classes of what became of a claim, as a link names them."""

    HOLDS = "holds"
    SMALLER = "smaller"
    SLOWER = "slower"
    RIGHT = "right"
    SPECIALISED = "specialised"
    SUITE_RIGHT = "suite-right"
    WRONG = "wrong"
    FORBIDDEN = "forbidden"
    FAILED = "failed"
    NOT_JUDGEABLE = "not-judgeable"


@dataclass(frozen=True)
class Described:
    """The label of an outcome, its rule as a sentence, and the pill of verdicts that it shares."""

    outcome: Outcome
    label: str
    rule: str
    pill: str


OUTCOMES = {
    each.outcome: each
    for each in (
        Described(
            Outcome.HOLDS,
            "holds",
            "Right at any size, and the upper end of the judged interval is at least "
            f"{HOLDS_SHARE:.0%} of the claimed ratio, which may be below 1×.",
            "passed",
        ),
        Described(
            Outcome.SMALLER,
            "smaller than claimed",
            "Right at any size, but the judged interval ends below "
            f"{HOLDS_SHARE:.0%} of the claimed ratio.",
            "disputed",
        ),
        Described(
            Outcome.SLOWER,
            "slower than the baseline",
            "Right at any size and claimed to be faster, but the judged interval ends below 1×.",
            "disputed",
        ),
        Described(
            Outcome.RIGHT,
            "right, no ratio claimed",
            "Right at any size; its collection states no ratio to compare.",
            "passed",
        ),
        Described(
            Outcome.SPECIALISED,
            "specialised",
            "Right at the suite's own sizes, and wrong or refused at another size.",
            "disputed",
        ),
        Described(
            Outcome.SUITE_RIGHT,
            "right for its suite alone",
            "Within the suite's own tolerance on inputs as the suite draws them, and wrong by this "
            "judge, which draws others too and allows no more than roundings explain.",
            "disputed",
        ),
        Described(
            Outcome.WRONG, "wrong", "Its values are wrong at the suite's own sizes.", "failed"
        ),
        Described(
            Outcome.FORBIDDEN,
            "forbidden",
            "It breaks a rule of the judge, which the verdict names.",
            "rejected",
        ),
        Described(
            Outcome.FAILED,
            "does not run",
            "It does not build, load or finish on the judge's device.",
            "failed",
        ),
        Described(
            Outcome.NOT_JUDGEABLE,
            "not judgeable",
            "This judge could not decide: it does not support something, or met its own limits of "
            "time or memory. The verdict gives the reason, and counts neither for nor against the "
            "model.",
            "skipped",
        ),
    )
}
"""Every outcome with its label and its rule, in the order of the page."""
OF_STATUS = {
    Status.SPECIALISED: Outcome.SPECIALISED,
    Status.SUITE_RIGHT: Outcome.SUITE_RIGHT,
    Status.WRONG: Outcome.WRONG,
    Status.FORBIDDEN: Outcome.FORBIDDEN,
    Status.FAILED: Outcome.FAILED,
    **dict.fromkeys(NO_VERDICT, Outcome.NOT_JUDGEABLE),
}


def outcome_of(
    status: str, claimed: float | None, speedup: float | None, high: float | None
) -> Outcome:
    """Return what became of a claim, by the rules of this module.

    `claimed` is the claimed ratio, `speedup` the judged one with its interval up to `high`.
    """
    verdict = Status(status)
    if verdict is not Status.PASSED:
        return OF_STATUS[verdict]
    if claimed is None:
        return Outcome.RIGHT
    reached = high if high is not None else speedup
    if reached is None:
        return Outcome.NOT_JUDGEABLE
    if claimed > 1 and reached < 1:
        return Outcome.SLOWER
    return Outcome.HOLDS if reached >= HOLDS_SHARE * claimed else Outcome.SMALLER


def decided(status: str, reason: str) -> str:
    """Return the status of a verdict; one by the judge's own limit of memory decides nothing."""
    return Status.NOT_JUDGED if reason == OVER_MEMORY else status


def same_device(claimed: str, judged: str) -> bool | None:
    """Return whether two names are of one model of device; None where either is not known."""
    one, other = (
        {word for word in re.split(r"[\s,/()_-]+", name.upper()) if DEVICE_NAME.fullmatch(word)}
        for name in (claimed, judged)
    )
    return bool(one & other) if one and other else None
