"""Verdict on changed files of a repository, by the repository's own commands.

No verdict is stronger than "the suite passed": the tests and the clock are the repository's, and
the candidate's code runs in their processes. So speedups by this clock have a board of their own.
"""

from __future__ import annotations

import dataclasses
import platform
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evaluation import JUDGE_VERSION, device_kind
from evaluation.bench.timing.disturbance import PATIENCE_SECONDS, Disturbance
from evaluation.device_kind import GPU
from evaluation.errors import Broken, BuildError, SubmissionError
from evaluation.judge.pipeline import require_isolation
from evaluation.judge.report import aka_score, failure, interval_text, is_noisy, overall
from evaluation.judge.request import Emit
from evaluation.kinds.repository import benchmark, submission
from evaluation.kinds.repository.builds import Checkout, checkout, ended, log
from evaluation.kinds.repository.task import BUILD, CORRECTNESS, SEED, RepositoryTask
from evaluation.sandbox.features import isolation_features
from evaluation.sandbox.untrusted_text import printable
from evaluation.types import CompilerOutput, GateName, GateResult, Reason, Report, Verdict

CLOCK = "suite"
"""The clock of these times, in the details of the performance gate."""


@dataclass
class Trial:
    """A submission on its way through the gates."""

    task: RepositoryTask
    files: Mapping[str, str]
    cache: Path
    final: bool
    unconfined: bool
    seed: str = field(default_factory=benchmark.seed)
    built: Checkout | None = None

    def baseline(self) -> Checkout:
        """Return the unchanged repository, built. Raises Broken where it does not build."""
        try:
            return checkout(self.task, {}, self.cache)
        except BuildError as error:
            raise Broken(f"of the unchanged repository, {error}") from error


def judge(
    task: RepositoryTask,
    files: Mapping[str, str],
    cache: Path,
    emit: Emit = lambda result: None,
    *,
    stage: str = "all",
    final: bool = True,
    unconfined: bool = False,
) -> Report:
    """Judge a submission; `emit` receives every gate's result.

    Stage `build` checks the files and builds. Stage `measure` does the rest, and builds again where
    the cache lost the result. A final verdict has more repeats, and a speedup on unseen inputs:
    each verdict has a new seed.
    """
    trial = Trial(task, files, cache, final, unconfined)
    gates = {
        "build": (GateName.INTEGRITY, GateName.COMPILE),
        "measure": (GateName.COMPILE, GateName.CORRECTNESS, GateName.PERFORMANCE),
        "all": tuple(_GATES),
    }[stage]
    started = time.perf_counter()
    results: list[GateResult] = []
    for name in gates:
        result = _run(name, trial)
        if stage == "measure" and name is GateName.COMPILE and result.verdict is Verdict.PASSED:
            continue  # it was reported by the build stage
        results.append(result)
        emit(result)
        if result.verdict is not Verdict.PASSED:
            break
    seconds = {result.gate.value: result.duration_ms / 1e3 for result in results}
    return _report(trial, results, {**seconds, "total": time.perf_counter() - started})


def _run(name: GateName, trial: Trial) -> GateResult:
    started = time.perf_counter()
    try:
        result = _GATES[name](trial)
    except Exception as error:
        result = failure(name, error)
        if type(error) is Broken:  # of the task, or of this machine: its owner can act on it
            result = dataclasses.replace(result, message=str(error))
    return dataclasses.replace(
        result,
        message=printable(result.message),  # it can quote what a command printed
        duration_ms=(time.perf_counter() - started) * 1e3,
    )


def _integrity(trial: Trial) -> GateResult:
    submission.check(trial.task, trial.files)
    count = len(trial.files)
    text = "1 editable file" if count == 1 else f"{count} editable files"
    return GateResult(GateName.INTEGRITY, Verdict.PASSED, message=text, passed=1, total=1)


def _compile(trial: Trial) -> GateResult:
    """Build the candidate.

    Raises: BuildError; Broken where the unchanged repository does not build either; NoIsolation.
    """
    require_isolation(trial.unconfined)
    try:
        trial.built = checkout(trial.task, trial.files, trial.cache)
    except BuildError:
        trial.baseline()
        raise
    message = "built" if BUILD in trial.task.commands else "there is no build command"
    return GateResult(
        GateName.COMPILE,
        Verdict.PASSED,
        message=message,
        passed=1,
        total=1,
        compiler=trial.built.outputs,
    )


def _correctness(trial: Trial) -> GateResult:
    """Run the repository's own tests. Raises Broken where the unchanged repository fails them."""
    if why := not_judged_here(trial.task):
        return GateResult(GateName.CORRECTNESS, Verdict.SKIPPED, Reason.NO_DEVICE, why)
    assert trial.built is not None, "judged before it was built"
    output, reason, message = _tested(trial.built, trial.seed)
    if reason is None:
        return GateResult(
            GateName.CORRECTNESS, Verdict.PASSED, message="the suite passed", passed=1, total=1
        )
    _, of_baseline, why = _tested(trial.baseline(), trial.seed)
    if of_baseline:
        raise Broken(f"of the unchanged repository, {why}")
    return GateResult(
        GateName.CORRECTNESS, Verdict.FAILED, reason, message, total=1, compiler=(output,)
    )


def _tested(built: Checkout, seed: str) -> tuple[CompilerOutput, Reason | None, str]:
    """Run the correctness command; return its output, and why it failed."""
    command, started = built.task.commands[CORRECTNESS], time.perf_counter()
    completed = built.run(command, {SEED: seed})
    output = CompilerOutput(
        tool=CORRECTNESS,
        arch=platform.machine(),
        ok=completed.returncode == 0,
        duration_ms=(time.perf_counter() - started) * 1e3,
        text=log(command, completed),
    )
    if completed.returncode == 0:
        return output, None, ""
    reason = benchmark.failure(completed)
    if reason is Reason.CALL_ERROR:  # a test that ends with a code says that values are wrong
        reason = Reason.WRONG_VALUES
    return (
        output,
        reason,
        f"the tests failed: {ended(completed)}{benchmark.tail(completed)}",
    )


def _performance(trial: Trial) -> GateResult:
    """Time both in turn, each time in new processes.

    Raises: SubmissionError; Broken; Inconclusive where other work disturbs them.
    """
    baseline, candidate = trial.baseline(), trial.built
    assert candidate is not None, "judged before it was built"

    def of_baseline() -> benchmark.Times:
        try:
            return benchmark.times(baseline, trial.seed)
        except SubmissionError as error:
            raise Broken(f"of the unchanged repository, {error.message}") from error

    def of_candidate() -> benchmark.Times:
        try:
            return benchmark.times(candidate, trial.seed)
        except SubmissionError:
            of_baseline()
            raise

    extent = benchmark.FINAL if trial.final else benchmark.ROUND
    disturbance = Disturbance(PATIENCE_SECONDS[trial.final])
    found = benchmark.blocks(of_candidate, of_baseline, extent, disturbance)
    measured = tuple(benchmark.measurements(found, disturbance.tolerant))
    speed = overall(measured)
    assert speed is not None, "a benchmark has cases"
    return GateResult(
        GateName.PERFORMANCE,
        Verdict.PASSED,
        message=f"{interval_text(speed)} over {_cases(len(measured))}, by the suite's own clock",
        passed=len(measured),
        total=len(measured),
        detail={"clock": CLOCK, "blocks": measured[0].blocks},
        measurements=measured,
    )


def _cases(count: int) -> str:
    return "1 case" if count == 1 else f"{count} cases"


_GATES: Mapping[GateName, Callable[[Trial], GateResult]] = {
    GateName.INTEGRITY: _integrity,
    GateName.COMPILE: _compile,
    GateName.CORRECTNESS: _correctness,
    GateName.PERFORMANCE: _performance,
}


def not_judged_here(task: RepositoryTask) -> str:
    """Return why this machine cannot judge a task; empty when it can."""
    if task.device == GPU and device_kind.gpu_vendor() not in device_kind.JUDGED:
        return f"{task.slug} is judged on a GPU, and this machine has none"
    return ""


def _report(trial: Trial, results: list[GateResult], seconds: Mapping[str, float]) -> Report:
    last = results[-1]
    passed = last.verdict is Verdict.PASSED
    speed = overall(last.measurements) if passed else None
    return Report(
        task=trial.task.slug,
        task_hash=trial.task.hash,
        judge_version=JUDGE_VERSION,
        verdict=last.verdict,
        reason=last.reason,
        message=last.message,
        gates=tuple(results),
        seen=speed,
        unseen=speed if trial.final else None,
        roofline_share=None,
        noisy=is_noisy(last.measurements),
        aka_score=aka_score(trial.built is not None, results, last.measurements),
        fingerprint=fingerprint(trial.task),
        seconds=seconds,
    )


def fingerprint(task: RepositoryTask) -> dict[str, Any]:
    """Return task, versions and isolation features of a verdict."""
    return {
        "judge": JUDGE_VERSION,
        "task": task.hash,
        "clock": CLOCK,
        "isolation": dataclasses.asdict(isolation_features()),
        "python": sys.version.partition(" ")[0],
        "kernel": platform.release(),
    }
