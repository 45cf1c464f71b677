"""Admission of a task: wrong implementations fail, honest ones pass, and times repeat.

Wrong are the trivial submissions, which need no knowledge of the operator (zeros, a constant, a
copied input, untouched memory), and the task's own mutants. They are built in parallel and judged
in turn on seen, boundary and hidden cases. Last, an honest one is timed twice against the baseline,
in fresh processes.
"""

from __future__ import annotations

import dataclasses
import os
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

from evaluation import JUDGE_VERSION
from evaluation.admission.reference_check import rehearse
from evaluation.admission.trivial_submissions import probes
from evaluation.devices import detect
from evaluation.errors import Rejected, SubmissionError, TaskError
from evaluation.gates import Trial, integrity
from evaluation.gates import compile as compilation
from evaluation.gates.generalization import hidden_cases
from evaluation.gates.performance import overall
from evaluation.languages import languages
from evaluation.process.fork_server import ForkServer
from evaluation.sandbox.features import isolation_features
from evaluation.session import MeasurementSession
from evaluation.tasks.operator import Example
from evaluation.tasks.spec import Task
from evaluation.timing import plan as plans
from evaluation.tracks import torch_variants
from evaluation.tracks.builds import Build, baselines, build
from evaluation.types import Interval, Reason, Split, Verdict

MIN_HONEST = 2
MIN_MUTANTS = 3
SPREAD_BOUND = 0.05
"""Largest relative difference of a speedup measured twice."""
MAX_REPEATS = 3
"""Attempts to meet it on a busy machine."""
MAX_BUILDS = 8
"""Parallel builds; each can start a compiler for every dtype and target."""
UNTRIED = (
    Reason.BAD_SOURCE,
    Reason.FORBIDDEN,
    Reason.BUILD_ERROR,
    Reason.MISSING_ENTRY,
    Reason.CALL_ERROR,
)
"""Reasons that prove nothing of the task, since the implementation produced no output."""

Answer = tuple[str, Example]
"""A role (probe, mutant or honest) and its implementation."""


@dataclass(frozen=True)
class Attempt:
    """One judged implementation, and whether the verdict was right.

    `seconds` excludes its build.
    """

    name: str
    role: str
    note: str
    verdict: Verdict
    reason: Reason | None
    message: str
    seconds: float
    as_expected: bool
    expect: Reason | None = None
    """Expected reason of failure, where the implementation names one."""


@dataclass(frozen=True)
class Repeat:
    """Ratio of two measurements of a speedup, and its problem; no ratio where nothing was timed."""

    ratio: Interval | None = None
    problem: str = ""


@dataclass(frozen=True)
class Admission:
    """All results of the admission of a task.

    `problems` says why it is not admitted. `repeat` is None where nothing can be timed.
    """

    task: str
    task_hash: str
    judge_version: str
    attempts: tuple[Attempt, ...]
    repeat: Interval | None
    problems: tuple[str, ...]
    admitted: bool


def admit(
    task: Task, cache: Path, report: Callable[[Attempt], None] = lambda attempt: None
) -> Admission:
    """Judge every implementation kept with `task`, and time an honest one twice.

    Each attempt is passed to `report`.

    Raises: TaskError where the task's own files are faulty.
    """
    kept = tuple(answers(task))
    rehearse(task)
    attempts: list[Attempt] = []
    with ForkServer() as fork_server:
        bench = _Bench(task, cache, fork_server)
        for attempt in bench.attempts(kept):
            report(attempt)
            attempts.append(attempt)
        repeat = bench.repeat(kept, attempts)
    problems = tuple(_problems(task, attempts, repeat))
    return Admission(
        task=task.slug,
        task_hash=task.hash,
        judge_version=JUDGE_VERSION,
        attempts=tuple(attempts),
        repeat=repeat.ratio,
        problems=problems,
        admitted=not problems,
    )


def answers(task: Task) -> Iterator[Answer]:
    """Return the trivial submissions and the implementations kept in the task's target language."""
    target, operator = task.track.target, task.operator
    for probe in probes(operator, target):
        yield "probe", probe
    mutants = (*operator.mutants(), *torch_variants.mutants(operator))
    honest = (*operator.honest(), *torch_variants.honest(operator, task.kind))
    for role, known in (("mutant", mutants), ("honest", honest)):
        for example in known:
            if example.language == target:
                yield role, example
    if task.track.source == target != "torch":  # whose baseline is the reference
        source = operator.baseline(target)
        yield "honest", Example("baseline", target, source, "the baseline itself")


class _Bench:
    """Parts of the judge that all implementations of one task share."""

    def __init__(self, task: Task, cache: Path, fork_server: ForkServer) -> None:
        self.task, self.cache, self.fork_server = task, cache, fork_server
        self.device = detect.device_for(task.kind, cache)
        try:
            self.baselines = baselines(task, cache)
        except SubmissionError as error:
            raise TaskError(f"{task.operator.folder / 'baseline'}: {error.message}") from error

    def attempts(self, kept: Sequence[Answer]) -> Iterator[Attempt]:
        """Judge each implementation in turn, once it is built."""
        isolation_features()  # found once, before threads ask
        at_once = min(MAX_BUILDS, len(os.sched_getaffinity(0)))
        with ThreadPoolExecutor(at_once, "build") as pool:
            trials = [pool.submit(self._built, answer) for _, answer in kept]
            for (role, answer), trial in zip(kept, trials, strict=True):
                yield self._attempt(role, answer, trial)

    def _attempt(self, role: str, answer: Example, trial: Future[Trial]) -> Attempt:
        wait([trial])
        started = time.perf_counter()
        verdict, reason, message = self._judge(trial)
        separated = reason is answer.expect if answer.expect else reason not in UNTRIED
        refused = verdict is not Verdict.PASSED and separated
        return Attempt(
            name=answer.name,
            role=role,
            note=answer.note,
            verdict=verdict,
            reason=reason,
            message=message,
            seconds=time.perf_counter() - started,
            as_expected=verdict is Verdict.PASSED if role == "honest" else refused,
            expect=answer.expect,
        )

    def repeat(self, kept: Sequence[Answer], attempts: Sequence[Attempt]) -> Repeat:
        """Return the ratio of an honest implementation's speedup to its earlier one."""
        right = [
            (attempt.seconds, answer)
            for (role, answer), attempt in zip(kept, attempts, strict=True)
            if role == "honest" and attempt.as_expected
        ]
        if not right or languages()[self.task.track.target].judged_here():
            return Repeat()
        _, honest = min(right, key=lambda timed: timed[0])
        try:
            before = self._speedup(honest)
            for _ in range(MAX_REPEATS):
                now = self._speedup(honest)
                ratio = Interval(
                    now.speedup / before.speedup, now.low / before.high, now.high / before.low
                )
                if _steady(ratio):
                    break
                before = now
        except SubmissionError as error:
            told = f"honest {honest.name}, when timed ({error.reason}): {error.message}"
            return Repeat(problem=told)
        return Repeat(ratio)

    def _speedup(self, answer: Example) -> Interval:
        files = {self.task.target_file: answer.source}
        plan = dataclasses.replace(plans.plan_for(self.task.kind, final=True), every_regime=False)
        with self._start(build(self.task, answer.language, files, self.cache)) as judge:
            total = overall([judge.measure(case, plan) for case in self.task.cases(Split.SEEN)])
        assert total is not None, "a task has seen cases"
        return total

    def _built(self, answer: Example) -> Trial:
        """Return an implementation past the gates that need no device. Raises SubmissionError."""
        files = {self.task.target_file: answer.source}
        trial = Trial(self.task, files, self.cache, final=True, start=self._start)
        integrity.judge(trial)
        compilation.judge(trial)
        return trial

    def _judge(self, built: Future[Trial]) -> tuple[Verdict, Reason | None, str]:
        """Return verdict, reason and message, which names no hidden case."""
        try:
            trial = built.result()
            assert trial.build is not None
            with self._start(trial.build) as judge:
                for case in trial.task.checked_cases(trial.max_elements):
                    judge.check(case)
                for case in hidden_cases(trial, secrets.randbits(63)):
                    try:
                        judge.check(case)
                    except SubmissionError as error:
                        return Verdict.FAILED, error.reason, "refused on a hidden case"
        except Rejected as error:
            return Verdict.REJECTED, error.reason, error.message
        except SubmissionError as error:
            return Verdict.FAILED, error.reason, error.message
        return Verdict.PASSED, None, ""

    def _start(self, candidate: Build) -> MeasurementSession:
        judge = MeasurementSession(self.task, self.fork_server, self.baselines[:1], self.cache)
        return judge.set_candidate(candidate, self.device)


def _problems(task: Task, attempts: Sequence[Attempt], repeat: Repeat) -> Iterator[str]:
    for attempt in attempts:
        if not attempt.as_expected:
            yield f"{attempt.role} {attempt.name} {_surprise(attempt)}"
    language = task.track.target
    wanted = (("honest", "honest", MIN_HONEST), ("mutant", "mutants", MIN_MUTANTS))
    for role, folder, least in wanted:
        count = sum(attempt.role == role for attempt in attempts)
        if count < least:
            name = f"{folder}/<name>.{language}{languages()[language].suffix}"
            yield f"{role} answers in {language}: {count}, at least {least} are wanted; add {name}"
    if repeat.problem:
        yield repeat.problem
    if (ratio := repeat.ratio) and not _steady(ratio):
        yield f"times do not repeat: a speedup is {ratio.speedup:.2f} times what it was before"


def _surprise(attempt: Attempt) -> str:
    """Return the problem with an attempt's verdict; empty for an expected one."""
    if attempt.verdict is Verdict.PASSED:
        return "passed: it is right, or no case tells it from what is right"
    told = f"{attempt.verdict} ({attempt.reason}): {attempt.message}"
    if attempt.expect:
        return f"{told}; expected was {attempt.expect}"
    if attempt.role != "honest":
        return f"{told}; so it gave no answer, and nothing is known of the cases"
    return told


def _steady(ratio: Interval) -> bool:
    return 1 / (1 + SPREAD_BOUND) <= ratio.speedup <= 1 + SPREAD_BOUND
