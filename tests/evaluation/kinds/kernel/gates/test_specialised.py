"""Problems of public suites: right at the suite's sizes, and right at any size, are two facts."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from evaluation.errors import SubmissionError
from evaluation.kinds.kernel.gates import Trial, correctness, generalization
from evaluation.tasks.source import Source
from evaluation.tasks.spec import Task
from evaluation.types import Case, Reason, Verdict

SOURCE = Source(
    "s", "S", "https://example.org/s", "0" * 40, "p.py", "0" * 64, "MIT", "f", 1, "", tolerance=0.1
)


class Session:
    """A session whose candidate fails on cases of a kind."""

    def __init__(self, fails: str, reason: Reason = Reason.WRONG_VALUES) -> None:
        self.fails, self.reason = fails, reason
        self.checked: list[str] = []
        self.ended: list[str] = []

    def call(self, case: Case) -> None:
        self.checked.append(f"call {case.kind}")

    def check(self, case: Case, thorough: bool) -> float:
        self.checked.append(case.kind)
        if case.kind == self.fails:
            raise SubmissionError(self.reason, f"case {case.name}: wrong")
        return 0.25

    def kept_rules(self, case: Case) -> list[str]:
        assert case.kind != correctness.BOUNDARY
        return ["suite"]

    def end_process(self, name: str) -> None:
        self.ended.append(name)


def trial_of(task: Task, session: Session, tmp_path: Path, of_suite: bool = True) -> Trial:
    source: Any = SOURCE if of_suite else None
    task = dataclasses.replace(task, operator=dataclasses.replace(task.operator, source=source))
    trial = Trial(task, {}, tmp_path, True, lambda build: None)  # type: ignore[arg-type, return-value]
    trial._session = session  # type: ignore[assignment]
    return trial


def test_kernel_right_at_the_sizes_of_its_suite_alone_is_specialised(
    task: Task, tmp_path: Path
) -> None:
    session = Session(fails="boundary")
    trial = trial_of(task, session, tmp_path)
    result = correctness.judge(trial)
    own = len(task.cases(correctness.Split.SEEN))
    assert session.checked[1 : 1 + own] == [
        c.kind for c in trial.task.cases(correctness.Split.SEEN)
    ]
    assert result.verdict is Verdict.SPECIALISED
    assert result.reason is Reason.WRONG_VALUES
    assert result.passed == own
    assert result.detail["broke_at"] == trial.broke_at != ""
    assert result.detail["precision_rule"] == "ieee"
    assert result.detail["right_by"] == ["suite"]
    assert session.ended == ["candidate"], "another process is timed"
    skipped = generalization.judge(trial)
    assert skipped.verdict is Verdict.SKIPPED


def test_kernel_wrong_at_a_size_of_its_suite_fails(task: Task, tmp_path: Path) -> None:
    kind = task.cases(correctness.Split.SEEN)[0].kind
    result = correctness.judge(trial_of(task, Session(fails=kind), tmp_path))
    assert result.verdict is Verdict.FAILED
    assert result.detail["right_by"] == ["suite"]
    assert result.message.endswith("; right by the suite's own tolerance")


@pytest.mark.parametrize("reason", [Reason.INPUT_MUTATED, Reason.FORBIDDEN])
def test_broken_rule_is_no_specialisation(task: Task, tmp_path: Path, reason: Reason) -> None:
    result = correctness.judge(trial_of(task, Session("boundary", reason), tmp_path))
    assert result.verdict is Verdict.FAILED


def test_kernel_of_another_task_fails_at_any_size(task: Task, tmp_path: Path) -> None:
    session = Session(fails="boundary")
    result = correctness.judge(trial_of(task, session, tmp_path, of_suite=False))
    assert result.verdict is Verdict.FAILED
    assert "right_by" not in result.detail
