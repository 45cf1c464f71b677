"""Judging: each stage of an evaluation runs a judge as a child process and stores its output."""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import DatabaseError

from arena import logs, telemetry
from arena.catalog.models import Hardware
from arena.catalog.task_folders import root_of
from arena.home import judge_home
from arena.leases import is_limited
from arena.runs import services
from arena.runs.models import Evaluation
from arena.runs.states import EvaluationStatus, Scope
from evaluation.code.building import nvcc
from evaluation.judge.answers import INCONCLUSIVE, NOT_PASSED, PASSED
from evaluation.types import GateResult, Profile, Report, Verdict, from_json
from runners.process.supervisor import Child, Ended, Ending
from runners.worker import artefacts, health, judge_user
from runners.worker.bench import Bench, OnLines, bench_of, beside_processor, taken
from runners.worker.judge_user import cache
from runners.worker.release import Release

logger = logging.getLogger(__name__)

COMMAND = (sys.executable, "-m", "evaluation")
REPORTED = (PASSED, NOT_PASSED, INCONCLUSIVE)
"""Exit codes of a judge that gives a report."""
ENVIRONMENT = (
    "PATH", "HOME", "LANG", "TMPDIR", "LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_VISIBLE_DEVICES",
    "ROCM_PATH", "HIP_VISIBLE_DEVICES", "ARENA_UNCONFINED", "ARENA_GPU", "ARENA_CUDA_ARCH",
    "ARENA_MEASURE_BUSY",
)  # fmt: skip
"""Variables of a worker's environment that a judge gets: no address or key of the arena."""
JUDGED_AS: Mapping[str, str] = {Scope.PROFILE: Scope.ROUND, Scope.REJUDGE: Scope.FINAL}
"""Scopes that the judge does not know, with those that it judges in their place."""


@dataclass(frozen=True)
class Stage:
    """A part of judging that one queue does, with the states before and after.

    After `seconds` the judge itself has failed: a candidate's limits are shorter.
    """

    name: str
    takes: EvaluationStatus
    holds: EvaluationStatus
    seconds: float


BUILD = Stage("build", EvaluationStatus.QUEUED, EvaluationStatus.BUILDING, 1500)
MEASURE = Stage("measure", EvaluationStatus.BUILT, EvaluationStatus.MEASURING, 2400)


class JudgeBroke(Exception):
    """Raised where the judge ended without a verdict; the message says how."""


class JudgeStopped(JudgeBroke):
    """Raised where the worker or a lost lease stopped the judge."""


def is_interruption(error: Exception) -> bool:
    """Return whether a stop or a lost database ended it, and not a fault of the judge."""
    return isinstance(error, (JudgeStopped, DatabaseError))


def build(evaluation_id: int) -> None:
    """Execute the build stage of a waiting evaluation, while nothing is measured on the cores."""
    with taken([beside_processor(settings.ARENA_HOME)]) as place:
        if place is not None:
            _judge(evaluation_id, BUILD)


def measure(evaluation_id: int) -> None:
    """Execute the measure stage, once a bench of its hardware is free."""
    with bench_of(Evaluation, evaluation_id) as bench:
        if bench is not None:
            _judge(evaluation_id, MEASURE, bench)


def _judge(evaluation_id: int, stage: Stage, bench: Bench | None = None) -> None:
    """Execute `stage` of an evaluation that waits for it."""
    lease = services.new_lease()
    evaluation = services.claim_evaluation(evaluation_id, stage.takes, stage.holds, lease)
    if evaluation is None:
        return
    logs.add(run=evaluation.submission.run_id)
    try:
        with telemetry.span(
            f"verdict {stage.name}",
            run=evaluation.submission.run_id,
            evaluation=evaluation_id,
            scope=evaluation.scope,
        ):
            report = _carry_out(evaluation, stage, lease, bench)
    except Exception as error:
        known = isinstance(error, JudgeBroke)
        text = str(error) if known else f"{type(error).__name__}: {error}"
        logger.warning("evaluation %s, %s: %s", evaluation_id, stage.name, text)
        if not is_interruption(error):
            health.here.broke(evaluation_id, text)
        services.break_evaluation(evaluation_id, lease, text, is_interruption(error))
        if not known:
            raise
    else:
        if report is not None and report.get("verdict") == Verdict.BROKEN:
            health.here.broke(evaluation_id, report["message"])
        else:
            health.here.judged()
        if report is None:
            services.finish_build(evaluation_id, lease)
        elif evaluation.scope == Scope.PROFILE:
            services.finish_profile(evaluation_id, lease, from_json(Profile, report))
        else:
            services.finish_evaluation(evaluation_id, lease, from_json(Report, report))
    if evaluation.scope == Scope.REJUDGE and not is_limited():
        from arena.curation import rejudging  # an offline GPU box has none

        rejudging.advance()


def _carry_out(
    evaluation: Evaluation, stage: Stage, lease: str, bench: Bench | None
) -> Mapping[str, Any] | None:
    """Return the report of a stage; None where the build passed, whose artefact then travels."""
    with ExitStack() as stack:
        arrived = None
        if stage is MEASURE:
            arrived = stack.enter_context(artefacts.arrived(evaluation.pk, judge_home()))
        work = Judging(
            f"evaluation {evaluation.pk}",
            evaluation.hardware,
            stage,
            bench,
            _request(evaluation, stage, arrived),
            partial(services.heartbeat_evaluation, evaluation.pk, lease),
            partial(services.record_gate, evaluation.pk, lease),
            release_of(evaluation.scope),
        )
        report = work.carry_out()
    if report is None and judge_user.account() is None:  # else root would follow its links
        artefacts.send(evaluation, lease, cache() / "builds", work.built)
    return report


def release_of(scope: str) -> Release:
    """Return the wait before a verdict of this scope; one on hidden cases is public after steps."""
    on_hidden = JUDGED_AS.get(scope, scope) == Scope.FINAL
    return Release(settings.FINAL_STEP_SECONDS if on_hidden else 0.0)


def environment() -> dict[str, str]:
    """Return the environment of a judge; one of another user has its home in the cache."""
    home = {"HOME": str(cache())} if judge_user.account() else {}
    return {name: os.environ[name] for name in ENVIRONMENT if name in os.environ} | home


def compiled_for(hardware: Hardware) -> dict[str, str]:
    """Return the environment in which a judge compiles for this hardware."""
    family = re.match(r"sm_\d+", hardware.arch)
    return {"ARENA_CUDA_ARCH": nvcc.exactly(family[0])} if family else {}


def request_of(
    task: str, root: Path, files: Mapping[str, str], scope: str, stage: Stage = MEASURE
) -> dict[str, Any]:
    """Return the request to judge files; `root` is the folder of tasks."""
    request = {"task": task, "tasks_root": str(root), "files": files}
    return {**request, "stage": stage.name, "scope": scope, "cache": str(cache())}


def _request(evaluation: Evaluation, stage: Stage, arrived: Path | None) -> dict[str, Any]:
    version, scope = evaluation.judged_version, evaluation.scope
    files, judged_as = evaluation.submission.files, JUDGED_AS.get(scope, scope)
    request = request_of(version.task.slug, root_of(version), files, judged_as, stage)
    if scope == Scope.PROFILE and stage is MEASURE:
        request["profile"] = evaluation.case
    return {**request, "arrived": str(arrived)} if arrived else request


@dataclass
class Judging:
    """A request to a judge, and what it has answered; `name` is for the log."""

    name: str
    hardware: Hardware
    stage: Stage
    bench: Bench | None
    request: Mapping[str, Any]
    heartbeat: Callable[[], bool] = lambda: True
    record_gate: Callable[[GateResult], object] = lambda gate: None
    release: Release = field(default_factory=Release)
    report: Mapping[str, Any] | None = None
    error: str = ""
    built: Mapping[str, str] = field(default_factory=dict)
    """The artefact that another machine can use: its folder and its key."""
    withheld: list[GateResult] = field(default_factory=list)
    """Results on hidden cases, which are public at the end of a step."""

    def carry_out(self) -> Mapping[str, Any] | None:
        """Return the report, or None when the build passed and measuring follows."""
        request, end = json.dumps(self.request), time.monotonic() + self.stage.seconds
        if self.bench:
            ended = self.bench.answer(
                request,
                lambda added, on_lines: self._start((*COMMAND, "wait"), None, added, on_lines),
                self.receive,
                deadline=end,
                heartbeat=self.heartbeat,
            )
        else:
            judge = self._start(COMMAND, request, {}, self._receive_lines)
            ended = judge.follow(deadline=lambda: end, heartbeat=self.heartbeat)
        self.publish()
        if ended.ending is Ending.STOPPED:
            raise JudgeStopped("The judge was stopped with its worker.")
        if ended.ending is not Ending.EXITED or ended.code not in REPORTED:
            raise JudgeBroke(self._explain(ended))
        if ended.code == PASSED and self.stage is BUILD:
            return None
        if self.report is None:
            raise JudgeBroke("The judge gave no report.")
        return self.report

    def publish(self) -> None:
        """Record what was found on hidden cases, at the end of a step."""
        if self.withheld:
            self.release.wait(self.heartbeat)
        for gate in self.withheld:
            self.record_gate(gate)

    def _start(
        self, command: Sequence[str], stdin: str | None, added: Mapping[str, str], on_lines: OnLines
    ) -> Child:
        return Child(
            command,
            on_lines=on_lines,
            stdin=stdin,
            cwd=settings.BASE_DIR,
            env={**environment(), **compiled_for(self.hardware), **added},
            account=judge_user.account(),
        )

    def _receive_lines(self, lines: list[str]) -> None:
        for line in lines:
            self.receive(json.loads(line))

    def receive(self, message: dict[str, Any]) -> None:
        """Take one message of the judge."""
        match message.pop("type"):
            case "gate":
                if message["verdict"] == Verdict.BROKEN:  # this result is dropped for another try
                    detail = json.dumps(message["private"], indent=1).replace("\\n", "\n")
                    logger.error("%s broke: %s", self.name, detail)
                gate = from_json(GateResult, message)
                self.built = gate.private.get("artefact") or self.built
                telemetry.record(
                    f"gate {gate.gate}",
                    gate.duration_ms / 1e3,
                    verdict=gate.verdict,
                    reason=gate.reason or "",
                )
                if gate.used_hidden and self.release.step:
                    self.withheld.append(gate)
                else:
                    self.record_gate(gate)
                    self.release.begin()
            case "report" | "profile":
                self.report = message
            case "error":
                self.error = message["message"]

    def _explain(self, ended: Ended) -> str:
        match ended.ending:
            case Ending.DEADLINE:
                return f"The judge took more than {self.stage.seconds:g} seconds."
            case Ending.EXCESS:
                return f"The judge {ended.excess}."
            case Ending.FLOOD | Ending.LONG_LINE:
                return "The output of the judge exceeds its limit."
            case _:
                message = self.report["message"] if self.report else self.error
                detail = message or (ended.stderr.splitlines() or ["nothing"])[-1]
                return f"The judge ended with status {ended.code}: {detail}"
