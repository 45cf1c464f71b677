"""Whether a task may enter the catalogue: wrong answers fail, honest ones pass, times repeat.

Wrong are the probes that need no idea of the operator (zeros, a constant, a copied input, memory as
it was found) and the task's own mutants. The baseline's spread is measured by judging it against
itself, as any candidate is.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from evaluation import JUDGE_VERSION, clock, pipeline
from evaluation.builds import baselines
from evaluation.errors import Broken, SubmissionError
from evaluation.languages import languages
from evaluation.probes import probes
from evaluation.task import Example, Task
from evaluation.types import GateName, Reason, Split, Verdict

LEAST_HONEST = 2
LEAST_MUTANTS = 3
SPREAD_BOUND = 0.05
"""The most that a baseline's speedup over itself may stray from 1: root mean square of the logs."""


@dataclass(frozen=True)
class Attempt:
    """One answer that was judged (probe, mutant or honest), and whether the judge was right."""

    name: str
    role: str
    note: str
    verdict: Verdict
    gate: GateName
    reason: Reason | None
    message: str
    seconds: float
    as_expected: bool


@dataclass(frozen=True)
class Admission:
    """Everything that was tried on a task. `problems` says why it is not admitted.

    `spread` is None where the language cannot be timed.
    """

    task: str
    task_hash: str
    judge_version: str
    attempts: tuple[Attempt, ...]
    spread: float | None
    spread_bound: float
    problems: tuple[str, ...]
    admitted: bool


def admit(task: Task, cache: Path) -> Admission:
    """Judge every kept answer of `task` through all gates, its hidden cases included."""
    attempts = tuple(_attempt(task, cache, role, example) for role, example in _answers(task))
    spread = _spread(task, cache)
    problems = tuple(_problems(attempts, spread))
    return Admission(
        task=task.slug,
        task_hash=task.hash,
        judge_version=JUDGE_VERSION,
        attempts=attempts,
        spread=spread,
        spread_bound=SPREAD_BOUND,
        problems=problems,
        admitted=not problems,
    )


def _answers(task: Task) -> Iterator[tuple[str, Example]]:
    target, operator = task.track.target, task.operator
    for probe in probes(operator, target):
        yield "probe", probe
    for role, kept in (("mutant", operator.mutants()), ("honest", operator.honest())):
        for example in kept:
            if example.language == target:
                yield role, example
    if task.track.source == target:
        source = operator.baseline(target)
        yield "honest", Example("baseline", target, source, "the baseline itself")


def _attempt(task: Task, cache: Path, role: str, example: Example) -> Attempt:
    started = time.perf_counter()
    files = {task.target_file: example.source}
    report = pipeline.evaluate(pipeline.Request(task, files, cache, unconfined=True))
    refused = report.verdict in (Verdict.FAILED, Verdict.REJECTED)
    right_reason = example.expect in (None, report.reason)
    return Attempt(
        name=example.name,
        role=role,
        note=example.note,
        verdict=report.verdict,
        gate=report.gates[-1].gate,
        reason=report.reason,
        message=report.message,
        seconds=time.perf_counter() - started,
        as_expected=report.verdict is Verdict.PASSED
        if role == "honest"
        else refused and right_reason,
    )


def _spread(task: Task, cache: Path) -> float | None:
    """How far the baseline's speedup over itself strays from 1 on seen cases; None if untimed.

    Raises Broken when the baseline is wrong.
    """
    from evaluation.arm import Zygote
    from evaluation.judge import Judge

    if languages()[task.track.target].judged_here():
        return None
    baseline = baselines(task, cache)[0]
    with Zygote() as zygote:
        device = pipeline.device(cache)
        with Judge(task, zygote, baseline, [baseline], device, cache, {}) as judge:
            try:
                measured = [judge.measure(c, clock.FINAL_PLAN) for c in task.cases(Split.SEEN)]
            except SubmissionError as error:
                raise Broken(f"{task.slug}: its own baseline fails: {error}") from error
    return math.sqrt(statistics.fmean(math.log(m.speedup) ** 2 for m in measured))


def _problems(attempts: tuple[Attempt, ...], spread: float | None) -> Iterator[str]:
    for attempt in attempts:
        if not attempt.as_expected:
            reason = f" ({attempt.reason})" if attempt.reason else ""
            yield (
                f"{attempt.role} {attempt.name} {attempt.verdict}{reason} "
                f"at {attempt.gate}: {attempt.message}"
            )
    for role, least in (("honest", LEAST_HONEST), ("mutant", LEAST_MUTANTS)):
        count = sum(attempt.role == role for attempt in attempts)
        if count < least:
            yield f"{count} {role} answers; add some until there are {least}"
    if spread is not None and spread > SPREAD_BOUND:
        yield f"the baseline against itself strays by {spread:.1%}, more than {SPREAD_BOUND:.0%}"
