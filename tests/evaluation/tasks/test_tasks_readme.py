"""Test of the example operator in `tasks/README.md`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from evaluation.kinds.kernel.admission.reference_check import check_reference
from evaluation.kinds.kernel.load import load_task
from evaluation.types import Reason, Verdict
from tests.evaluation.conftest import judged

README = Path(__file__).resolve().parents[3] / "tasks" / "README.md"
FILE = re.compile(r"```\w+\n(?:#|//) (scaled_add/\S+)\n(.*?)```", re.DOTALL)


@pytest.fixture
def tasks(tmp_path: Path) -> Path:
    for name, text in FILE.findall(README.read_text()):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "scaled_add" / "prompt.md").write_text("Add them.\n")
    return tmp_path


@pytest.mark.usefixtures("in_a_hurry", "shared_fork_server")
def test_readme_operator_is_judged(tasks: Path, cache: Path) -> None:
    task = load_task(tasks, "scaled_add", "cpp-to-cpp")
    check_reference(task.operator)
    right = judged(task, task.operator.baseline("cpp"), cache)
    assert right.verdict is Verdict.PASSED, right.message
    (mutant,) = task.operator.mutants()
    wrong = judged(task, mutant.source, cache, scope="round")
    assert (wrong.verdict, wrong.reason) == (Verdict.FAILED, Reason.WRONG_VALUES)
