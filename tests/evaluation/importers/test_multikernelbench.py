"""Tests of the import of MultiKernelBench: modules by category, and their rule of precision."""

from __future__ import annotations

from pathlib import Path

import pytest

from evaluation.importers.checkout import Checkout
from evaluation.importers.importer import import_suite
from evaluation.importers.outcome import FIRST_CLASS, REFUSED
from evaluation.importers.suites import suites
from evaluation.kinds.kernel.load import load_task
from tests.evaluation.importers.suite_checkout import LICENCE, SCALED, commit

pytestmark = pytest.mark.timeout(600)
SUITE = suites()["multikernelbench"]
FILES = {
    "LICENSE": LICENCE,
    "reference/activation/scaled.py": SCALED,
    "reference/fuse/gemm_scale_batch_norm.py": SCALED,
    "reference/arch/lenet5.py": "import torch\n",
    "prompts/scaled.py": SCALED,
}


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    commit(tmp_path / "checkout", FILES)
    return Checkout.open(tmp_path / "checkout", SUITE.repository)


def test_problems_are_named_and_levelled_by_their_category(checkout: Checkout) -> None:
    found = [(p.name, p.level, p.category) for p in SUITE.problems(checkout)]
    assert found == [
        ("mkb_activation_scaled", 1, "Math"),
        ("mkb_arch_lenet5", 3, "Fusion"),
        ("mkb_fuse_gemm_scale_batch_norm", 2, "Fusion"),
    ]


def test_modules_become_tasks_with_exact_products(checkout: Checkout, tmp_path: Path) -> None:
    found = import_suite(SUITE, checkout, tmp_path / "into")
    assert [(o.name, o.kind, o.reason) for o in found.outcomes] == [
        ("mkb_activation_scaled", FIRST_CLASS, ""),
        ("mkb_arch_lenet5", REFUSED, "has no function get_inputs()"),
        ("mkb_fuse_gemm_scale_batch_norm", FIRST_CLASS, ""),
    ]
    root = tmp_path / "into" / SUITE.slug
    operator = load_task(root, "mkb_activation_scaled", "torch-to-torch").operator
    assert operator.precision == "ieee"  # its check allows an error of 1e-4
    assert operator.source is not None
