"""States of runs and evaluations, and the visibility of runs."""

from __future__ import annotations

from django.db import models

from evaluation.types import Verdict


class Visibility(models.TextChoices):
    PUBLIC = "public"
    OWNER = "owner"
    STAFF = "staff"


class RunStatus(models.TextChoices):
    QUEUED = "queued"
    RUNNING = "running"
    JUDGING = "judging"
    PASSED = "passed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    BROKEN = "broken"


class Fault(models.TextChoices):
    """Fault for the end of a run; empty when it passed or has not ended."""

    NOBODY = ""
    CANDIDATE = "candidate"
    ARENA = "arena"
    USER = "user"
    PROVIDER = "provider"
    """The provider of the model."""


class EvaluationStatus(models.TextChoices):
    QUEUED = "queued"
    BUILDING = "building"
    BUILT = "built"
    MEASURING = "measuring"
    DONE = "done"
    BROKEN = "broken"


class Scope(models.TextChoices):
    """Scope of an evaluation.

    `round` stops after the seen cases, so that an agent learns nothing of the hidden ones. A
    `profile` has no verdict; it measures the kernels of a round one by one. A `rejudge` is to
    replace a final verdict, which then is `past`; so is a `rejudge` that replaced nothing.
    """

    ROUND = "round"
    FINAL = "final"
    PROFILE = "profile"
    REJUDGE = "rejudge"
    PAST = "past"


NO_JUDGEMENT = (Verdict.SKIPPED, Verdict.INCONCLUSIVE)
"""Verdicts that say nothing of the candidate."""
SCOPES_COUNTED = (Scope.ROUND, Scope.FINAL)
"""Scopes of the verdicts that statistics count."""
RUN_ACTIVE = (RunStatus.QUEUED, RunStatus.RUNNING, RunStatus.JUDGING)
RUN_JUDGED = (RunStatus.PASSED, RunStatus.FAILED)
EVALUATION_WAITING = (EvaluationStatus.QUEUED, EvaluationStatus.BUILT)
EVALUATION_HELD = (EvaluationStatus.BUILDING, EvaluationStatus.MEASURING)
EVALUATION_ACTIVE = EVALUATION_WAITING + EVALUATION_HELD


def outcome_of(verdict: str, reason: str) -> tuple[RunStatus, str, Fault]:
    """Return the status, reason and fault of a run with this final verdict."""
    if verdict == Verdict.PASSED:
        return RunStatus.PASSED, "", Fault.NOBODY
    if verdict == Verdict.INCONCLUSIVE:
        return RunStatus.BROKEN, reason, Fault.ARENA
    return RunStatus.FAILED, reason, Fault.CANDIDATE
