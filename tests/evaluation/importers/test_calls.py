"""Tests of the import of functions with tests that call them, the form of KernelBench-X."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from evaluation.importers.checkout import Checkout
from evaluation.importers.importer import import_suite
from evaluation.importers.outcome import FIRST_CLASS, Import
from evaluation.importers.separator import function_and_test, function_of
from evaluation.importers.suites import suites
from evaluation.kinds.kernel.load import load_task
from tests.evaluation.importers.suite_checkout import LICENCE, commit

pytestmark = pytest.mark.timeout(600)
SUITE = suites()["kernelbench-x"]
SIGNS = "#" * 146
FILE = '''\
import torch


def {name}({parameters}):
    """Computes {name}."""
    return {result}

{signs}

import os
import sys
sys.path.append(os.path.abspath("utils"))
from data_utils import rand_int, rand_tensor


def test():
    results = {{}}
    for mode in ("standard", "outlier"):
        x = rand_tensor((32, 48), dtype=torch.float32, device="cuda", mode=mode)
        {call}
    return results


test_results = test()
'''


def problem(name: str, parameters: str, result: str, call: str) -> str:
    return FILE.format(name=name, parameters=parameters, result=result, call=call, signs=SIGNS)


def path_of(name: str, category: str = "Math") -> str:
    return f"data/kernelbenchx/{category}/{name}.py"


@pytest.fixture(scope="module")
def target(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("imported")


@pytest.fixture(scope="module")
def found(tmp_path_factory, target: Path) -> Import:
    """Return the import of a checkout with good functions, and some that are refused."""
    root = tmp_path_factory.mktemp("checkout")
    scaled = problem("scaled", "x, w, scale=1.0", "x.cuda() @ w * scale", "pass")
    weights = (
        "w = rand_tensor((48, 48)).to('cuda')\n        results[mode] = scaled(x, w, scale=0.5)"
    )
    index = "i = rand_int((9,), low=0, high=32)\n        results[mode] = picked(x, 0, i)"
    outside = f'open("{root.parent}/escaped", "w"); kept(x)'
    files = {
        path_of("scaled"): scaled.replace("        pass\n", f"        {weights}\n").replace(
            "x.cuda()", "x"
        ),
        path_of("filled"): problem("filled", "x, factor", "x.mul_(factor)", "filled(x, 3)"),
        path_of("normed"): problem(
            "normed",
            "x, normalized_shape",
            "torch.nn.functional.layer_norm(x, normalized_shape)",
            "normed(x, (48,))",
        ),
        path_of("picked"): problem(
            "picked", "x, dim, index", "x.index_select(dim, index) * 2", index
        ),
        path_of("dropped"): problem("dropped", "x", "torch.nn.functional.dropout(x)", "dropped(x)"),
        path_of("kept"): problem("kept", "x", "x * 2", outside),
        path_of("fixed"): problem("fixed", "x", "x * 2", "fixed(torch.tensor(2.0))"),
        path_of("untested"): problem("untested", "x", "x * 2", "pass"),
        path_of("rounded", "Quantization"): problem("rounded", "x", "x * 2", "rounded(x)"),
    }
    commit(root, {"LICENSE": LICENCE, **files})
    return import_suite(SUITE, Checkout.open(root, SUITE.repository), target)


def table(target: Path, name: str) -> dict:
    return tomllib.loads((target / "kernelbench-x" / f"kbx_{name}" / "task.toml").read_text())


def shapes(target: Path, name: str) -> dict[str, list[str]]:
    return {a["name"]: a["shape"] for a in table(target, name)["arguments"]}


def test_recorded_calls_become_tasks(found, target):
    reasons = {each.name: each.reason for each in found.outcomes}
    kinds = {each.name for each in found.outcomes if each.kind == FIRST_CLASS}
    assert kinds == {"kbx_scaled", "kbx_filled", "kbx_normed", "kbx_picked"}, reasons


def test_sizes_that_must_be_equal_share_a_symbol(found, target):
    assert shapes(target, "scaled") == {
        "x": ["x_0", "x_1"],
        "w": ["x_1", "w_1"],
        "out": ["x_0", "w_1"],
    }
    assert table(target, "scaled")["models"]["published"] == {"x_0": 32, "x_1": 48, "w_1": 48}
    assert shapes(target, "normed")["x"] == ["x_0", "x_1"]


def test_index_is_bounded_by_the_size_that_it_indexes(found, target):
    index = next(a for a in table(target, "picked")["arguments"] if a["name"] == "index")
    assert index["range"] == [0, "x_0"] and index["dtype"] == "int64"


def test_function_that_changes_its_input_gets_a_copy(found, target):
    task = load_task(target / "kernelbench-x", "kbx_filled", "torch-to-torch", "cpu")
    assert "x = x.clone()" in (task.operator.folder / "reference.py").read_text()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("dropped", "random"),
        ("kept", "escaped"),
        ("fixed", "has no unseen case"),
        ("untested", "with no tensors"),
        ("rounded", "it needs a reference that quantises"),
    ],
)
def test_import_refuses_a_function_with_its_reason(found, target, name, words):
    assert words in {each.name: each.reason for each in found.outcomes}[f"kbx_{name}"]
    assert not list(target.parent.glob("**/escaped"))


def test_judged_part_of_a_file_has_no_test():
    source = f"a = 1\n{SIGNS}\nimport os\n"
    assert function_of(source) == "a = 1\n"
    assert function_and_test(source)[1] == "import os\n"
    assert function_and_test("a = 1\n") == ("a = 1\n", "")
