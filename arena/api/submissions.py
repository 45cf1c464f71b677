"""API of kernels submitted without an agent, and of the rewards of all submissions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal

from django.db.models import Q, QuerySet
from django.http import HttpRequest
from ninja import Field, Query, Router, Schema, Status
from ninja.throttling import AuthRateThrottle

from arena.accounts.auth import SUBMIT, signed_in
from arena.api.schemas import GateOut, Interval, MeasurementOut, ScoresOut, WaitingOut
from arena.errors import NotFound
from arena.runs import services
from arena.runs.display.waiting import Waiting, waiting_of
from arena.runs.models import Evaluation, Run, Submission
from arena.runs.scoring.reward import Outcome, reward
from arena.runs.states import EVALUATION_ACTIVE, Scope
from arena.text import Text
from evaluation.types import Split, Verdict

router = Router(tags=["submissions"])
MAX_REWARDS = 100
PENDING, JUDGED, BROKEN = "pending", "judged", "broken"


class SubmissionThrottle(AuthRateThrottle):
    """Counts submissions apart from other requests."""

    scope = "submission"


class SubmissionIn(Schema, extra="forbid"):
    task: Text = Field(examples=["rms_norm/cpp-to-cpp"])
    source: Text = Field(
        min_length=1,
        description="Text of the task's target file.",
        examples=['#include <cmath>\n\nextern "C" void rms_norm(...) { ... }\n'],
    )
    hardware: Text | None = Field(None, description="The best device by default.")
    label: Text = Field("", max_length=100)
    note: Text = Field("", max_length=1000)
    scope: Literal["round", "final"] = Field(
        "round", description="`final` judges the held-out cases too; a user has few a day."
    )
    visibility: Literal["owner", "public"] = Field(
        "owner", description="A public kernel with a final verdict is on the board of kernels."
    )


class RewardOut(Schema):
    """The verdict on a submission, with its reward from -1 to 1; see /methodology/#reward."""

    id: str = Field(examples=["k3q8v2m0c7xd-1"])
    run: str = Field(examples=["k3q8v2m0c7xd"])
    round: int
    task: str = Field(examples=["rms_norm/cpp-to-cpp"])
    hardware: str = Field(examples=["cpu-epyc-9654"])
    status: Literal["pending", "judged", "broken"] = Field(
        description="`broken` has no reward: a fault of the arena, no fitting device, or cancelled."
    )
    reward: float | None = Field(
        description="Null unless `judged`, and for a correct kernel whose measurement is noisy.",
        examples=[0.63],
    )
    noisy: bool = Field(description="The interval of a case stayed wide: submit it again.")
    judge_version: str = Field(examples=["6"])
    scope: str | None = Field(description="`round` or `final`, which has held-out cases too.")
    verdict: str = Field(examples=["passed"])
    reason: str = Field(examples=["", "WRONG_VALUES"])
    message: str
    gates: list[GateOut]  # type: ignore[valid-type]
    seen: Interval | None = Field(description="Geometric mean over the public cases.")
    unseen: Interval | None = Field(description="Geometric mean over the held-out cases.")
    cases: list[MeasurementOut] = Field(description="The public cases.")  # type: ignore[valid-type]
    waiting: WaitingOut | None = Field(  # type: ignore[valid-type]
        description="Queue of a pending submission."
    )


@router.post("", response={201: RewardOut}, auth=SUBMIT, throttle=[SubmissionThrottle("600/m")])
def create_submission(request: HttpRequest, body: SubmissionIn) -> Status[dict[str, Any]]:
    """Submit a kernel without an agent; it has no rank among agents."""
    submission = services.submit_kernel(
        task_slug=body.task,
        source=body.source,
        hardware_slug=body.hardware,
        owner=signed_in(request),
        label=body.label,
        note=body.note,
        scope=body.scope,
        visibility=body.visibility,
    )
    [created] = visible_submissions(request, [submission.slug])
    return Status(201, reward_out(created))


@router.get("/rewards", response=list[RewardOut])
def list_rewards(
    request: HttpRequest,
    submission: Annotated[list[Text], Query(min_length=1, max_length=MAX_REWARDS)],
) -> list[dict[str, Any]]:
    """Return the rewards of several submissions, in the order of their ids in `submission`."""
    found = {each.slug: each for each in visible_submissions(request, submission)}
    for slug in submission:
        if slug not in found:
            raise _not_found(slug)
    return [reward_out(found[slug]) for slug in submission]


@router.get("/{submission_id}/reward", response=RewardOut)
def get_reward(request: HttpRequest, submission_id: str) -> dict[str, Any]:
    """Return the reward of a submission, also of a round of an agent; null until it is judged."""
    found = visible_submissions(request, [submission_id])
    if not found:
        raise _not_found(submission_id)
    return reward_out(found[0])


def _not_found(slug: str) -> NotFound:
    hint = "An id is that of a run, a hyphen and the number of a round."
    return NotFound(f"There is no submission {slug!r} that you may see.", hint)


def visible_submissions(request: HttpRequest, slugs: Iterable[str]) -> Sequence[Submission]:
    """Return the submissions with these ids that the user can see."""
    named = Q(pk__in=())
    for slug in slugs:
        run_id, _, number = slug.rpartition("-")
        if number.isascii() and number.isdigit() and len(number) < 9:
            named |= Q(run=run_id, round=int(number))
    visible = Run.objects.visible_to(request.user)
    found: QuerySet[Submission] = Submission.objects.filter(named, run__in=visible)
    return list(
        found.defer("files")
        .select_related("run__task_version__task__operator", "run__hardware")
        .prefetch_related("evaluations__gates", "evaluations__measurements")
    )


def _verdict(submission: Submission) -> Evaluation | None:
    """Return the final evaluation once it has a verdict, else that of the round."""
    by_scope = {each.scope: each for each in submission.evaluations.all()}
    final, own = by_scope.get(Scope.FINAL), by_scope.get(Scope.ROUND)
    if final and (own is None or final.verdict not in ("", Verdict.BROKEN)):
        return final
    return own


def reward_out(submission: Submission) -> dict[str, Any]:
    evaluation, run = _verdict(submission), submission.run
    active = evaluation.status in EVALUATION_ACTIVE if evaluation else not run.ended
    value = None
    if evaluation and not active:
        value = reward(_outcome(evaluation))
    noisy = evaluation is not None and evaluation.noisy and evaluation.verdict == Verdict.PASSED
    status = PENDING if active else JUDGED if noisy or value is not None else BROKEN
    waiting: Waiting | None = waiting_of(run) if status == PENDING else None
    scores = evaluation if status == JUDGED else None
    return {
        "id": submission.slug,
        "run": run.pk,
        "round": submission.round,
        "task": run.task_version.task.slug,
        "hardware": run.hardware.slug,
        "status": status,
        "reward": value,
        "noisy": noisy,
        "judge_version": evaluation.judge_version if evaluation else "",
        "scope": evaluation.scope if evaluation else None,
        "verdict": evaluation.verdict if evaluation else "",
        "reason": evaluation.reason if evaluation else "",
        "message": evaluation.message if evaluation else "",
        "gates": _gates(evaluation) if evaluation else [],
        "seen": ScoresOut.resolve_seen(scores) if scores else None,
        "unseen": ScoresOut.resolve_unseen(scores) if scores else None,
        "cases": _seen_cases(evaluation) if evaluation else [],
        "waiting": waiting,
    }


def _gates(evaluation: Evaluation) -> list[Any]:
    return sorted(evaluation.gates.all(), key=lambda gate: gate.pk)


def _seen_cases(evaluation: Evaluation) -> list[Any]:
    seen = (each for each in evaluation.measurements.all() if each.split == Split.SEEN)
    return sorted(seen, key=lambda measurement: measurement.pk)


def _outcome(evaluation: Evaluation) -> Outcome:
    """Return what the reward depends on; the gate that stopped it is the first not passed."""
    stopped = [gate.gate for gate in _gates(evaluation) if gate.verdict != Verdict.PASSED]
    lows = (evaluation.low, evaluation.unseen_low)
    return Outcome(
        verdict=evaluation.verdict,
        reason=evaluation.reason,
        gate=stopped[0] if stopped else "",
        noisy=evaluation.noisy,
        lows=[low for low in lows if low is not None],
    )
