"""Tests of mutants made from a reference: right tolerances refuse them, loose ones do not."""

from __future__ import annotations

from pathlib import Path

import pytest

from evaluation.errors import TaskError
from evaluation.kinds.kernel.admission import fit
from evaluation.kinds.kernel.admission.reference_mutants import check_mutants, mutants
from evaluation.kinds.kernel.load import load_operator
from evaluation.tasks.operator import Operator
from evaluation.tasks.tolerance import Tolerance

TOML = """\
title = "Scaled sum of rows"
category = "Math"
families = ["llm"]
arguments = [
    { name = "x", role = "input", shape = ["rows", "cols"] },
    { name = "bias", role = "input", shape = ["rows"] },
    { name = "out", role = "output", shape = ["rows"] },
    { name = "a", role = "scalar", dtype = "float32" },
]
[domain]
dtypes = ["float32"]
rows = [1, 64]
cols = [1, 64]
a = { choices = [0.5, 2.0] }
[models]
one = { rows = 48, cols = 32, a = 0.5 }
two = { rows = 16, cols = 64, a = 2.0 }
"""
REFERENCE = '''"""Sum rows."""


def reference(x, bias, a):
    return {body}
'''


@pytest.fixture
def place(tmp_path: Path) -> Path:
    folder = tmp_path / "row_sum"
    folder.mkdir()
    (folder / "task.toml").write_text(TOML)
    return folder


def written(place: Path, body: str, c2: float = 4.0) -> Operator:
    (place / "reference.py").write_text(REFERENCE.format(body=body))
    constants = fit.Fit({"float32": Tolerance(4.0, c2)}, {"float32": fit.Worst()}, None)
    fit.write(place, constants)
    return load_operator(place)


def test_mutants_of_a_good_operator_all_fail(place: Path) -> None:
    operator = written(place, "a * x.sum(-1) + bias")
    names = [name for name, _ in mutants(operator)]
    for name in (
        "all outputs zero",
        "the last element left out",
        "bias replaced by zero",
        "x in bfloat16",
        "another a",
        "line 5: Add becomes Sub",
    ):
        assert name in names
    found = check_mutants(operator)
    assert found.ok, found.message
    assert "wrong implementations made from the reference fail" in found.message


def test_operator_with_one_value_has_mutants_along_axes_of_inputs(place: Path) -> None:
    (place / "task.toml").write_text(
        TOML.replace('"output", shape = ["rows"]', '"output", shape = []')
    )
    operator = written(place, "a * (x.sum(-1) + bias).sum()")

    found = {name for name, _ in mutants(operator)}

    assert {"x, axis 1: the last 1 left out", "bias, axis 0: reversed"} <= found
    assert check_mutants(operator).ok, check_mutants(operator).message


def test_loose_tolerance_lets_mutants_pass_and_is_refused(place: Path) -> None:
    found = check_mutants(written(place, "a * x.sum(-1) + bias + 1", c2=1e6))
    assert not found.ok
    assert "these pass: " in found.message


@pytest.mark.parametrize(("cols", "admitted"), [(32, False), (64, True)])
def test_bfloat16_of_a_small_input_may_pass(place: Path, cols: int, admitted: bool) -> None:
    (place / "task.toml").write_text(TOML.replace("cols = 32", f"cols = {cols}"))
    found = check_mutants(written(place, "a * x.sum(-1) + 3e-4 * bias", c2=100.0))
    assert found.ok == admitted, found.message
    assert admitted or found.message.startswith("these pass: bias in bfloat16; ")


def test_degenerate_operator_is_refused(place: Path) -> None:
    written(place, "a * x.sum(-1) * 0")
    with pytest.raises(TaskError, match="cannot tell inputs in bfloat16 from float32"):
        fit.fit(place)


def test_fit_names_the_constants_and_what_it_measured(place: Path) -> None:
    written(place, "a * x.sum(-1) + bias")
    fit.write(place, fit.fit(place))
    operator = load_operator(place)
    text = (place / "fitted.toml").read_text()
    assert "python -m evaluation fit row_sum" in text
    assert "error_of_bfloat16" in text
    assert operator.tolerance["float32"].c1 == fit.C1["float32"]
    assert fit.MIN_C2 <= operator.tolerance["float32"].c2 <= fit.MAX_C2


@pytest.mark.parametrize(("error", "c2"), [(0.1, 2.0), (20.0, 80.0), (26.0, 100.0), (50.0, 100.0)])
def test_fit_allows_four_times_the_honest_error_and_near_its_limit_twice(
    error: float, c2: float, place: Path
) -> None:
    (fitted,) = fit.constants(place, {"float32": fit.Worst(error, "c", "f")}).values()
    assert fitted == Tolerance(fit.C1["float32"], c2)


def test_fit_refuses_an_honest_error_that_its_limit_does_not_allow_twice(place: Path) -> None:
    with pytest.raises(TaskError, match=r"above 100: an honest result is 50\.1 times .* in c-7"):
        fit.constants(place, {"float32": fit.Worst(50.1, "c-7", "tiny")})


def test_fit_of_the_same_reference_is_the_same(place: Path) -> None:
    written(place, "a * x.sum(-1) + bias")
    assert fit.fit(place) == fit.fit(place)


def test_changed_reference_is_fitted_again(place: Path) -> None:
    written(place, "a * x.sum(-1) + bias")
    (place / "reference.py").write_text(REFERENCE.format(body="a * x.sum(-1) - bias"))
    fit.write(place, fit.fit(place))
    assert load_operator(place).tolerance
