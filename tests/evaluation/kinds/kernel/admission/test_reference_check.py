"""Tests of the reference check: errors name the file, the function and the remedy."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from evaluation.__main__ import NOT_PASSED, main
from evaluation.errors import TaskError
from evaluation.kinds.kernel.admission.admit import admit
from evaluation.kinds.kernel.admission.reference_check import check_reference
from evaluation.kinds.kernel.load import load_operator, load_task
from evaluation.tasks.spec import find_operators
from tests.evaluation.conftest import OPERATORS

TASKS = Path(__file__).resolve().parents[5] / "tasks"

TOML = """\
title = "Sums of rows"
category = "Reduce"
families = ["vision"]
arguments = [
    { name = "x", role = "input", shape = ["rows", "cols"] },
    { name = "out", role = "output", shape = ["rows"] },
]
[domain]
dtypes = ["float32"]
rows = [1, 64]
cols = [1, 64]
[models]
one = { rows = 48, cols = 16 }
two = { rows = 16, cols = 48 }
"""
REFERENCE = """\
'''Add up each row.'''
import torch
calls = []


def reference(x):
    return x.sum(1)
"""


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
    check_reference(load_task(TASKS, name, "torch-to-torch", kind).operator)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("def inputs(", "def inputs(", ""),
        ("def reference(x, ", "def reference(", "reference: takes weight, shift; the arg"),
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
        check_reference(task.operator)
        return
    with pytest.raises(TaskError, match=rf"reference\.py: .*{message}"):
        check_reference(task.operator)


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


def row_sums(root: Path, returned: str, signature: str = "(x)", toml: str = TOML) -> Path:
    """Return a folder with an operator whose reference has other parameters or results."""
    folder = root / "row_sums"
    folder.mkdir()
    (folder / "task.toml").write_text(toml)
    text = REFERENCE.replace("x.sum(1)", returned).replace("(x)", signature)
    (folder / "reference.py").write_text(text)
    return folder


@pytest.mark.parametrize(
    ("signature", "returned", "message"),
    [
        ("(b)", "b.sum(1)", "reference: takes b; the arguments of task.toml are x: use these"),
        ("()", "1", "reference: takes no parameters; the arguments of task.toml are x"),
        (
            "(x)",
            "x.sum(0)",
            r"reference: out must have the shape \[(\d+)\], got \[(\d+)\], in \S+"
            r" \(rows = \1, cols = \2\) with nominal inputs: return it so, or correct its `shape`",
        ),
        ("(x)", "[x.sum(1)]", r"out must have the shape \[1\], got a list, in "),
        (
            "(x)",
            "x.sum(1), x.amax(1)",
            r"returned 2 outputs, not 1 \(out\), in .*: return out alone, or correct the outputs",
        ),
        ("(x)", "x.argmax(1)", "out must hold floating-point numbers, as float32 does, got whole"),
        (
            "(x)",
            "x.mul_(2).sum(1)",
            r"reference: changes its input x, in .* with nominal inputs: compute on `x.clone\(\)`",
        ),
        ("(x)", "x.clamp_(-100, 100).sum(1)", "changes its input x, in .* with large inputs"),
        (
            "(x)",
            "x.sum(1) + 100 * torch.randn(len(x))",
            'out differs between two calls with equal inputs, in .*: .*`compare = "distribution"`',
        ),
        ("(x)", "x.sum(1) * (1 + 1e-9 * torch.randn(len(x)))", "out differs between two calls"),
        ("(x)", "calls.append(1) or x.sum(1) + len(calls)", "out differs between two calls"),
        ("(x)", "x.smu(1)", "line 7: AttributeError: .*smu.*, in .* with nominal inputs"),
    ],
)
def test_check_reference_simple_mistake_raises_one_sentence_with_a_remedy(
    tmp_path: Path, signature: str, returned: str, message: str
) -> None:
    operator = load_operator(row_sums(tmp_path, returned, signature), has_tolerance=False)
    with pytest.raises(TaskError, match=rf"row_sums/reference\.py: .*{message}") as found:
        check_reference(operator)
    assert "\n" not in str(found.value)


def test_check_reference_whole_output_from_floating_point_numbers_raises_task_error(
    tmp_path: Path,
) -> None:
    toml = TOML.replace('"output", shape', '"output", dtype = "int64", shape')
    operator = load_operator(row_sums(tmp_path, "x.sum(1)", toml=toml), has_tolerance=False)
    with pytest.raises(TaskError, match="out must hold whole numbers, as int64 does, got float"):
        check_reference(operator)


def test_check_reference_random_output_differs_where_it_is_declared(tmp_path: Path) -> None:
    toml = TOML.replace('shape = ["rows"] }', 'shape = ["rows"], compare = "distribution" }')
    folder = row_sums(tmp_path, "torch.rand(len(x))", toml=toml)
    with (folder / "reference.py").open("a") as file:
        file.write("\n\ndef distribution(x, out):\n    return out, out\n")
    check_reference(load_operator(folder, has_tolerance=False))


def test_fit_of_a_reference_with_a_mistake_writes_nothing_and_names_the_remedy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = row_sums(tmp_path, "x.sum(0)")
    assert main(["fit", "row_sums", "--tasks", str(tmp_path)]) == NOT_PASSED
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"row_sums: refused: {folder / 'reference.py'}: reference: out must")
    assert not (folder / "fitted.toml").exists()


def test_admit_of_a_reference_that_changes_its_input_names_the_reference(
    tmp_path: Path, cache: Path
) -> None:
    fitted = "[tolerance]\nfloat32 = { c1 = 4.0, c2 = 4.0 }\n"
    row_sums(tmp_path, "x.mul_(2).sum(1)", toml=TOML + fitted)
    with pytest.raises(TaskError, match=r"reference\.py: reference: changes its input x"):
        admit(load_task(tmp_path, "row_sums", "torch-to-torch"), cache)
