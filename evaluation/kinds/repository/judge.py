"""Verdict on changed files of a repository, by the repository's own commands.

No verdict is stronger than "the suite passed": the tests and the clock are the repository's, and
the candidate's code runs in their processes. So speedups by this clock have a board of their own.
"""

from __future__ import annotations

import dataclasses
import platform
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from evaluation import device_kind
from evaluation.bench.timing.disturbance import PATIENCE_SECONDS, Disturbance
from evaluation.device_kind import GPU
from evaluation.errors import Broken, BuildError, SubmissionError
from evaluation.judge.pipeline import Gate, Outcome, fingerprint, require_isolation
from evaluation.judge.report import (
    aka_score,
    cases_text,
    failure,
    interval_text,
    is_noisy,
    overall,
    passed,
)
from evaluation.judge.request import Emit
from evaluation.kinds.repository import benchmark, submission
from evaluation.kinds.repository.builds import Checkout, checkout, ended, log
from evaluation.kinds.repository.task import BUILD, CORRECTNESS, SEED, RepositoryTask
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
    outcome = Outcome()
    gates = [
        Gate(GateName.INTEGRITY, "build", partial(_integrity, trial)),
        Gate(GateName.COMPILE, "build", partial(_compile, trial), again=True),
        Gate(GateName.CORRECTNESS, "measure", partial(_correctness, trial)),
        Gate(GateName.PERFORMANCE, "measure", partial(_performance, trial)),
    ]
    outcome.run(gates, stage, emit, _failed)
    measured = outcome.last.measurements
    speed = overall(measured) if outcome.last.verdict is Verdict.PASSED else None
    return outcome.report(
        task.slug,
        task.hash,
        fingerprint(task=task.hash, clock=CLOCK),
        seen=speed,
        unseen=speed if final else None,
        noisy=is_noisy(measured),
        aka_score=aka_score(trial.built is not None, outcome.results, measured),
    )


def _failed(name: GateName, error: Exception) -> GateResult:
    """Return the result of a gate that raised; what a command printed may be quoted in it."""
    result = failure(name, error)
    # Broken is the task, or this machine: its owner can act on it.
    message = str(error) if type(error) is Broken else result.message
    return dataclasses.replace(result, message=printable(message))


def _integrity(trial: Trial) -> GateResult:
    submission.check(trial.task, trial.files)
    count = len(trial.files)
    text = "1 editable file" if count == 1 else f"{count} editable files"
    return passed(GateName.INTEGRITY, text)


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
    return passed(GateName.COMPILE, message, compiler=trial.built.outputs)


def _correctness(trial: Trial) -> GateResult:
    """Run the repository's own tests. Raises Broken where the unchanged repository fails them."""
    if why := not_judged_here(trial.task):
        return GateResult(GateName.CORRECTNESS, Verdict.SKIPPED, Reason.NO_DEVICE, why)
    assert trial.built is not None, "judged before it was built"
    output, reason, message = _tested(trial.built, trial.seed)
    if reason is None:
        return passed(GateName.CORRECTNESS, "the suite passed")
    _, of_baseline, why = _tested(trial.baseline(), trial.seed)
    if of_baseline:
        raise Broken(f"of the unchanged repository, {why}")
    return GateResult(
        GateName.CORRECTNESS,
        Verdict.FAILED,
        reason,
        printable(message),
        total=1,
        compiler=(output,),
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
    return passed(
        GateName.PERFORMANCE,
        f"{interval_text(speed)} over {cases_text(len(measured))}, by the suite's own clock",
        len(measured),
        detail={"clock": CLOCK, "blocks": measured[0].blocks},
        measurements=measured,
    )


def not_judged_here(task: RepositoryTask) -> str:
    """Return why this machine cannot judge a task; empty when it can."""
    if task.device == GPU and device_kind.gpu_vendor() not in device_kind.JUDGED:
        return f"{task.slug} is judged on a GPU, and this machine has none"
    return ""
