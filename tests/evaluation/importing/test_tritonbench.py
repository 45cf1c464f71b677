"""Tests of the import of TritonBench-T, whose problems have the form of functions with tests."""

from __future__ import annotations

from pathlib import Path

from evaluation.importing.checkout import Checkout
from evaluation.importing.importer import import_suite
from evaluation.importing.outcome import FIRST_CLASS
from evaluation.importing.suites import suites
from tests.evaluation.importing.suite_checkout import LICENCE, commit

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
