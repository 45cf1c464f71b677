"""Verdict on a kernel: its gates share one measurement session."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from contextvars import copy_context
from functools import cache, partial
from typing import TYPE_CHECKING

from evaluation.bench.devices import detect
from evaluation.bench.process.fork_server import ForkServer
from evaluation.bench.process.task_host import processes_of
from evaluation.bench.timing.disturbance import PATIENCE_SECONDS, Disturbance
from evaluation.code.languages import languages
from evaluation.errors import Broken, SubmissionError, line_of
from evaluation.judge import pipeline
from evaluation.judge.report import aka_score, failure, is_noisy, overall
from evaluation.judge.request import Emit, Request
from evaluation.kinds.kernel.builds import Build, baselines, compile_baselines, with_further
from evaluation.kinds.kernel.gates import Gate, Trial, gates
from evaluation.kinds.kernel.gates.generalization import timed_cases
from evaluation.kinds.kernel.machine_secret import machine_secret
from evaluation.sandbox.features import isolation_features
from evaluation.tasks import task_code
from evaluation.types import (
    DURATION,
    Case,
    GateName,
    GateResult,
    Measurement,
    Reason,
    Report,
    Verdict,
)

if TYPE_CHECKING:
    from evaluation.kinds.kernel.session import MeasurementSession


def evaluate(
    request: Request,
    emit: Emit = lambda result: None,
    fork_server: ForkServer | None = None,
) -> Report:
    """Judge one submission; `emit` receives every gate's result.

    `fork_server` may have been started before, to save time. A failure of the judge ends as a
    `broken` gate.
    """
    outcome = pipeline.Outcome()
    with ExitStack() as stack:
        server = cache(lambda: fork_server or stack.enter_context(ForkServer()))
        stack.enter_context(task_code.hosted(processes_of(server)))
        target = languages()[request.task.track.target]
        not_run = target.not_run(request.files, request.task.kind)
        runs = request.stage != "build" and not not_run
        start = _session_starter(request, stack, outcome.seconds, server) if runs else _no_session
        final = request.scope == "final"
        trial = Trial(
            request.task,
            request.files,
            request.cache,
            final,
            start,
            request.progress,
            request.arrived,
        )
        steps = [
            pipeline.Gate(
                gate.NAME,
                gate.STAGE,
                partial(_judged, gate, trial, not_run, request.unconfined),
                again=gate.NAME is GateName.COMPILE,  # where the cache lost what was built
            )
            for gate in gates()
            if final or not gate.HIDDEN
        ]
        outcome.run(steps, request.stage, emit, goes_on=pipeline.GOES_ON)
        if request.stage == "build" and outcome.last.verdict is Verdict.PASSED and not not_run:
            _build_baselines(request)
    return _report(request, outcome, trial.build is not None)


def _build_baselines(request: Request) -> None:
    """Build what a candidate is to beat, which a device would wait for while its judge does."""
    if languages()[request.task.track.target].untimed(request.files, request.task.kind):
        return
    with suppress(Exception):  # the judge that measures builds it again, and reports the failure
        compile_baselines(request.task, request.cache, _hidden_of_baseline(request))


def _hidden_of_baseline(request: Request) -> list[Case]:
    """Return the hidden cases that a baseline is timed on, where it is compiled for each case."""
    source = languages()[request.task.track.source]
    if not (request.final and source.compiles_cases):
        return []
    return timed_cases(request.task, machine_secret(request.cache))


def _judged(gate: Gate, trial: Trial, not_run: str, unconfined: bool) -> GateResult:
    trial.uses_hidden = False
    try:
        if gate.NAME is not GateName.INTEGRITY:
            pipeline.require_isolation(unconfined)
        if gate.STAGE == "measure" and not_run:
            result = GateResult(gate.NAME, Verdict.SKIPPED, Reason.NO_DEVICE, not_run)
        else:
            result = gate.judge(trial)
    except Exception as error:
        reference = trial.task.operator.folder / "reference.py"
        if found := line_of(error, reference):  # of a task of this checkout, which runs here
            error.add_note(f"{reference}: {found.partition(':')[0]}")
        result = failure(gate.NAME, error)
    if trial.uses_hidden:
        return dataclasses.replace(result, private={**result.private, DURATION: 0.0})
    return result


def _session_starter(
    request: Request,
    stack: ExitStack,
    seconds: dict[str, float],
    start_server: Callable[[], ForkServer],
) -> Callable[[Build], MeasurementSession]:
    """Return a function that gives the session its candidate.

    A thread prepares the session while the earlier gates run.
    """
    isolation_features()  # fills its cache before the thread starts
    # Started by this thread: a fork server ends with the thread that started it.
    fork_server = start_server()
    track = request.task.track
    # Else each process imports the compiler.
    fork_server.prepare_compilers(request.task.kind, among=(track.source, track.target))
    session_stack = stack.enter_context(ExitStack())  # closed after the thread has ended
    executor = stack.enter_context(ThreadPoolExecutor(1, "prepare"))
    run = copy_context().run  # with the host of the task's code
    prepared = executor.submit(run, _prepare, request, session_stack, seconds, fork_server)

    def start(candidate: Build) -> MeasurementSession:
        try:
            session = prepared.result()
        except SubmissionError as error:
            raise Broken(f"the baseline failed: {error}") from error
        # Called after all builds: a device that is measured now is measured on an idle machine.
        device = detect.device_for(request.task.kind, request.cache)
        return session.set_candidate(candidate, device)

    return start


def _prepare(
    request: Request, stack: ExitStack, seconds: dict[str, float], fork_server: ForkServer
) -> MeasurementSession:
    """Return a session without a candidate; the fork server imports PyTorch at the same time."""
    from evaluation.kinds.kernel.session import MeasurementSession  # imports torch, in this thread

    builds = baselines(request.task, request.cache)
    if hidden := _hidden_of_baseline(request):
        builds = [with_further(made, hidden) for made in builds]
    session = stack.enter_context(
        MeasurementSession(
            request.task,
            fork_server,
            builds,
            request.cache,
            seconds,
            Disturbance(PATIENCE_SECONDS[request.scope == "final"]),
        )
    )
    session.prepare()
    return session


def _no_session(build: Build) -> MeasurementSession:
    raise AssertionError("a build alone is not measured")


def _report(request: Request, outcome: pipeline.Outcome, compiled: bool) -> Report:
    task = request.task
    by_gate = {result.gate: result for result in outcome.results}
    seen = _measurements(by_gate.get(GateName.PERFORMANCE))
    hidden = _measurements(by_gate.get(GateName.GENERALIZATION))
    shares = [m.roofline_share for m in seen if m.roofline_share is not None]
    device = {} if request.stage == "build" else detect.fingerprint(task.kind, request.cache)
    return outcome.report(
        task.slug,
        task.hash,
        pipeline.fingerprint("torch", "triton", "numpy", task=task.hash, device=device),
        seen=overall(seen),
        unseen=overall(hidden),
        roofline_share=statistics.geometric_mean(shares) if shares else None,
        noisy=is_noisy(seen) or is_noisy(hidden),
        aka_score=aka_score(compiled, outcome.results, seen),
    )


def _measurements(result: GateResult | None) -> tuple[Measurement, ...]:
    return result.measurements if result else ()
