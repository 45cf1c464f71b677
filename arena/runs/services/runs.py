"""Transitions of a run: started, claimed, renewed, ended. Each is a conditional update."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Collection, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models.functions import Now

from arena import queue, sockets
from arena.accounts.models import User
from arena.audit.services import record_of_staff
from arena.catalog.models import Agent, Hardware, Task, TaskVersion, Worker
from arena.catalog.near_tasks import hint_of
from arena.errors import (
    CannotJudge,
    CannotWork,
    Conflict,
    Forbidden,
    NotFound,
    QuotaExceeded,
    UserError,
)
from arena.runs import traffic
from arena.runs.models import Evaluation, Experiment, Run, Submission
from arena.runs.querysets import NAMED
from arena.runs.quotas import RUNS, check_day, lock_owner
from arena.runs.scoring.answered import answered_by
from arena.runs.scoring.judges import judged_by
from arena.runs.scoring.standings import keep_standing
from arena.runs.spending import spending
from arena.runs.states import (
    EVALUATION_ACTIVE,
    RUN_ACTIVE,
    RUN_JUDGED,
    EvaluationStatus,
    Fault,
    RunStatus,
    Visibility,
)
from arena.runs.trace.recording import note
from arena.runs.trace.redaction import clean

_START_A_WORKER = "Start a worker: it registers what it finds."
BUDGET = {"rounds": 12, "seconds": 300}
BUDGET_BOUNDS = {
    "rounds": (1, 200),
    "seconds": (10, 24 * 3600),
    "turns": (1, 10_000),
    "tokens": (1000, 10**10),
    "usd": (0.01, 10_000),
}
"""Limits of a run. `turns` are calls of the model; what `BUDGET` does not have is optional."""


def start_run(
    *,
    task_slug: str,
    agent_slug: str,
    hardware_slug: str | None = None,
    owner: User | None = None,
    budget: Mapping[str, Any] | None = None,
    label: str = "",
    experiment: Experiment | None = None,
    repeat: int = 0,
    visibility: str = Visibility.PUBLIC,
    continues: Run | None = None,
    counted: bool = True,
) -> Run:
    """Queue a run and send it to the agent workers; `counted` applies the limit of its owner.

    Raises: UserError if it cannot run.
    """
    if continues is None:  # else it is as visible as the run before, whoever decided that
        check_visibility(visibility, owner)
    version = task_version(task_slug)
    agent = active_agent(agent_slug)
    _check_model(agent, owner)
    kinds = kinds_for(agent, version.task)
    what = f"{agent.title} at it" if agent.kinds else "this task"
    hardware = find_hardware(hardware_slug, kinds, what)
    with transaction.atomic():
        if counted:
            lock_owner(owner)
            check_quota(owner)
        inherited = {} if continues is None else {"by_arena": continues.by_arena}
        run = Run.objects.create_for(
            owner,
            task_version=version,
            agent=agent,
            hardware=hardware,
            budget=checked_budget(budget),
            label=label[:100],
            experiment=experiment,
            repeat=repeat,
            visibility=visibility,
            continues=continues,
            **inherited,
        )
        place = Run.objects.ahead_of(run).count() + 1
        record_status(run.pk, RunStatus.QUEUED, queue=queue.AGENTS, queue_position=place)
        queue.enqueue(*run.queue_message)
    return run


def new_lease() -> str:
    """Return the name of a claim, which no other claim has."""
    return f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"


def claim_run(run_id: str, lease: str) -> Run | None:
    """Move a queued run to running; None if another worker has it or it has ended."""
    with transaction.atomic():
        if not Run.objects.filter(cancel_requested=False).claim(run_id, lease):
            return None
        record_status(run_id, RunStatus.RUNNING)
    # without its owner, whom workers may not read
    return Run.objects.with_names().select_related(None).select_related(*NAMED).get(pk=run_id)


def claim_next(lease: str) -> Run | None:
    """Claim the next queued run that live workers can judge; None if there is none."""
    for run_id in list(Run.objects.in_turn().served().values_list("pk", flat=True)):
        if run := claim_run(run_id, lease):
            return run
    return None


def heartbeat_run(run_id: str, lease: str) -> bool:
    """Renew a run's lease; False if it is lost or the run is to stop."""
    return Run.objects.filter(cancel_requested=False).renew(run_id, lease)


def finish_run(run_id: str, lease: str, status: str, reason: str = "", fault: str = "") -> bool:
    """End a run without a verdict: no submission, a crash, a cancellation.

    False if it has ended already or the lease is lost. A run that is being judged ends with its
    final evaluation.
    """
    held = {"lease": lease, "status__in": (RunStatus.RUNNING, RunStatus.JUDGING)}
    return end_run(run_id, held, status, reason, fault)


def cancel_run(run: Run, user: User | None) -> Run:
    """Cancel a run: at once if no agent works on it, else at its worker's next heartbeat.

    `user` is None for the command line. The reason is public, so an owner is not named in it.

    Raises: Forbidden; Conflict if the run has ended otherwise.
    """
    if not Run.objects.changeable_by(user).contains(run):
        raise Forbidden("Only its owner or staff may cancel a run.")
    by = user.get_username() if user else "the command line"
    if user is not None and run.owner_id == user.pk:
        by = "its owner"  # who may close the account later
    with transaction.atomic():
        without_worker = [RunStatus.QUEUED, RunStatus.JUDGING]
        if run.is_external:
            without_worker.append(RunStatus.RUNNING)
        idle = {"status__in": without_worker}
        ended = end_run(run.pk, idle, RunStatus.CANCELLED, f"Cancelled by {by}.", Fault.USER)
        asked = False
        if not ended:
            working = Run.objects.active().filter(pk=run.pk, cancel_requested=False)
            asked = bool(working.update(cancel_requested=True))
            if asked:
                note(run.pk, "interrupt", {"text": "Cancellation was asked for.", "by": by})
        if ended or asked:
            record_of_staff(user, "run.cancel", run)
    run.refresh_from_db()
    if run.ended and run.status != RunStatus.CANCELLED:
        raise Conflict(f"This run has ended already: {run.get_status_display().lower()}.")
    return run


def show_run(run: Run) -> None:
    """Show a run to everybody; boards count it from now on."""
    with transaction.atomic():
        Run.objects.filter(pk=run.pk).update(visibility=Visibility.PUBLIC)
        keep_standing(run)
        sockets.nudge(sockets.BOARD)


def end_run(
    run_id: str,
    condition: Mapping[str, Any],
    status: str,
    reason: str = "",
    fault: str = "",
    **results: Any,
) -> bool:
    """End a run that meets `condition`, once, and its open evaluations."""
    if status in RUN_ACTIVE:
        raise ValueError(f"{status!r} is not an end")
    reason = clean(reason)
    with transaction.atomic():
        spent = spending(run_id)
        if status in RUN_JUDGED:
            results |= judged_by(run_id)
        agent = Agent.objects.get(runs=run_id)
        active = Run.objects.active().filter(pk=run_id, **condition)
        if not active.update(
            status=status,
            reason=reason,
            fault=fault,
            ended_at=Now(),
            cost_usd=spent.cost_usd,
            tokens=spent.tokens,
            answered_by=answered_by(run_id, agent),
            **results,
        ):
            return False
        submissions = Submission.objects.filter(run=run_id)
        Evaluation.objects.filter(submission__in=submissions, status__in=EVALUATION_ACTIVE).update(
            status=EvaluationStatus.BROKEN,
            message="The run ended before this was judged.",
            ended_at=Now(),
            lease="",
        )
        record_status(run_id, status, reason=reason, fault=fault)
        if status in RUN_JUDGED:
            run = Run.objects.select_related("task_version").get(pk=run_id)
            keep_standing(run)
            traffic.forget(_chain(run))
    return True


def _chain(run: Run) -> list[str]:
    """Return the ids of a run and of the broken runs that it continues."""
    ids, before = [run.pk], run.continues
    while before is not None:
        ids.append(before.pk)
        before = before.continues
    return ids


def record_status(run_id: str, state: str, **more: Any) -> None:
    """Record a change of state, and notify the boards."""
    note(run_id, "status", {"state": state, **more}, id="status")
    sockets.nudge(sockets.BOARD)


def task_version(slug: str) -> TaskVersion:
    """Return the newest version of a task that takes runs. Raises: NotFound, Conflict.

    A draft is not found: only staff may know that there is one.
    """
    task = Task.objects.by_slug(slug).exclude(status=Task.Status.DRAFT).first()
    if task is None:
        raise NotFound(f"There is no task {slug!r}.", hint_of(slug))
    version = task.version
    if version and (why := getattr(version.facts, "unavailable", "")):
        raise Conflict(f"The task {slug!r} cannot be judged here: {why}.")
    if version is None or not task.takes_runs:
        raise Conflict(f"The task {slug!r} is {task.status}: it takes no runs.")
    return version


def active_agent(slug: str) -> Agent:
    """Return an agent that takes runs. Raises: NotFound."""
    agent = Agent.objects.filter(slug=slug, active=True).first()
    if agent is None:
        known = ", ".join(Agent.objects.filter(active=True).values_list("slug", flat=True))
        hint = f"Agents here: {known or 'none yet'}; `python -m runners sync` looks for new ones."
        raise NotFound(f"There is no agent {slug!r}.", hint)
    return agent


def _check_model(agent: Agent, owner: User | None) -> None:
    """Raise Forbidden for an agent that spends keys which its user may not spend."""
    if agent.model and owner is not None and not owner.may_use_models:
        raise Forbidden(
            f"{agent.title} calls a model, which spends the keys of this arena.",
            "Ask an admin for the permission, or bring an agent of your own.",
        )


def kinds_of(task: Task) -> tuple[str, ...]:
    """Return the kinds of device that can judge a task, best first."""
    version = task.version if task.kind.one_speedup else None
    return task.kind.device_kinds(task.track, version.public if version else {})


def kinds_for(agent: Agent, task: Task) -> list[str]:
    """Return the kinds of device that can judge an agent at a task, best first.

    Raises: CannotWork if the agent does not work on the task, or for none of these kinds.
    """
    if agent.tasks and not any(fnmatchcase(task.slug, pattern) for pattern in agent.tasks):
        others = ", ".join(agent.tasks)
        raise CannotWork(f"{agent.title} does not work on {task.slug}.", f"It works on {others}.")
    kinds = [kind for kind in kinds_of(task) if not agent.kinds or kind in agent.kinds]
    if not kinds:
        raise CannotWork(f"{agent.title} does not work for what judges {task.slug}.")
    return kinds


def find_hardware(slug: str | None, kinds: Sequence[str], what: str) -> Hardware:
    """Return the named hardware, else the best of these kinds.

    Hardware whose queue a live worker serves comes first, then the best kind, then the hardware
    seen last.
    """
    if slug:
        named = Hardware.objects.filter(slug=slug).first()
        if named is None:
            slugs = ", ".join(Hardware.objects.order_by("slug").values_list("slug", flat=True))
            hint = f"Hardware here: {slugs}." if slugs else _START_A_WORKER
            raise NotFound(f"There is no hardware {slug!r}.", hint)
        hardware = named
    else:
        known = list(Hardware.objects.order_by("-seen_at"))
        if not known:
            raise NotFound("There is no hardware yet.", _START_A_WORKER)
        hardware = best_hardware(known, kinds, Worker.objects.queues())
    if hardware.kind not in kinds:
        needed = " or ".join(kind.upper() for kind in kinds)
        raise CannotJudge(f"{hardware.name} cannot judge {what}, which needs a {needed}.")
    return hardware


def best_hardware(
    known: Sequence[Hardware], kinds: Sequence[str], served: Collection[str]
) -> Hardware:
    """Return the first hardware whose queue is `served`, then the best kind, then the first.

    It is of another kind only where there is none of these kinds.
    """
    return min(
        known,
        key=lambda h: (
            h.kind not in kinds,
            h.queue not in served,
            kinds.index(h.kind) if h.kind in kinds else 0,
        ),
    )


def check_visibility(visibility: str, owner: User | None) -> None:
    """Raise UserError for no visibility, and Forbidden for one that hides a run from its owner."""
    if visibility not in Visibility.values:
        raise UserError(f"Unknown visibility {visibility!r}.", f"One of {Visibility.values}.")
    if visibility == Visibility.STAFF and owner is not None and not owner.is_staff:
        raise Forbidden(
            "Only staff may start a run that staff alone can see.",
            "Choose the visibility owner: only you and staff see the run.",
        )


def checked_budget(asked: Mapping[str, Any] | None) -> dict[str, float]:
    budget: dict[str, float] = dict(BUDGET)
    for name, value in (asked or {}).items():
        if name not in BUDGET_BOUNDS:
            raise UserError(f"Unknown budget {name!r}.", f"One of {', '.join(BUDGET_BOUNDS)}.")
        low, high = BUDGET_BOUNDS[name]
        kinds = (int, float) if name == "usd" else int
        if isinstance(value, bool) or not isinstance(value, kinds) or not low <= value <= high:
            raise UserError(f"The budget of {name} is {value!r}.", f"A number, {low} to {high}.")
        budget[name] = value
    return budget


def check_quota(owner: User | None, more: int = 1) -> None:
    """Raise QuotaExceeded for a user with too many active runs; staff have no limit."""
    if owner is None or owner.is_staff:
        return
    active = Run.objects.of_agents().active().filter(owner=owner).count()
    limit = settings.MAX_ACTIVE_RUNS
    if active + more <= limit:
        check_day(owner, RUNS, more)
        return
    if more == 1:
        text = f"You have {active} runs queued or running, which is the limit."
    else:
        text = (
            f"These are {more} runs, you have {active} queued or running, and the limit is {limit}."
        )
    hint = "Start fewer." if 1 < limit < more else "Wait for one to end, or cancel one."
    raise QuotaExceeded(text, hint)
