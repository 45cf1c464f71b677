"""Tests of the reference check: errors name the file, the function and the remedy."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from evaluation.errors import TaskError
from evaluation.kinds.kernel.admission.admit import admit
from evaluation.kinds.kernel.admission.reference_check import check_reference
from evaluation.kinds.kernel.load import load_task
from evaluation.tasks.spec import find_operators
from tests.evaluation.conftest import OPERATORS

TASKS = Path(__file__).resolve().parents[5] / "tasks"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copytree(OPERATORS / "scaled", tmp_path / "scaled")
    return tmp_path / "scaled"


def changed(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


@pytest.mark.parametrize("kind", ["cpu", "gpu"])
@pytest.mark.parametrize("name", find_operators(TASKS))
def test_check_reference_of_every_operator_passes(name: str, kind: str) -> None:
    check_reference(load_task(TASKS, name, "torch-to-torch", kind))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("def inputs(", "def inputs(", ""),
        ("def reference(x, ", "def reference(", "reference: TypeError"),
        (
            "def cost(case):",
            "def cost(case):\n    return 1.0",
            "cost: must return two numbers",
        ),
        (
            "def cost(case):",
            "def cost(case):\n    return 0, 1",
            "cost: must return two numbers",
        ),
        ("def inputs(case, draw):", "def inputs(case, draw):\n    return {}", "returned nothing"),
        ("def inputs(case, draw):", "def inputs(case, draw):\n    return 3", "returned int"),
        ("def inputs(case, draw):", "def inputs(case, draw):\n    1 / 0", "line .*ZeroDiv"),
        ("def reduction(case):", "def reduction(case):\n    return 0", "reduction: must return"),
        ("def magnitude(", "def magnitude(*x, **y): return 1.0\ndef other(", "have the shape"),
        ("def reference(", "def reference(*x, **y): return 1, 2\ndef other(", "returned 2 outputs"),
    ],
)
def test_check_reference_faulty_function_raises_task_error(
    folder: Path, old: str, new: str, message: str
) -> None:
    changed(folder / "reference.py", old, new)
    task = load_task(folder.parent, "scaled", "torch-to-cpp")
    if not message:
        check_reference(task)
        return
    with pytest.raises(TaskError, match=rf"reference\.py: .*{message}"):
        check_reference(task)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('role = "output"', 'role = "input"', "arguments: none has the role output"),
        ('split = "unseen"', 'split = "seen"', "cases: none is unseen"),
        ('"cpp-to-cpp"]', '"cpp-to-cpp", "cpp-to-cpp"]', "tracks: 'cpp-to-cpp' is there twice"),
    ],
)
def test_load_task_that_cannot_be_judged_raises_task_error(
    folder: Path, old: str, new: str, message: str
) -> None:
    toml = folder / "task.toml"
    changed(toml, old, new)
    toml.write_text(toml.read_text().replace(old, new))
    with pytest.raises(TaskError, match=message):
        load_task(folder.parent, "scaled", "torch-to-cpp")


def test_load_task_without_task_toml_raises_task_error(folder: Path) -> None:
    (folder / "task.toml").unlink()
    with pytest.raises(TaskError, match=r"task\.toml: no such file"):
        load_task(folder.parent, "scaled", "torch-to-cpp")
    with pytest.raises(TaskError, match="none: no such operator"):
        load_task(folder.parent, "none", "torch-to-cpp")


def test_admit_baseline_that_does_not_build_raises_task_error(folder: Path, cache: Path) -> None:
    (folder / "baseline" / "cpp.cpp").write_text("this is not C++\n")
    with pytest.raises(TaskError, match=r"baseline: g\+\+ refused the source"):
        admit(load_task(folder.parent, "scaled", "cpp-to-cpp"), cache)
