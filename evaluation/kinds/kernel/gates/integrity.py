"""Integrity: static analysis that rejects plain rule violations. Security does not rest on it."""

from __future__ import annotations

from evaluation.judge.report import passed
from evaluation.judge.request import check_files
from evaluation.kinds.kernel.gates import Trial
from evaluation.tasks.source import CONSTANT
from evaluation.types import GateName, GateResult

NAME, ORDER, STAGE, HIDDEN = GateName.INTEGRITY, 10, "build", False

MAX_SHOWN = 4
"""Ignored statements that the message shows."""


def judge(trial: Trial) -> GateResult:
    check_files(trial.files, trial.task.target_file)
    trial.language.check(trial.files, trial.task)
    message, ignored = "no rule violations found", list(trial.language.ignored(trial.files))
    if ignored:
        message += f"; ignored, as the judge sets these switches: {'; '.join(ignored[:MAX_SHOWN])}"
    source = trial.task.operator.source
    if source and CONSTANT in source.flags:
        message += f"; of the suite's problem, {CONSTANT}"
    detail = {"ignored": ignored} if ignored else {}
    return passed(NAME, message, detail=detail)
