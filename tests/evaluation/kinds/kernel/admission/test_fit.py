"""Tests of the fit of a tolerance: an error of `reference.py` is the author's, and named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from evaluation.__main__ import NOT_PASSED, main
from evaluation.kinds.kernel.admission import fit
from evaluation.kinds.kernel.load import load_operator
from evaluation.shapes import FAMILIES
from evaluation.tasks.loaded_code import run_here
from evaluation.tasks.tolerance import Tolerance

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


@pytest.mark.parametrize(
    ("error", "shown"),
    [(7.234, "7.23"), (16_342.0, "16,300"), (float("inf"), "∞")],
)
def test_text_of_a_fit_names_the_inputs_that_must_be_refused(error: float, shown: str) -> None:
    found = fit.Fit({"float32": Tolerance(4.0, 2.0)}, {}, error)
    assert fit.text(found) == (
        "float32 c1 4 c2 2. In float32, inputs rounded to bfloat16 must be refused, and are:"
        f" their error is {shown} times the allowed one"
    )


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


def test_sums_in_turn_are_those_of_one_thread_that_begins_with_the_addend() -> None:
    def one_by_one(terms: torch.Tensor, total: torch.Tensor) -> torch.Tensor:
        for term in terms:
            total = total + term
        return total

    generator = torch.Generator().manual_seed(1)
    x, y = torch.rand((300, 40), generator=generator), torch.rand(40, generator=generator) * 1e3
    zero, products = torch.zeros(40), (x[:40].T[..., None] * x[:40]).movedim(1, 0)
    with fit.InTurn():
        found = [x.sum(0), x.mean(0), y - x.sum(0), x.sum(0) - y, x[:40].T @ x[:40] + y]
        single, many, exact = x.sum(), x.repeat(4, 1).sum(0), y.double() + x.double().sum(0)
    expected = [one_by_one(x, zero), one_by_one(x, zero) / 300]
    expected += [one_by_one(-x, y), one_by_one(x, -y), one_by_one(products, y)]
    for got, wanted in zip(found, expected, strict=True):
        assert torch.equal(got, wanted)
    assert not torch.equal(found[0], x.sum(0)) and not torch.equal(found[2], y - x.sum(0))
    assert torch.equal(single, x.sum()) and torch.equal(many, x.repeat(4, 1).sum(0))
    assert torch.equal(exact, y.double() + x.double().sum(0))


def test_tolerance_has_room_for_a_sum_by_one_thread(tmp_path: Path) -> None:
    folder = written(tmp_path, "rows", "(x[:, None] * x).square().sum(-1)")
    (folder / "task.toml").write_text(TOML.replace("64]", "256]").replace("48", "256"))
    run_here()
    operator = load_operator(folder)
    worst = 0.0
    for reference, _, inputs in fit.trials(operator, "float32"):
        least, most = reference.bounds(inputs, Tolerance(4.0, 0.0), Tolerance(4.0, 1.0))["out"]
        total = torch.zeros_like(inputs["x"])
        for term in inputs["x"]:
            total = total + (inputs["x"] * term).square()
        over = (total.double() - least.exact).abs() - least.allowed
        worst = max(worst, float((over / (most.allowed - least.allowed)).nan_to_num(0.0).max()))
    allowed = fit.fit(folder).tolerance["float32"].c2
    assert allowed > 2 * worst > 0, (allowed, worst)


def test_structured_inputs_are_drawn_from_several_beginnings(tmp_path: Path) -> None:
    run_here()
    drawn = fit.trials(load_operator(written(tmp_path, "x", "x")), "float32")
    begins = [(family, float(inputs["x"][0])) for _, family, inputs in drawn]
    assert len({first for family, first in begins if family == "structured"}) > 1
    counts = {family: sum(each == family for each, _ in begins) for family in FAMILIES}
    assert counts["structured"] == 3 * counts["nominal"] > 0
