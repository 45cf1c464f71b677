"""One submission through all gates: who judges is started once, a failed gate stops the rest, a
report ends it.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import platform
import statistics
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evaluation import JUDGE_VERSION, device_kind
from evaluation.devices import detect
from evaluation.errors import Broken, BuildError, NoIsolation, Rejected, SubmissionError
from evaluation.gates import Gate, Trial, gates
from evaluation.gates.performance import overall
from evaluation.languages import languages
from evaluation.process.fork_server import ForkServer
from evaluation.sandbox.features import isolation_features
from evaluation.tasks.spec import Task
from evaluation.tracks.builds import Build, baselines
from evaluation.types import GateName, GateResult, Measurement, Reason, Report, Verdict

if TYPE_CHECKING:
    from evaluation.session import MeasurementSession

Emit = Callable[[GateResult], None]

STAGES = ("build", "measure", "all")
SCOPES = ("round", "final")


@dataclass(frozen=True)
class Request:
    """What is to be judged, and how far: `stage` and `scope` choose among the gates (see
    `gates.Gate`).
    """

    task: Task
    files: Mapping[str, str]
    cache: Path
    stage: str = "all"
    scope: str = "final"
    unconfined: bool = False
    """The owner of this machine says that it may judge without isolation."""


def evaluate(
    request: Request, emit: Emit = lambda result: None, fork_server: ForkServer | None = None
) -> Report:
    """Judge one submission; `emit` hears every gate as it concludes. A `zygote` that was started
    before saves the time that takes.

    Never raises for what a candidate does. What is our own fault ends as a `broken` gate.
    """
    started = time.perf_counter()
    seconds: dict[str, float] = {}
    results: list[GateResult] = []
    with ExitStack() as stack:
        runs = request.stage != "build" and not _only_built(request.task)
        start = _starter(request, stack, seconds, fork_server) if runs else _never
        final = request.scope == "final"
        trial = Trial(request.task, request.files, request.cache, final, start)
        for gate in _chosen(request):
            result = _run(gate, trial, seconds, request.unconfined)
            if _asked_for(request, gate) or not _conclusive(result):
                results.append(result)  # else it was told before
                emit(result)
            if not _conclusive(result):
                break
    seconds["total"] = time.perf_counter() - started
    return _report(request, results, trial.build is not None, seconds)


def _chosen(request: Request) -> list[Gate]:
    """The gates of a stage. To measure takes what was built, which is found in the cache, or built
    once more where that has gone.
    """
    return [
        gate
        for gate in gates()
        if (_asked_for(request, gate) or gate.NAME is GateName.COMPILE)
        and (request.scope == "final" or not gate.HIDDEN)
    ]


def _asked_for(request: Request, gate: Gate) -> bool:
    return request.stage in (gate.STAGE, "all")


def _conclusive(result: GateResult) -> bool:
    """Whether the next gate follows."""
    return result.verdict in (Verdict.PASSED, Verdict.SKIPPED)


def _run(gate: Gate, trial: Trial, seconds: dict[str, float], unconfined: bool) -> GateResult:
    started = time.perf_counter()
    try:
        if gate.NAME is not GateName.INTEGRITY and not (unconfined or isolation_features().any):
            raise NoIsolation(
                "this machine has neither namespaces nor Landlock, so it judges nothing from "
                "strangers; its owner may set ARENA_UNCONFINED=1"
            )
        if gate.STAGE == "measure" and (why := _only_built(trial.task)):
            result = GateResult(gate.NAME, Verdict.SKIPPED, Reason.NO_DEVICE, why)
        else:
            result = gate.judge(trial)
    except Rejected as error:
        result = GateResult(
            gate.NAME, Verdict.REJECTED, error.reason, error.message, rule=error.rule
        )
    except BuildError as error:
        failed = GateResult(gate.NAME, Verdict.FAILED, error.reason, error.message)
        result = dataclasses.replace(failed, compiler=error.outputs, total=len(error.outputs))
    except SubmissionError as error:
        result = GateResult(gate.NAME, Verdict.FAILED, error.reason, error.message)
    except NoIsolation as error:
        result = GateResult(gate.NAME, Verdict.BROKEN, Reason.NO_ISOLATION, str(error))
    except Exception as error:
        result = GateResult(
            gate.NAME,
            Verdict.BROKEN,
            Reason.JUDGE_ERROR,
            "the judge failed, not the submission",
            private={"error": f"{type(error).__name__}: {error}", "trace": traceback.format_exc()},
        )
    duration = time.perf_counter() - started
    seconds[gate.NAME.value] = duration
    return dataclasses.replace(result, duration_ms=duration * 1e3)


def _only_built(task: Task) -> str:
    """Why this machine cannot run what `task` asks for; empty when it can."""
    return languages()[task.track.target].runs_here()


def _starter(
    request: Request, stack: ExitStack, seconds: dict[str, float], fork_server: ForkServer | None
) -> Callable[[Build], MeasurementSession]:
    """What brings the judge its candidate. Everything else that it takes is made ready by a thread,
    beside the gates that come before.
    """
    isolation_features()  # found once, before threads ask
    # Its parent is this thread, with which it would end.
    fork_server = fork_server or stack.enter_context(ForkServer())
    track = request.task.track
    if request.task.kind == device_kind.GPU and "triton" in (track.source, track.target):
        fork_server.prepare("triton")
    inside = stack.enter_context(ExitStack())  # is left once the thread has ended
    executor = stack.enter_context(ThreadPoolExecutor(1, "ready"))
    ready = executor.submit(_made_ready, request, inside, seconds, fork_server)

    def start(candidate: Build) -> MeasurementSession:
        try:
            judge = ready.result()
        except SubmissionError as error:
            raise Broken(f"the baseline failed: {error}") from error
        # By now nothing else keeps the machine busy, should the device be measured.
        return judge.meet(candidate, detect.device_for(request.task.kind, request.cache))

    return start


def _made_ready(
    request: Request, inside: ExitStack, seconds: dict[str, float], fork_server: ForkServer
) -> MeasurementSession:
    """A judge with all but a candidate. The zygote imports PyTorch while this process does."""
    from evaluation.session import MeasurementSession

    against = baselines(request.task, request.cache)
    judge = inside.enter_context(
        MeasurementSession(request.task, fork_server, against, request.cache, seconds)
    )
    judge.begin()
    return judge


def _never(build: Build) -> MeasurementSession:
    raise AssertionError("what is only built is not judged")


def _report(
    request: Request, results: Sequence[GateResult], compiled: bool, seconds: Mapping[str, float]
) -> Report:
    by_gate = {result.gate: result for result in results}
    last = results[-1]
    decisive = None if _conclusive(last) else last
    correctness = by_gate.get(GateName.CORRECTNESS)
    if correctness and correctness.verdict is Verdict.SKIPPED:
        decisive = correctness  # what was only compiled has not passed
    seen = _measurements(by_gate.get(GateName.PERFORMANCE))
    hidden = _measurements(by_gate.get(GateName.GENERALIZATION))
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
        roofline_share=statistics.geometric_mean(m.roofline_share for m in seen) if seen else None,
        noisy=any(m.noisy for m in (*seen, *hidden)),
        aka_score=aka_score(compiled, results, seen),
        fingerprint=fingerprint(request),
        seconds=seconds,
    )


def _measurements(result: GateResult | None) -> tuple[Measurement, ...]:
    return result.measurements if result else ()


def aka_score(compiled: bool, results: Sequence[GateResult], seen: Sequence[Measurement]) -> float:
    """AgentKernelArena's score: 0 unless it compiles, 20 unless it is right, else 120 + 100 x mean
    speedup.
    """
    passed = {result.gate for result in results if result.verdict is Verdict.PASSED}
    if not compiled:
        return 0.0
    if GateName.CORRECTNESS not in passed:
        return 20.0
    return 120.0 + 100.0 * (statistics.fmean(m.speedup for m in seen) if seen else 0.0)


def fingerprint(request: Request) -> dict[str, Any]:
    """What judged: device, versions, task and the walls that stood."""
    return {
        "judge": JUDGE_VERSION,
        "task": request.task.hash,
        "device": _device_fingerprint(request),
        "isolation": dataclasses.asdict(isolation_features()),
        "python": platform.python_version(),
        "kernel": platform.release(),
        **{name: importlib.metadata.version(name) for name in ("torch", "triton", "numpy")},
    }


def _device_fingerprint(request: Request) -> dict[str, Any]:
    """What judged or would have; empty where this machine has no such device, and of a build, which
    leaves a GPU alone.
    """
    if request.stage == "build":
        return {}
    try:
        device = detect.device_for(request.task.kind, request.cache)
    except Broken:
        return {}
    now = detect.state(device)
    return {**device.fingerprint, **({"now": now} if now else {})}
