"""Attempt at a run: the agent, its rounds, and the final judging."""

from __future__ import annotations

import json
import logging
import math
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import OperationalError, connections

from arena import logs
from arena.catalog.task_folders import root_of
from arena.errors import Conflict, UserError
from arena.runs import services
from arena.runs.models import Evaluation, Run, Submission
from arena.runs.scoring.best import chosen_round, end_without_final
from arena.runs.states import EvaluationStatus, Fault, RunStatus, Scope
from arena.runs.trace.events import EventDraft
from evaluation.sandbox import resource_watch, untrusted_files
from evaluation.sandbox.resource_watch import ResourceWatch
from evaluation.types import Verdict
from runners import agents, harnesses
from runners.agents import workspace_files
from runners.process.supervisor import LINE_BYTES, Child, Ended, Ending, stopping
from runners.session import verdicts
from runners.session.arena_check import ARENA_FAULT
from runners.session.confinement import confined, environment
from runners.session.control_socket import Answer, ControlSocket, TimeBudget, refused
from runners.session.recorder import MAX_BYTES, MAX_EVENTS, Recorder
from runners.session.task_sheet import run_files
from runners.session.workspace import Unreadable, Workspace, has_mcp
from runners.worker.bench import processor_is_measured
from runners.worker.model_gateway import Failure, ModelGateway, NoModel
from runners.worker.shared_traffic import SharedTraffic
from runners.worker.suspension import Suspension

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.2
PROFILES = 12
"""Profiles per run; repeating one is free."""
MAX_CASE = 200
UNASKED = "as it was left: the agent asked for no verdict"
NO_TOOL = (
    "The model called no tool: it only wrote text, or its server does not turn its calls into tool"
    " calls. Try a model that is made for tools, or another template of the server."
)
HEARING_SECONDS = 3.0
"""Time for an agent to end after a failure of the arena or of its model."""
SPENT_SECONDS = 30.0
"""Time for an agent to end once its model refuses to answer for its budget."""


def attempt(run_id: str = "") -> None:
    """Execute a queued run, by default the next in turn; only one caller claims it."""
    lease = services.new_lease()
    run = services.claim_run(run_id, lease) if run_id else services.claim_next(lease)
    if run is None:
        return
    logs.add(run=run.pk)
    try:
        sweep()
        _Attempt(run, lease).carry_out()
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        if isinstance(error, OperationalError):  # a busy or lost database: the run is continued
            services.interrupt_run(run.pk, _held(lease), reason)
        else:
            services.finish_run(run.pk, lease, RunStatus.BROKEN, reason, Fault.ARENA)
        raise


def _held(lease: str) -> dict[str, str]:
    """Return the condition that a run is at work under this lease."""
    return {"lease": lease, "status": RunStatus.RUNNING}


def sweep() -> None:
    """Remove workspaces of ended runs that a killed worker left; errors are only logged."""
    try:
        left = {path.name: path for path in workspaces().iterdir()} if workspaces().exists() else {}
        alive = Run.objects.active().filter(pk__in=left).values_list("pk", flat=True)
        for run_id in left.keys() - set(alive):
            if not untrusted_files.remove(left[run_id]):
                logger.warning("not removed: %s", left[run_id])
    except Exception:
        logger.exception("workspaces are not swept")


def workspaces() -> Path:
    folder: Path = settings.ARENA_HOME / "workspaces"
    return folder


class _Attempt:
    def __init__(self, run: Run, lease: str) -> None:
        self.run = run
        self.lease = lease
        self.rounds = int(run.budget["rounds"])
        self.clock = TimeBudget(run.budget["seconds"])
        self.broken = ""
        """Why the arena could not judge a round."""
        self.unmeasured = ""
        """Why its last round could not be measured; empty where it was."""
        self.unsent = ""
        """Why nothing was submitted."""
        self.failure: Failure | None = None
        """Why it cannot go on: of its model, or of what it did."""
        self.spent = False
        """Whether a budget of its model is spent."""
        self._refused: set[str] = set()
        """Reasons why requests of the agent were refused."""
        self._until = math.inf
        """End of the agent on the monotonic clock."""
        self._over = threading.Event()
        task, public = run.task_version.task, run.task_version.public
        kind, root = task.kind, root_of(run.task_version)
        more = workspace_files(run.agent.adapter, root, task.operator.slug, task.track)
        self.workspace = Workspace.create(
            workspaces() / run.pk,
            {**run_files(kind.sheet, public, run.hardware, run.budget, mcp=has_mcp()), **more},
            public["target_file"],
            kind.tree(root, task.operator.slug),
        )
        self.control_socket = ControlSocket(self.workspace.folder, self._check, self._profile)
        self.recorder = Recorder(run.pk, f"agent:{lease}")

    def carry_out(self) -> None:
        with ExitStack() as stack:
            stack.callback(self.workspace.remove)
            try:
                self.installed = self._find_harness()
                self.gateway = self._create_gateway()
            except NoModel as error:
                self._finish(RunStatus.BROKEN, str(error), Fault.USER)
                return
            ended = self._let_work()
            self.recorder.flush()
            if self.control_socket.failure is not None:
                raise self.control_socket.failure
            if not self.broken and not self.failure and not self._stopped(ended):
                self._hand_in_unasked()
        self._conclude(ended)

    def _find_harness(self) -> harnesses.Installed:
        """Return the program of its harness. Raises: NoModel where it is not installed."""
        installed = harnesses.find(self.run.agent.adapter)
        if installed.problem:
            raise NoModel(f"{installed.problem}, where the agents' worker runs.")
        Run.objects.filter(pk=self.run.pk).update(harness_version=installed.version)
        return installed

    def _create_gateway(self) -> ModelGateway | None:
        """Return the gateway to its model; None for an agent without one. Raises: NoModel."""
        agent, wires = self.run.agent, agents.harness(self.run.agent.adapter).wires
        if not wires:
            return None
        if not (agent.model and agent.provider):
            raise NoModel(f"{agent.title} has no model or no provider: set both in its settings.")
        return ModelGateway(
            self.run,
            wires,
            self.clock,
            self._record,
            self._fail,
            self._spend,
            SharedTraffic(self.run.pk),
        )

    def _fail(self, failure: Failure) -> None:
        if self.failure is None:
            self.failure = failure
            self._record("error", {"message": failure.text, "fault": failure.fault})
            self._until = time.monotonic() + HEARING_SECONDS

    def _fail_awake(self) -> None:
        self._fail(Failure("The agent ran while kernels were measured.", Fault.CANDIDATE))

    def _spend(self) -> None:
        self.spent = True
        self._until = min(self._until, time.monotonic() + SPENT_SECONDS)

    def _let_work(self) -> Ended:
        with ExitStack() as stack:
            stack.enter_context(self.control_socket)
            stack.callback(self._over.set)
            control = stack.enter_context(self.gateway.serving()) if self.gateway else -1
            self.agent = self._start_agent(control)
            measuring = partial(processor_is_measured, settings.ARENA_HOME)
            suspension = Suspension(self.agent.pid, self.clock, measuring, self._fail_awake)
            stack.enter_context(suspension.watching())
            watch = ResourceWatch(resource_watch.AGENT_LIMITS, [str(self.workspace.folder)])
            return self.agent.follow(
                deadline=self.clock.deadline, heartbeat=self._heartbeat, watch=watch
            )

    def _start_agent(self, loopback_control: int) -> Child:
        agent, installed = self.run.agent, self.installed
        brief = {
            "task": self.run.task_version.task.slug,
            "target": self.workspace.target,
            "rounds": self.rounds,
            "seconds": self.run.budget["seconds"],
            "submitted": self.run.task_version.task.kind.sheet.submitted,
        }
        request = {
            "adapter": agent.adapter,
            "settings": agent.settings,
            "brief": brief,
            "model": asdict(self.gateway.access) if self.gateway else None,
            "program": installed.program,
        }
        folder = self.workspace.folder
        return Child(
            confined(folder, readable=installed.readable, loopback_control=loopback_control),
            on_lines=self.recorder.record,
            stdin=json.dumps(request),
            cwd=folder,
            env=environment(folder, installed.folders),
            pass_fds=[] if loopback_control < 0 else [loopback_control],
        )

    def _heartbeat(self) -> bool:
        if self.control_socket.failure is not None or time.monotonic() > self._until:
            return False
        return services.heartbeat_run(self.run.pk, self.lease)

    def _check(self, note: str) -> Answer:
        """Answer a request for a verdict, in the control socket's thread."""
        return self._answer(lambda: self._verdict(note))

    def _profile(self, case: str) -> Answer:
        """Answer a request for a profile, in the control socket's thread."""
        return self._answer(lambda: self._profiled(case[:MAX_CASE].strip()))

    def _answer(self, find: Callable[[], Answer]) -> Answer:
        self.agent.drain()  # its output before the request precedes the answer
        try:
            with self.clock.paused():
                if self.broken:  # what it says of the last answer has been heard
                    self._until = -math.inf
                    self._over.wait()
                    return refused("The run is over.")
                return find()
        except Unreadable as error:
            return self._refuse("note", text=str(error))
        except UserError as error:
            return self._refuse("note", text=error.text)
        finally:
            connections.close_all()

    def _verdict(self, note: str) -> Answer:
        used = services.rounds_spent(self.run)
        if used >= self.rounds:
            text = f"All {self.rounds} rounds are spent."
            return self._refuse("limit", name="rounds", limit=self.rounds, used=used, text=text)
        submission = services.submit(self.run.pk, self.workspace.read_target(), note)
        evaluation = services.request_evaluation(submission, Scope.ROUND)
        if not self._ended(evaluation):
            return refused("The run is over.")
        if evaluation.status == EvaluationStatus.BROKEN:
            self.broken = f"Round {submission.round} could not be judged: {evaluation.message}"
        elif evaluation.verdict == Verdict.SKIPPED:
            self.broken = f"{self.run.hardware} cannot judge this task: {evaluation.message}"
        if self.broken:
            self._until = time.monotonic() + HEARING_SECONDS
        if evaluation.verdict == Verdict.INCONCLUSIVE:
            why = f"Round {submission.round} could not be measured: {evaluation.message}"
            self.unmeasured = f"The agent ended early. {why}"
        else:
            self.unmeasured = ""
        left = self.rounds - services.rounds_spent(self.run)
        return verdicts.answer(evaluation, self.rounds, left)

    def _profiled(self, case: str) -> Answer:
        """Answer with a profile of the last round, so that it replaces no verdict."""
        if why := self.run.task_version.task.kind.sheet.no_profile:
            return self._refuse("note", text=why)
        submission = self.run.submissions.order_by("-round").first()
        if submission is None:
            text = "Nothing was handed in yet: ./arena-check does, and that round can be profiled."
            return self._refuse("note", text=text)
        known = self._seen_cases()
        if case and known and case not in known:
            text = f"There is no seen case {case!r}; there are: {', '.join(known)}."
            return self._refuse("note", text=text)
        asked = Evaluation.objects.filter(submission__run=self.run, scope=Scope.PROFILE)
        used = asked.count()
        again = asked.filter(submission=submission, case=case).exists()
        if used >= PROFILES and not again:
            text = f"All {PROFILES} profiles of this run are spent; verdicts are not."
            return self._refuse("limit", name="profiles", limit=PROFILES, used=used, text=text)
        evaluation = services.request_profile(submission, case)
        if not self._ended(evaluation):
            return refused("The run is over.")
        left = PROFILES - used - (not again)
        return verdicts.profile_answer(evaluation, PROFILES, left, self._changed(submission))

    def _seen_cases(self) -> list[str]:
        """Return their names; none where the catalogue has cases for another device kind."""
        public = self.run.task_version.public
        here = public.get("kind") == self.run.hardware.kind
        return [case["name"] for case in public["seen_cases"]] if here else []

    def _changed(self, submission: Submission) -> bool:
        """Return whether the target in the workspace differs from the submission."""
        try:
            return bool(self.workspace.read_target() != submission.files)
        except Unreadable:
            return True

    def _ended(self, evaluation: Evaluation) -> bool:
        """Wait for the end of an evaluation; return False if the run ends before."""
        while evaluation.status not in (EvaluationStatus.DONE, EvaluationStatus.BROKEN):
            if self._over.wait(POLL_SECONDS):
                return False
            evaluation.refresh_from_db()
        return True

    def _refuse(self, kind: str, **body: Any) -> Answer:
        """Refuse a request of the agent, and record each reason once."""
        if body["text"] not in self._refused:
            self._refused.add(body["text"])
            self._record(kind, body)
        return refused(body["text"])

    def _record(self, kind: str, body: dict[str, Any], event: str | None = None) -> None:
        draft = EventDraft(kind, body, id=event, actor="arena")
        services.record(self.run.pk, [draft], producer=self.lease)

    def _hand_in_unasked(self) -> None:
        """Submit the target of an agent that requested no verdict, or keep why it cannot be."""
        if self.run.submissions.exists():
            return
        given = self.run.task_version.public["starter"]
        try:
            files = self.workspace.read_target()
        except Unreadable as error:
            self.unsent = f"Nothing was handed in: {error}."
            return
        if all(given.get(name) == text for name, text in files.items()):
            names = ", ".join(files)
            self.unsent = f"Nothing was handed in: {names} is as it was given."
            if self.gateway and not self.run.events.filter(kind="tool_call").exists():
                self.unsent = f"{NO_TOOL} {self.unsent}"
        else:
            services.submit(self.run.pk, files, UNASKED)

    def _conclude(self, ended: Ended) -> None:
        """Request the final judging of the best round, or end the run with a reason."""
        self._record_stderr(ended)
        if self.failure:
            self._finish(self.failure.status, self.failure.text, self.failure.fault)
        elif self.broken:
            self._finish(RunStatus.BROKEN, self.broken, Fault.ARENA)
        elif self._stopped(ended):
            self._finish_stopped()
        else:
            self._record_ending(ended)
            chosen = chosen_round(self.run)
            failure = self.gateway.last_failure if self.gateway else None
            if chosen is not None:
                self._request_final(chosen)
            elif failure:
                text = " ".join((failure.text, *self._last_words(ended)))
                self._finish(failure.status, text, failure.fault)
            else:
                unjudged = " ".join((self.unsent, *self._last_words(ended)))
                status, reason, fault = end_without_final(self.run, unjudged)
                if self._gave_up(ended) and fault is not Fault.ARENA:
                    reason = f"{reason.rstrip('.')}. {self.unmeasured}"
                self._finish(status, reason, fault)

    def _request_final(self, chosen: Submission) -> None:
        """Request the final judging, unless the run is to be cancelled since its agent ended."""
        try:
            services.request_evaluation(chosen, Scope.FINAL)
        except Conflict:
            self._finish_stopped()

    def _finish(self, status: RunStatus, reason: str, fault: Fault) -> None:
        services.finish_run(self.run.pk, self.lease, status, reason, fault)

    def _finish_stopped(self) -> None:
        """End a run that was cancelled or whose worker stops.

        A run with a newer lease is left alone.
        """
        if stopping.is_set():
            services.interrupt_run(self.run.pk, _held(self.lease), "Its worker was stopped.")
        elif Run.objects.filter(pk=self.run.pk, cancel_requested=True).exists():
            self._finish(RunStatus.CANCELLED, "Cancelled.", Fault.USER)

    def _stopped(self, ended: Ended) -> bool:
        """Return whether it was stopped from outside, and not for a spent budget."""
        if ended.ending is not Ending.STOPPED:
            return False
        held = services.heartbeat_run(self.run.pk, self.lease) and not stopping.is_set()
        return not (self.spent and held)

    def _gave_up(self, ended: Ended) -> bool:
        """Return whether it ended because the machine was too busy to measure its last round."""
        return bool(self.unmeasured) and (ended.ending, ended.code) == (Ending.EXITED, ARENA_FAULT)

    def _crashed(self, ended: Ended) -> bool:
        if self.broken or self.failure or self.spent or self._gave_up(ended):
            return False  # it could not go on
        return ended.ending is Ending.EXITED and ended.code != 0

    def _last_words(self, ended: Ended) -> list[str]:
        """Return the last line of a crashed agent's stderr, which names the error."""
        return ended.stderr.splitlines()[-1:] if self._crashed(ended) else []

    def _record_stderr(self, ended: Ended) -> None:
        """Record the end of its stderr, unless a crash shows it as the error."""
        held = Run.objects.active().filter(pk=self.run.pk, lease=self.lease)
        if ended.stderr and not self._crashed(ended) and held.exists():
            self._record("log", {"text": ended.stderr, "stream": "stderr"})

    def _record_ending(self, ended: Ended) -> None:
        match ended.ending:
            case Ending.DEADLINE:
                seconds = self.run.budget["seconds"]
                text = f"Its {seconds:g} seconds are spent."
                self._record("limit", {"name": "seconds", "limit": seconds, "text": text})
            case Ending.FLOOD:
                limit = f"{MAX_EVENTS:,} events or {MAX_BYTES >> 20} MiB"
                text = f"Its output exceeds the limit of a run, {limit}."
                self._record("limit", {"name": "events", "limit": MAX_EVENTS, "text": text})
            case Ending.LONG_LINE:
                text = f"A line of its output exceeds {LINE_BYTES >> 20} MiB."
                self._record("limit", {"name": "line_bytes", "limit": LINE_BYTES, "text": text})
            case Ending.EXCESS if ended.excess:
                over = ended.excess
                body = {"name": over.name, "limit": over.limit, "used": over.found}
                self._record("limit", {**body, "text": f"It {over}."})
            case Ending.EXITED if self._gave_up(ended):
                self._record("error", {"message": self.unmeasured, "fault": Fault.ARENA})
            case Ending.EXITED if self._crashed(ended):
                text = f"The agent ended with status {ended.code}."
                body = {"message": text, "fault": Fault.CANDIDATE, "traceback": ended.stderr}
                self._record("error", body)
