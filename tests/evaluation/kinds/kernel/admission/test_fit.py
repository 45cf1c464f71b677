"""Tests of the fit of a tolerance: an error of `reference.py` is the author's, and named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evaluation.__main__ import NOT_PASSED, main
from evaluation.kinds.kernel.admission import fit
from evaluation.kinds.kernel.load import load_operator
from evaluation.tasks.domain import FAMILIES
from evaluation.tasks.loaded_code import run_here

TOML = """\
title = "Clipped values"
category = "Math"
families = ["vision"]
arguments = [
    { name = "x", role = "input", shape = ["rows"] },
    { name = "out", role = "output", shape = ["rows"] },
]
[domain]
dtypes = ["float32"]
rows = [1, 64]
[models]
one = { rows = 48 }
two = { rows = 16 }
"""
REFERENCE = '''"""Clip `x` to the range from 0 to 6."""


def reference(x):
    clipped = {}
    return clipped
'''


def written(root: Path, name: str, expression: str) -> Path:
    folder = root / name
    folder.mkdir()
    (folder / "task.toml").write_text(TOML)
    (folder / "reference.py").write_text(REFERENCE.format(expression))
    return folder


def test_error_of_a_reference_is_refused_with_its_line_and_others_are_fitted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = written(tmp_path, "wrong", "x.clmp(0, 6)")
    right = written(tmp_path, "right", "x.clamp(0, 6)")
    assert main(["fit", "wrong", "right", "--tasks", str(tmp_path)]) == NOT_PASSED
    shown = capsys.readouterr()
    place = f"wrong: refused: {wrong / 'reference.py'}: line 5: AttributeError: "
    assert shown.err.startswith(place) and "clmp" in shown.err
    assert "Traceback" not in shown.err
    assert shown.out.startswith("right: float32 c1 4 c2 ")
    assert (right / "fitted.toml").is_file() and not (wrong / "fitted.toml").exists()


def test_error_of_the_fit_itself_is_not_the_authors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = written(tmp_path, "right", "x.clamp(0, 6)")
    monkeypatch.delitem(fit.C1, "float32")
    with pytest.raises(KeyError, match="float32"):
        fit.fit(folder)


def test_fit_names_all_families_that_leave_no_tolerance(tmp_path: Path) -> None:
    folder = written(tmp_path, "square", "x.exp().square().sqrt()")
    with pytest.raises(fit.NoFit, match="out overflows in float32") as found:
        fit.fit(folder)
    left = [name for name in FAMILIES if name not in found.value.families]
    assert "large" not in left and {"nominal", "tiny", "structured", "cancelling"} <= set(left)
    text = (folder / "task.toml").read_text()
    (folder / "task.toml").write_text(f"input_families = {json.dumps(left)}\n{text}")
    assert set(fit.fit(folder).tolerance) == {"float32"}


def test_number_of_python_that_overflows_is_of_its_family(tmp_path: Path) -> None:
    folder = written(tmp_path, "python", "x.mul(2.0 ** (100 * float(x.abs().max())) * 0 + 1)")
    with pytest.raises(fit.NoFit, match="a number overflows in float32") as found:
        fit.fit(folder)
    assert {"large", "cancelling"} <= set(found.value.families)
    assert not {"nominal", "tiny", "structured"} & set(found.value.families)


def rows_that_are_fitted_on(root: Path, expression: str) -> list[int]:
    folder = written(root, "steps", expression)
    text = TOML.replace("64]", "9]").replace("48", "9").replace("16", "4")
    (folder / "task.toml").write_text(text)
    trials = fit.trials(load_operator(folder), "float32")
    return sorted({reference.case["rows"] for reference, *_ in trials})


@pytest.mark.parametrize(
    "work",
    [
        "[x := x + 1 for _ in range({calls} * len(x))][-1]",
        "x + (x.new_ones(len(x), {size}) @ x.new_ones({size}, {size})).sum()",
    ],
)
def test_cases_with_too_many_operations_are_left_out(tmp_path: Path, work: str) -> None:
    run_here()
    for name in ("all", "some"):
        (tmp_path / name).mkdir()
    every = rows_that_are_fitted_on(tmp_path / "all", "x")
    operations = fit.MAX_OPERATIONS / len(FAMILIES) / sum(every[:-1])
    calls, size = int(operations / fit.CALL), int((operations / 2) ** 0.5)
    kept = rows_that_are_fitted_on(tmp_path / "some", work.format(calls=calls, size=size))
    assert 3 < len(kept) < len(every) and kept == every[: len(kept)]


def test_case_with_the_fewest_operations_stays(tmp_path: Path) -> None:
    run_here()
    work = "x + (x.new_ones(len(x), 50_000) @ x.new_ones(50_000, 50_000)).sum()"
    assert rows_that_are_fitted_on(tmp_path, work) == [1]
