"""Admission of a repository task: its own commands pass, and their times repeat.

The unchanged repository is built, tested and timed against itself. With every editable file empty,
the build or the tests must fail, or they would notice no change at all.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from evaluation import JUDGE_VERSION
from evaluation.bench.timing.intervals import geomean
from evaluation.judge.admission import MAX_REPEATS, Admission, is_steady
from evaluation.judge.admission import problems as check_problems
from evaluation.kinds.repository.judge import judge
from evaluation.kinds.repository.task import RepositoryTask, starter_files
from evaluation.types import GateName, GateResult, Interval, Report, TaskCheck, Verdict

CHECKS = {
    GateName.INTEGRITY: "editable files",
    GateName.COMPILE: "build",
    GateName.CORRECTNESS: "correctness",
    GateName.PERFORMANCE: "benchmark",
}

REPEAT = "repeat"


def admit(
    task: RepositoryTask, cache: Path, report: Callable[[TaskCheck], None] = lambda found: None
) -> Admission:
    """Check a repository task on this machine; `report` is called with each check."""
    checks: list[TaskCheck] = []

    def add(check: TaskCheck) -> None:
        report(check)
        checks.append(check)

    judged = _unchanged(task, cache)
    for gate in judged.gates:
        add(_check(gate))
    speedup = None
    if judged.verdict is Verdict.PASSED:
        for _ in range(MAX_REPEATS):
            speedup = _speedup(judged)
            if speedup is None or is_steady(speedup):
                break
            judged = _unchanged(task, cache)
        add(_repeats(speedup))
        add(_empty(task, cache))
    problems = tuple(check_problems(checks))
    return Admission(
        task=task.slug,
        task_hash=task.hash,
        judge_version=JUDGE_VERSION,
        attempts=(),
        repeat=speedup,
        problems=problems,
        admitted=not problems,
        checks=tuple(checks),
        only_unsteady=[check.name for check in checks if not check.ok] == [REPEAT],
    )


def _unchanged(task: RepositoryTask, cache: Path) -> Report:
    return judge(task, starter_files(task), cache, final=False)


def _speedup(judged: Report) -> Interval | None:
    """Return the speedup over all cases, also where they are noisy; None where nothing is timed."""
    timed = judged.gates[-1].measurements
    return geomean([Interval(m.speedup, m.low, m.high) for m in timed])


def _check(gate: GateResult) -> TaskCheck:
    ok = gate.verdict in (Verdict.PASSED, Verdict.SKIPPED)
    return TaskCheck(CHECKS[gate.gate], ok, gate.message)


def _repeats(speedup: Interval | None) -> TaskCheck:
    """Require that the unchanged repository is as fast as itself."""
    if speedup is None:
        return TaskCheck(REPEAT, False, "a second verdict on the unchanged repository failed")
    text = f"the unchanged repository is {speedup.speedup:.3f} times as fast as itself"
    if is_steady(speedup):
        return TaskCheck(REPEAT, True, text)
    return TaskCheck(REPEAT, False, f"times do not repeat: {text}; let each case take longer")


def _empty(task: RepositoryTask, cache: Path) -> TaskCheck:
    empty = judge(task, dict.fromkeys(task.target_files, ""), cache, final=False)
    if empty.verdict is Verdict.PASSED:
        return TaskCheck("empty files", False, "empty editable files pass: test what they compute")
    return TaskCheck("empty files", True, f"empty editable files fail: {empty.message}")
