"""Pipeline of one submission through all gates; a failed gate stops the rest."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import platform
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from contextvars import copy_context
from functools import cache
from typing import TYPE_CHECKING, Any

from evaluation import JUDGE_VERSION, device_kind
from evaluation.bench.devices import detect
from evaluation.bench.process.fork_server import ForkServer
from evaluation.bench.process.task_host import processes_of
from evaluation.bench.timing.disturbance import PATIENCE_SECONDS, Disturbance
from evaluation.code.languages import languages
from evaluation.errors import (
    Broken,
    NoIsolation,
    SubmissionError,
)
from evaluation.judge.report import aka_score, failure, is_noisy, overall
from evaluation.judge.request import Emit, Request
from evaluation.kinds.kernel.builds import Build, baselines
from evaluation.kinds.kernel.gates import Gate, Progress, Trial, gates
from evaluation.sandbox.features import isolation_features
from evaluation.tasks import task_code
from evaluation.types import DURATION, GateName, GateResult, Measurement, Reason, Report, Verdict

if TYPE_CHECKING:
    from evaluation.kinds.kernel.session import MeasurementSession


def evaluate(
    request: Request,
    emit: Emit = lambda result: None,
    fork_server: ForkServer | None = None,
    progress: Progress = lambda gate, done, total: None,
) -> Report:
    """Judge one submission; `emit` receives every gate's result.

    `progress` is called before each case of a gate, with its number and that of all.
    `fork_server` may have been started before, to save time. A failure of the judge ends as a
    `broken` gate.
    """
    started = time.perf_counter()
    seconds: dict[str, float] = {}
    results: list[GateResult] = []
    with ExitStack() as stack:
        server = cache(lambda: fork_server or stack.enter_context(ForkServer()))
        stack.enter_context(task_code.hosted(processes_of(server)))
        target = languages()[request.task.track.target]
        not_run = target.not_run(request.files, request.task.kind)
        runs = request.stage != "build" and not not_run
        start = _session_starter(request, stack, seconds, server) if runs else _no_session
        final = request.scope == "final"
        trial = Trial(request.task, request.files, request.cache, final, start, progress)
        for gate in _gates(request):
            result = _run(gate, trial, not_run, request.unconfined)
            seconds[gate.NAME.value] = result.took_ms / 1e3
            if _is_requested(request, gate) or not _continues(result):
                results.append(result)  # else it was reported by the build stage
                emit(result)
            if not _continues(result):
                break
    seconds["total"] = time.perf_counter() - started
    return _report(request, results, trial.build is not None, seconds)


def _gates(request: Request) -> list[Gate]:
    """Return the gates of a request.

    The measure stage includes the compile gate, which builds again where the cache lost the result.
    """
    return [
        gate
        for gate in gates()
        if (_is_requested(request, gate) or gate.NAME is GateName.COMPILE)
        and (request.scope == "final" or not gate.HIDDEN)
    ]


def _is_requested(request: Request, gate: Gate) -> bool:
    return request.stage in (gate.STAGE, "all")


def _continues(result: GateResult) -> bool:
    """Return whether the next gate follows."""
    return result.verdict in (Verdict.PASSED, Verdict.SKIPPED, Verdict.SPECIALISED)


def _run(gate: Gate, trial: Trial, not_run: str, unconfined: bool) -> GateResult:
    started, trial.uses_hidden = time.perf_counter(), False
    try:
        if gate.NAME is not GateName.INTEGRITY:
            require_isolation(unconfined)
        if gate.STAGE == "measure" and not_run:
            result = GateResult(gate.NAME, Verdict.SKIPPED, Reason.NO_DEVICE, not_run)
        else:
            result = gate.judge(trial)
    except Exception as error:
        result = failure(gate.NAME, error)
    took_ms = (time.perf_counter() - started) * 1e3
    if trial.uses_hidden:
        return dataclasses.replace(result, private={**result.private, DURATION: took_ms})
    return dataclasses.replace(result, duration_ms=took_ms)


def require_isolation(unconfined: bool) -> None:
    """Require that untrusted code is isolated here, or that the machine's owner does without.

    Raises: NoIsolation.
    """
    if not (unconfined or isolation_features().any):
        raise NoIsolation(
            "this machine has neither namespaces nor Landlock, so it runs no untrusted code; its "
            "owner may set ARENA_UNCONFINED=1"
        )


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
    if request.task.kind == device_kind.GPU and "triton" in (track.source, track.target):
        fork_server.prepare("triton")
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


def _report(
    request: Request, results: Sequence[GateResult], compiled: bool, seconds: Mapping[str, float]
) -> Report:
    by_gate = {result.gate: result for result in results}
    last = results[-1]
    decisive = None if _continues(last) else last
    correctness = by_gate.get(GateName.CORRECTNESS)
    if correctness and correctness.verdict is Verdict.SKIPPED:
        decisive = correctness  # a build alone has not passed
    specialised = (result for result in results if result.verdict is Verdict.SPECIALISED)
    decisive = decisive or next(specialised, None)
    seen = _measurements(by_gate.get(GateName.PERFORMANCE))
    hidden = _measurements(by_gate.get(GateName.GENERALIZATION))
    shares = [m.roofline_share for m in seen if m.roofline_share is not None]
    return Report(
        task=request.task.slug,
        task_hash=request.task.hash,
        judge_version=JUDGE_VERSION,
        verdict=decisive.verdict if decisive else Verdict.PASSED,
        reason=decisive.reason if decisive else None,
        message=decisive.message if decisive else last.message,
        gates=tuple(results),
        seen=overall(seen),
        unseen=overall(hidden),
        roofline_share=statistics.geometric_mean(shares) if shares else None,
        noisy=is_noisy(seen) or is_noisy(hidden),
        aka_score=aka_score(compiled, results, seen),
        fingerprint=fingerprint(request),
        seconds=seconds,
    )


def _measurements(result: GateResult | None) -> tuple[Measurement, ...]:
    return result.measurements if result else ()


def fingerprint(request: Request) -> dict[str, Any]:
    """Return device, versions, task and isolation features of an evaluation."""
    task = request.task
    return {
        "judge": JUDGE_VERSION,
        "task": task.hash,
        "device": {} if request.stage == "build" else detect.fingerprint(task.kind, request.cache),
        "isolation": dataclasses.asdict(isolation_features()),
        "python": platform.python_version(),
        "kernel": platform.release(),
        **{name: importlib.metadata.version(name) for name in ("torch", "triton", "numpy")},
    }
