"""Tests of the checks of a task's cases, tolerance and cost model."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from evaluation.device_kind import CPU
from evaluation.judge.admission import problems
from evaluation.kinds.kernel.admission.fit import (
    LARGE_ELEMENTS,
    MAX_ELEMENTS,
    fit,
    trials,
    write,
)
from evaluation.kinds.kernel.admission.task_checks import check_numbers
from evaluation.kinds.kernel.load import load_task
from evaluation.tasks.spec import Task, self_tested
from tests.evaluation.tasks.test_tasks_readme import FILE, README

TASKS = Path(__file__).resolve().parents[5] / "tasks"


def example(folder: Path, *edits: tuple[str, str]) -> Task:
    """Return the task of the README's example, with texts replaced in its files."""
    changed = set()
    for name, text in FILE.findall(README.read_text()):
        for old, new in edits:
            if old in text:
                changed.add(old)
                text = text.replace(old, new)
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert changed == {old for old, _ in edits}
    (folder / "scaled_add" / "prompt.md").write_text("Add them.\n")
    return load_task(folder, "scaled_add", "torch-to-cpp")


def test_numbers_of_the_example_are_accepted(tmp_path: Path) -> None:
    checks = check_numbers(example(tmp_path))
    assert [check.name for check in checks] == ["cases", "tolerance", "cost"]
    assert list(problems(checks)) == []


LOOSE = "tolerance: inputs rounded to 4 significant bits must be refused, and pass in float32: "


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("n = 4097, a = 2.0", "n = 4096, a = 0.5", "cases: held-out cases that are seen: odd is"),
        ("c1 = 4.0", "c1 = 4e12", LOOSE),
        ("return 3 * case", "return 300 * case", "cost: a float32 case moves 4.9152e+06 bytes"),
        ("return 3 * case", "return 0.5 * case", "cost: a float32 case moves 8192 bytes"),
        ('2 * case["n"]', 'float("inf")', "cost: `cost` counts inf operations"),
    ],
)
def test_wrong_number_is_a_problem(tmp_path: Path, old: str, new: str, problem: str) -> None:
    (found,) = problems(check_numbers(example(tmp_path, (old, new))))
    assert found.startswith(problem)


@pytest.mark.parametrize("operator", self_tested(TASKS))
def test_numbers_of_every_operator_are_accepted(operator: str) -> None:
    checks = check_numbers(load_task(TASKS, operator, "torch-to-torch", CPU))
    assert list(problems(checks)) == []


def test_mean_in_which_roundings_cancel_is_accepted() -> None:
    task = load_task(TASKS, "bce_with_logits", "torch-to-torch", CPU)
    for _ in range(5):
        assert list(problems(check_numbers(task))) == []


def test_tolerance_is_fitted_on_small_cases_and_a_large_one() -> None:
    operator = load_task(TASKS, "group_norm", "torch-to-torch", CPU).operator
    families: dict[int, dict[str, None]] = {}
    for reference, family, _ in trials(operator, "float32"):
        families.setdefault(operator.elements(reference.case), {})[family] = None
    large = max(families)
    assert MAX_ELEMENTS < large <= LARGE_ELEMENTS
    assert list(families.pop(large)) == ["nominal", "structured"]
    assert families and max(families) <= MAX_ELEMENTS
    assert all(list(found) == list(operator.input_families) for found in families.values())


SIGNS = """
title = "Signs"
category = "Math"
families = ["llm"]
arguments = [
    { name = "x", role = "input", shape = ["n"] },
    { name = "out", role = "output", dtype = "bool", shape = ["n"] },
    OUTPUT
]

[domain]
dtypes = ["float32"]
n = [1, 64]

[models]
few = { n = 48, source = "a test" }
"""
BOTH = '{ name = "more", role = "output", shape = ["n"] },'


@pytest.mark.parametrize(
    ("output", "result", "words"),
    [
        ("", "torch.signbit(x)", "no output has a tolerance"),
        (
            BOTH,
            "torch.signbit(x + 1.001), torch.cos(x)",
            r"must be refused, and are: their error, .*, is (\d[\d.,]*|∞) in float32$",
        ),
    ],
)
def test_outputs_of_truth_values_have_no_tolerance(
    tmp_path: Path, output: str, result: str, words: str
) -> None:
    folder = tmp_path / "signs"
    folder.mkdir()
    (folder / "task.toml").write_text(SIGNS.replace("OUTPUT", output))
    text = f'"""Signs."""\n\nimport torch\n\n\ndef reference(x):\n    return {result}\n'
    (folder / "reference.py").write_text(text)
    write(folder, fit(folder))
    (check,) = [
        c
        for c in check_numbers(load_task(tmp_path, "signs", "torch-to-torch", CPU))
        if c.name == "tolerance"
    ]
    assert check.ok and re.search(words, check.message)
