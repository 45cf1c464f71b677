"""Admission of a task: wrong implementations fail, honest ones pass, and times repeat.

Wrong implementations are made from the reference (see `reference_mutants`) and compared in one
sandboxed process, in seconds. Honest ones, two in PyTorch and those beside the task, are built in
parallel and judged in turn on seen, boundary and hidden cases. One that computes the same values as
another is spared the hidden cases. Last, an honest one is timed twice against the baseline, in
fresh processes, and a kernel once more on neighbours of the seen cases, where it must retain its
speedup.

A self-test tests the judge's languages as well, on an operator that has mutants of its own. Wrong
implementations then pass through the whole judge in the language of the track: the operator's
mutants and the trivial submissions (zeros, a constant, a copied input, untouched memory).
"""

from __future__ import annotations

import dataclasses
import os
import secrets
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, nullcontext
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from evaluation import JUDGE_VERSION
from evaluation.bench.devices import detect
from evaluation.bench.process.fork_server import ForkServer
from evaluation.bench.process.task_host import processes_of
from evaluation.bench.timing import plan as plans
from evaluation.code.languages import languages
from evaluation.errors import Inconclusive, Rejected, SubmissionError, TaskError
from evaluation.judge.admission import MAX_REPEATS, Admission, Attempt, is_steady
from evaluation.judge.admission import problems as check_problems
from evaluation.judge.report import overall
from evaluation.kinds.kernel import torch_variants
from evaluation.kinds.kernel.admission import reference_process
from evaluation.kinds.kernel.admission.trivial_submissions import probes
from evaluation.kinds.kernel.builds import Build, baselines, build
from evaluation.kinds.kernel.gates import Trial, integrity
from evaluation.kinds.kernel.gates import compile as compilation
from evaluation.kinds.kernel.gates.generalization import hidden_cases, timed_cases
from evaluation.kinds.kernel.session import MeasurementSession
from evaluation.sandbox.features import isolation_features
from evaluation.tasks import task_code
from evaluation.tasks.operator import Example
from evaluation.tasks.spec import Task, has_mutants
from evaluation.types import Case, Interval, Reason, Split, TaskCheck, Verdict

MIN_HONEST = 2
MIN_MUTANTS = 3
RETAINED = 0.8, 1.25
"""Bounds of the retained share of an honest kernel: its speedup on neighbours over that on seen
cases.
"""
MAX_BUILDS = 8
"""Parallel builds; each can start a compiler for every dtype and target."""
UNTRIED = (
    Reason.BAD_SOURCE,
    Reason.FORBIDDEN,
    Reason.UNSUPPORTED,
    Reason.BUILD_ERROR,
    Reason.MISSING_ENTRY,
    Reason.CALL_ERROR,
)
"""Reasons that say nothing about the task's cases, since there was no output to check."""

Implementation = tuple[str, Example]
"""A role (probe, mutant or honest), and a source."""


@dataclass(frozen=True)
class Repeat:
    """Ratio of two measurements of a speedup, and its problem; no ratio where nothing was timed.

    `retained` is the ratio of the speedup on neighbours to the last of them; None in PyTorch.
    """

    ratio: Interval | None = None
    retained: Interval | None = None
    problem: str = ""


def admit(
    task: Task,
    cache: Path,
    report: Callable[[Attempt | TaskCheck], None] = lambda found: None,
    fork_server: ForkServer | None = None,
    *,
    self_test: bool = False,
) -> Admission:
    """Judge the honest implementations of `task`, and time one twice; wrong ones must fail.

    With `self_test`, an operator that has mutants of its own is judged with them. Others have none
    to try, and are checked as without it. `report` is called with each check and each attempt. A
    `fork_server` can serve many tasks, since it starts as slowly as PyTorch is imported.

    Raises: TaskError where the task's own files are faulty; Inconclusive where other work disturbs
    a step, which is reported as an inconclusive attempt.
    """
    self_test = is_self_test(task, self_test)
    chosen = tuple(implementations(task, self_test=self_test))
    attempts: list[Attempt] = []
    with (
        nullcontext(fork_server) if fork_server else ForkServer() as server,
        task_code.hosted(processes_of(lambda: server)),
    ):
        # Else a reference imports Triton as on a GPU.
        server.prepare_compilers(task.kind, among=(task.track.source, task.track.target))
        checks = reference_process.check_numbers(server, task)
        if not self_test:
            mutants = reference_process.check_mutants(server, task.operator, task.kind)
            checks = (*checks, mutants)
        for check in checks:
            report(check)
        judge = _TaskJudge(task, cache, server, self_test, report)
        for attempt in judge.attempts(chosen):
            report(attempt)
            attempts.append(attempt)
        repeat = judge.repeat(chosen, attempts)
    unsteady = repeat.ratio is not None and not is_steady(repeat.ratio)
    problems = (*check_problems(checks), *_problems(task, attempts, repeat, self_test))
    return Admission(
        task=task.slug,
        task_hash=task.hash,
        judge_version=JUDGE_VERSION,
        attempts=tuple(attempts),
        repeat=repeat.ratio,
        problems=problems,
        admitted=not problems,
        checks=checks,
        retained=repeat.retained,
        self_test=self_test,
        only_unsteady=len(problems) == 1 and unsteady,
    )


def is_self_test(task: Task, requested: bool) -> bool:
    """Return whether a request is a self-test: only an operator with mutants of its own has one."""
    return requested and has_mutants(task.operator.folder)


def implementations(task: Task, *, self_test: bool = False) -> Iterator[Implementation]:
    """Yield the implementations to judge, in the target language.

    These are the honest ones; in a self-test, trivial submissions and mutants come before.
    """
    target, operator = task.track.target, task.operator
    mutants: tuple[Example, ...] = ()
    if is_self_test(task, self_test):
        for example in probes(operator, target):
            yield "probe", example
        mutants = (*operator.mutants(), *torch_variants.mutants(operator))
    honest = (*operator.honest(), *torch_variants.honest(operator, task.kind))
    for role, examples in (("mutant", mutants), ("honest", honest)):
        for example in examples:
            if example.language == target:
                yield role, example
    if task.track.source == target != "torch":  # whose baseline is the reference
        source = operator.baseline(target)
        yield "honest", Example("baseline", target, source, "the baseline itself")


def is_repeated(task: Task) -> bool:
    """Return whether times are repeated: for every tenth operator without mutants of its own."""
    return has_mutants(task.operator.folder) or zlib.crc32(task.operator.name.encode()) % 10 == 0


@contextmanager
def reported_if_disturbed(
    report: Callable[[Attempt], None], task: str, role: str, name: str, note: str
) -> Iterator[None]:
    """Report a step that other work disturbs, and name it in the error."""
    started = time.perf_counter()
    try:
        yield
    except Inconclusive as error:
        report(
            Attempt(
                name=name,
                role=role,
                note=note,
                verdict=Verdict.INCONCLUSIVE,
                reason=Reason.MACHINE_BUSY,
                message=str(error),
                seconds=time.perf_counter() - started,
                as_expected=False,
            )
        )
        raise Inconclusive(f"{task}: {role} {name}: {error}") from error


class _TaskJudge:
    """Parts of the judge that all implementations of one task share."""

    def __init__(
        self,
        task: Task,
        cache: Path,
        fork_server: ForkServer,
        self_test: bool,
        report: Callable[[Attempt], None],
    ) -> None:
        self.task, self.cache, self.fork_server = task, cache, fork_server
        self.self_test = self_test
        self._step = partial(reported_if_disturbed, report, task.slug)
        self.device = detect.device_for(task.kind, cache)
        try:
            self.baselines = baselines(task, cache)
        except SubmissionError as error:
            raise TaskError(f"{task.operator.folder / 'baseline'}: {error.message}") from error

    def attempts(self, chosen: Sequence[Implementation]) -> Iterator[Attempt]:
        """Judge each implementation in turn, once it is built."""
        isolation_features()  # detected once, before threads need them
        workers = min(MAX_BUILDS, len(os.sched_getaffinity(0)))
        with ThreadPoolExecutor(workers, "build") as pool:
            # Each with the host of the task's code, which is that of this thread.
            builds = [
                pool.submit(copy_context().run, self._build, example) for _, example in chosen
            ]
            for (role, example), trial in zip(chosen, builds, strict=True):
                yield self._attempt(role, example, trial)

    def _attempt(self, role: str, example: Example, trial: Future[Trial]) -> Attempt:
        wait([trial])
        started = time.perf_counter()
        hidden = self.self_test or not example.same_values
        with self._step(role, example.name, example.note):
            verdict, reason, message = self._judge(trial, hidden)
        passed, expect = verdict is Verdict.PASSED, example.expect
        tried = reason is expect if expect else reason not in UNTRIED
        passed_or_uncompiled = passed or (example.compiled and reason is Reason.CALL_ERROR)
        return Attempt(
            name=example.name,
            role=role,
            note=example.note,
            verdict=verdict,
            reason=reason,
            message=message,
            seconds=time.perf_counter() - started,
            as_expected=passed_or_uncompiled if role == "honest" else tried and not passed,
            expect=expect,
        )

    def repeat(self, chosen: Sequence[Implementation], attempts: Sequence[Attempt]) -> Repeat:
        """Return the ratio of a speedup to an earlier one, of the honest one judged fastest."""
        honest = [
            (attempt.seconds, example)
            for (_, example), attempt in zip(chosen, attempts, strict=True)
            if attempt.role == "honest" and attempt.verdict is Verdict.PASSED
        ]
        if (
            not honest
            or not is_repeated(self.task)
            or languages()[self.task.track.target].judged_here()
        ):
            return Repeat()
        _, example = min(honest, key=lambda timed: timed[0])
        note = "its speedup, which must be the same when it is measured again"
        with self._step("honest", f"{example.name}, timed", note):
            return self._repeat(example)

    def _repeat(self, example: Example) -> Repeat:
        try:
            seen = self.task.cases(Split.SEEN)
            before, retained = self._speedup(example, seen), None
            for _ in range(MAX_REPEATS):
                now = self._speedup(example, seen)
                ratio = _ratio(now, before)
                if is_steady(ratio):
                    break
                before = now
            if example.language != "torch":
                near = timed_cases(self.task, secrets.token_bytes())
                retained = _ratio(self._speedup(example, near), now)
        except SubmissionError as error:
            place = f"honest {example.name}, when timed"
            return Repeat(problem=f"{place} ({error.reason}): {error.message}")
        return Repeat(ratio, retained)

    def _speedup(self, example: Example, cases: Sequence[Case]) -> Interval:
        files = {self.task.target_file: example.source}
        plan = dataclasses.replace(plans.plan_for(self.task.kind, final=True), every_regime=False)
        with self._start(build(self.task, example.language, files, self.cache)) as session:
            total = overall([session.measure(case, plan) for case in cases])
        assert total is not None, "a task has seen cases, and they have neighbours"
        return total

    def _build(self, example: Example) -> Trial:
        """Pass an implementation through the gates without a device. Raises SubmissionError."""
        files = {self.task.target_file: example.source}
        trial = Trial(self.task, files, self.cache, final=True, start=self._start)
        integrity.judge(trial)
        compilation.judge(trial)
        return trial

    def _judge(self, built: Future[Trial], hidden: bool) -> tuple[Verdict, Reason | None, str]:
        """Return verdict, reason and message, which names no hidden case.

        Without `hidden`, only the public cases are judged.
        """
        try:
            trial = built.result()
            assert trial.build is not None
            with self._start(trial.build) as session:
                for case in trial.task.checked_cases(trial.max_elements):
                    session.check(case, self.self_test)
                seed, secret = secrets.randbits(63), secrets.token_bytes()
                cases = hidden_cases(trial.task, seed, secret, trial.max_elements)
                for case in cases if hidden else ():
                    try:
                        session.check(case, self.self_test)
                    except SubmissionError as error:
                        return Verdict.FAILED, error.reason, "refused on a hidden case"
        except Rejected as error:
            return Verdict.REJECTED, error.reason, error.message
        except SubmissionError as error:
            return Verdict.FAILED, error.reason, error.message
        return Verdict.PASSED, None, ""

    def _start(self, candidate: Build) -> MeasurementSession:
        session = MeasurementSession(self.task, self.fork_server, self.baselines[:1], self.cache)
        return session.set_candidate(candidate, self.device)


def _problems(
    task: Task, attempts: Sequence[Attempt], repeat: Repeat, self_test: bool
) -> Iterator[str]:
    for attempt in attempts:
        if not attempt.as_expected:
            yield f"{attempt.role} {attempt.name} {_problem(attempt)}"
    language = task.track.target
    for role, folder, least in (
        ("honest", "honest", MIN_HONEST if self_test or language == "torch" else 0),
        ("mutant", "mutants", MIN_MUTANTS if self_test else 0),
    ):
        count = sum(attempt.role == role for attempt in attempts)
        if count < least:
            name = f"{folder}/<name>.{language}{languages()[language].suffix}"
            yield f"{role} implementations in {language}: {count} of at least {least}; add {name}"
    if repeat.problem:
        yield repeat.problem
    if (ratio := repeat.ratio) and not is_steady(ratio):
        yield f"times do not repeat: a speedup is {ratio.speedup:.2f} times what it was before"
    low, high = RETAINED
    if (kept := repeat.retained) and (kept.high < low or kept.low > high):
        share = f"{kept.speedup:.0%} [{kept.low:.0%}, {kept.high:.0%}]"
        yield (
            f"an honest kernel retains {share} of its speedup on sizes near the public ones, where "
            f"{low:.0%} to {high:.0%} are expected: choose public cases that stand for others"
        )


def _problem(attempt: Attempt) -> str:
    """Return what is wrong with an unexpected verdict, and what to do."""
    if attempt.verdict is Verdict.PASSED:
        return "passed: correct it, or add a case that it fails"
    result = f"{attempt.verdict} ({attempt.reason}): {attempt.message}"
    if attempt.expect:
        return f"{result}; expected was {attempt.expect}"
    if attempt.role != "honest":
        return f"{result}; it gave no output, so no case was tested: correct it"
    return result


def _ratio(now: Interval, before: Interval) -> Interval:
    return Interval(now.speedup / before.speedup, now.low / before.high, now.high / before.low)
