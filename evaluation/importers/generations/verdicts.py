"""Verdicts on generations: a report of the judge as one of the statuses of a record."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from evaluation import JUDGE_VERSION
from evaluation.bench.process.fork_server import ForkServer
from evaluation.errors import TaskError
from evaluation.importers.generations.records import MAX_MESSAGE
from evaluation.judge.report import error_of
from evaluation.judge.request import Request
from evaluation.kinds.kernel import judge as kernel_judge
from evaluation.kinds.kernel.load import load_task
from evaluation.sandbox.untrusted_text import printable
from evaluation.tasks.operator import SUITE
from evaluation.tasks.spec import Task
from evaluation.types import GateName, GateResult, Reason, Report, Verdict

TRACK = "torch-to-torch"
"""The track of all generations: any call of PyTorch, extensions and kernels in Triton."""
WRONG = frozenset(
    {
        Reason.WRONG_SHAPE,
        Reason.WRONG_DTYPE,
        Reason.WRONG_VALUES,
        Reason.NON_FINITE,
        Reason.OUT_OF_BOUNDS,
    }
)
"""Reasons of a candidate that ran, and whose outputs are not what they must be."""
AGAINST_RULES = frozenset({Reason.INPUT_MUTATED, Reason.ALIASED_OUTPUT, Reason.STALE_OUTPUT})
"""Reasons of a candidate that ran, and broke a rule about memory."""
NOT_JUDGED = "not_judged"
TIMEOUT = "OVER_TIME_LIMIT"
"""Reason of a verdict that took too long; not that of a candidate that did."""
_FRAME = '  File "'
_ROOTS = re.compile(r"(?:/[\w.+-]+){2,}/(?=[\w.+-])")


@dataclass(frozen=True)
class Job:
    """A source to judge against a task."""

    root: str
    operator: str
    text: str
    kind: str
    cache: str
    scope: str

    def task(self) -> Task:
        """Return the task. Raises TaskError."""
        return load_task(Path(self.root), self.operator, TRACK, self.kind)

    def request(self, task: Task, stage: str = "all") -> Request:
        files = {task.target_file: self.text}
        return Request(task, files, Path(self.cache), stage, self.scope)

    def to_json(self) -> dict[str, str]:
        return asdict(self)


def build(job: Job) -> dict[str, Any] | None:
    """Build a source into the cache; return its result where that is a verdict already."""
    started = time.perf_counter()
    try:
        task = job.task()
    except TaskError as error:
        return {"judged": unjudged("NO_TASK", str(error))}
    report = kernel_judge.evaluate(job.request(task, "build"))
    if report.verdict is not Verdict.PASSED:
        judged = judged_of(report, time.perf_counter() - started)
        return {"judged": judged, "spent": _spent(report)}
    return None


def judge(data: Mapping[str, Any], fork_server: ForkServer) -> dict[str, Any]:
    """Return the `judged` part of a record, the verdict, and what it spent for the log."""
    started = time.perf_counter()
    job = Job(**data)
    try:
        report = kernel_judge.evaluate(job.request(job.task()), fork_server=fork_server)
    except Exception as error:  # one that fails must not end the others
        message = f"{type(error).__name__}: {error}"
        judged = unjudged(Reason.JUDGE_ERROR, message, time.perf_counter() - started)
        return {"judged": judged, "verdict": Verdict.BROKEN}
    return {
        "judged": judged_of(report, time.perf_counter() - started),
        "verdict": report.verdict,
        "spent": _spent(report),
    }


def _spent(report: Report) -> dict[str, float]:
    """Return the seconds that each gate took."""
    return {str(gate.gate): round(gate.duration_ms / 1e3, 1) for gate in report.gates}


def unjudged(reason: str, message: str, seconds: float | None = None) -> dict[str, Any]:
    """Return the `judged` part of a generation without a verdict."""
    return _judged(NOT_JUDGED, reason, message, seconds)


def _judged(status: str, reason: str, message: str, seconds: float | None) -> dict[str, Any]:
    return {
        "status": status,
        "reason": reason,
        "message": clean(message),
        "gate": None,
        "broke_at": None,
        "speedup": None,
        "low": None,
        "high": None,
        "noisy": None,
        "hidden_speedup": None,
        "precision_rule": None,
        "right_by": None,
        "seconds": None if seconds is None else round(seconds, 1),
        "judge_version": JUDGE_VERSION,
    }


def judged_of(report: Report, seconds: float) -> dict[str, Any]:
    """Return the `judged` part of a record."""
    last = report.gates[-1]
    judged = _judged(status_of(report), str(report.reason or ""), _message(report), seconds)
    details = {name: value for gate in report.gates for name, value in gate.detail.items()}
    judged |= {
        "gate": str(last.gate),
        "broke_at": details.get("broke_at"),
        "noisy": report.noisy,
        "precision_rule": details.get("precision_rule"),
        "right_by": details.get("right_by"),
        "hidden_speedup": report.unseen and round(report.unseen.speedup, 4),
    }
    if report.seen:
        judged |= {
            "speedup": round(report.seen.speedup, 4),
            "low": round(report.seen.low, 4),
            "high": round(report.seen.high, 4),
        }
    return judged


def status_of(report: Report) -> str:
    """Return the status of a record."""
    match report.verdict:
        case Verdict.REJECTED:
            return "forbidden"
        case Verdict.FAILED if report.reason is Reason.UNSUPPORTED:
            return "unsupported"
        case Verdict.FAILED if report.reason in AGAINST_RULES:
            return "forbidden"
        case Verdict.FAILED:
            if report.reason not in WRONG:
                return "failed"
            return (
                "suite_right" if SUITE in report.gates[-1].detail.get("right_by", ()) else "wrong"
            )
        case Verdict.DISPUTED | Verdict.INCONCLUSIVE:
            return "inconclusive"
        case Verdict.BROKEN | Verdict.SKIPPED:
            return NOT_JUDGED
    return str(report.verdict)


def _decisive(report: Report) -> GateResult:
    """Return the result of the gate that the verdict is of."""
    of_verdict = [gate for gate in report.gates if gate.verdict is report.verdict]
    return of_verdict[-1] if of_verdict else report.gates[-1]


def _message(report: Report) -> str:
    last = _decisive(report)
    rule = f"{last.rule}: " if last.rule else ""
    if report.verdict is Verdict.BROKEN:
        return error_of(report) or report.message
    if last.gate is GateName.COMPILE and last.compiler and report.verdict is Verdict.FAILED:
        errors = [d for d in last.compiler[-1].diagnostics if d.severity == "error"]
        if errors and errors[0].message not in report.message:
            return f"{report.message}: {errors[0].message}"
    return rule + report.message


def clean(message: str) -> str:
    """Return a message of one line, without folders of the machine, cut to its length.

    Of a traceback it is the line behind the last frame, which names the error; more may follow.
    """
    if _FRAME in message:
        behind = message.strip().rpartition(_FRAME)[2].splitlines()[1:]
        message = next((line for line in behind if line[:1].strip()), behind[-1] if behind else "")
    line = " ".join(printable(message).split())
    return _ROOTS.sub("", line)[:MAX_MESSAGE]
