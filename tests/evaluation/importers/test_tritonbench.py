"""Tests of the import of TritonBench-T, whose problems have the form of functions with tests."""

from __future__ import annotations

from pathlib import Path

import torch

from evaluation.importers.checkout import Checkout
from evaluation.importers.importer import import_suite
from evaluation.importers.outcome import FIRST_CLASS
from evaluation.importers.suites import suites
from evaluation.kinds.kernel.load import load_task
from evaluation.tasks.float64 import outputs_of
from tests.evaluation.importers.suite_checkout import LICENCE, commit

SUITE = suites()["tritonbench"]
FUNCTION = '''import torch


def add_tanh(x, other, alpha=1, out=None):
    """Return the hyperbolic tangent of a scaled sum."""
    return torch.tanh(x + alpha * other)
'''
TEST = """import torch


def test_add_tanh():
    results = {}
    x = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], device="cuda")
    results["test_case_1"] = add_tanh(x, x)
    results["test_case_2"] = add_tanh(x, x, alpha=2)
    return results


test_results = test_add_tanh()
"""


def test_functions_of_part_t_are_read_and_kernels_of_part_g_are_not(tmp_path: Path) -> None:
    files = {
        "LICENSE": LICENCE,
        "data/TritonBench_T_v1/add_tanh.py": f"{FUNCTION}\n{'#' * 120}\n\n{TEST}",
        "data/TritonBench_G_v1/add_tanh.py": "import triton\n",
        "data/TritonBench_T_v1.jsonl": "{}\n",
    }
    root = tmp_path / "checkout"
    root.mkdir()
    commit(root, files)
    found = import_suite(SUITE, Checkout.open(root, SUITE.repository), tmp_path / "imported")
    (outcome,) = found.outcomes
    assert (outcome.name, outcome.kind, outcome.reason) == ("tb_add_tanh", FIRST_CLASS, "")
    text = (tmp_path / "imported/tritonbench/tb_add_tanh/task.toml").read_text()
    assert 'category = "Activation"' in text and 'title = "add tanh (TritonBench-T)"' in text


NORM = '''import torch


def norm(x, mean, var):
    """Return normalised columns."""
    return torch.nn.functional.batch_norm(x, mean, var, training=True)
'''
NORM_TEST = """import torch


def test_norm():
    x = torch.randn(6, 3, device="cuda")
    return {"test_case_1": norm(x, torch.zeros(3, device="cuda"), torch.ones(3, device="cuda"))}


test_results = test_norm()
"""


def test_inputs_that_a_function_changes_are_copied_before(tmp_path: Path) -> None:
    root = tmp_path / "checkout"
    root.mkdir()
    text = f"{NORM}\n{'#' * 120}\n\n{NORM_TEST}"
    commit(root, {"LICENSE": LICENCE, "data/TritonBench_T_v1/norm.py": text})
    found = import_suite(SUITE, Checkout.open(root, SUITE.repository), tmp_path / "imported")
    (outcome,) = found.outcomes
    assert (outcome.kind, outcome.reason) == (FIRST_CLASS, "")
    assert "changes to mean, var are not compared" in outcome.flags
    operator = load_task(tmp_path / "imported/tritonbench", "tb_norm", "torch-to-torch").operator
    given = {"x": torch.randn(6, 3), "mean": torch.zeros(3), "var": torch.ones(3)}
    (y,) = outputs_of(operator.module().reference(**given))
    assert torch.allclose(y.mean(0), torch.zeros(3), atol=1e-6)
    assert given["mean"].tolist() == [0] * 3 and given["var"].tolist() == [1] * 3
