"""Tests of the import of task runners, the form of AgentKernelArena's Triton tasks."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
import torch

from evaluation.importers.checkout import Checkout
from evaluation.importers.files import Files
from evaluation.importers.importer import import_suite
from evaluation.importers.outcome import FIRST_CLASS
from evaluation.importers.runner_part import runner_part
from evaluation.importers.sandboxed.forms import runner
from evaluation.importers.sandboxed.forms.kernelbench import KernelBench
from evaluation.importers.sandboxed.forms.runner_test import RunnerTest
from evaluation.importers.sandboxed.observation import Unsupported
from evaluation.importers.suites import suites
from evaluation.kinds.kernel.load import load_task
from evaluation.tasks.reference import Reference
from tests.evaluation.importers.suite_checkout import commit

pytestmark = pytest.mark.timeout(600)
SUITE = suites()["agentkernelarena"]
RUNNER = '''\
"""Task runner"""
import os

TEST_SHAPES = [
    (4, 16),  # rows, cols
    (8, 32),
]


def load_module():
    import importlib.util
    return importlib.util


{helpers}


def run_correctness():
    import torch
    try:
        mod = load_module()
    except Exception as e:
        return False, str(e)

    device = "cuda"
    dtype = torch.float32
    for i, (rows, cols) in enumerate(TEST_SHAPES):
        try:
            torch.manual_seed(42 + i)
            {drawn}
            {called}
            torch.cuda.synchronize()
            {expected}
        except Exception as e:
            return False, f"Shape {{i}}: {{e}}"
    return True, None
'''


def source(drawn: str, called: str, expected: str, helpers: str = "") -> str:
    lines = {"drawn": drawn, "called": called, "expected": expected}
    indented = {name: text.strip().replace("\n", "\n            ") for name, text in lines.items()}
    return RUNNER.format(helpers=helpers, **indented)


DOUBLED = source(
    "x = torch.randn(rows, cols, device=device, dtype=dtype)",
    "result = mod.double(x)",
    "ref = reference_double(x.cpu()).to(device)\n"
    "if not torch.allclose(result, ref):\n    return False, 'differs'",
    "def reference_double(x):\n"
    '    """Doubles all elements."""\n'
    "    return (x.float() * 2).to(x.dtype)",
)
IN_PLACE = source(
    "x = torch.randn(rows, cols, device=device)\n"
    "out = torch.zeros(rows, cols, device=device)\n"
    "out_ref = out.clone()\n"
    "places = torch.randperm(rows, device=device).to(torch.int32)",
    "mod.scatter(x, places, out)",
    "scatter_ref(x, places, out_ref)\n"
    "if not torch.allclose(out, out_ref):\n    return False, 'differs'",
    "def scatter_ref(x, places, out):\n"
    "    for row in range(x.shape[0]):\n"
    "        out[places[row].item()] = x[row]",
)
SEVERAL = source(
    "args, kwargs = make_inputs(rows, cols, device)\n"
    "args_cpu = tuple(a.cpu() if isinstance(a, torch.Tensor) else a for a in args)",
    "results = mod.both(*args, **kwargs)",
    "refs = reference(*args_cpu, **kwargs)\n"
    "for result, ref in zip(results, refs):\n"
    "    r = result.float()\n"
    "    if not torch.allclose(r, ref.float()):\n        return False, 'differs'",
    "def make_inputs(rows, cols, device):\n"
    "    import torch\n"
    "    count, factor = 3, 0.5\n"
    "    x = torch.randn(rows, cols, device=device)\n"
    "    return (x, factor), {'count': count}\n\n\n"
    "def reference(x, factor, count, inputs=None):\n"
    "    return x * factor, x.sum(-1) * count if inputs is None else inputs",
)


def problem(text: str) -> KernelBench:
    found = next(runner.sources(Files(text), "task_runner"))
    try:
        return KernelBench(found)
    except Exception:
        return KernelBench(found, "cpu")


def test_largest_configuration_becomes_the_published_one() -> None:
    found = problem(DOUBLED)
    assert {n: tuple(x.shape) for n, x in found.published.tensors.items()} == {"x": (8, 32)}
    assert [tuple(y.shape) for y in found.published.outputs] == [(8, 32)]
    assert found.cases["configuration-1"]["rows"] == 4
    assert not found.has_data


def test_reference_that_reads_its_inputs_is_called_on_data() -> None:
    found = problem(IN_PLACE)
    assert found.has_data
    assert set(found.published.tensors) == {"x", "places"}  # the zeros are made for each call
    out, x, places = (
        found.published.result,
        found.published.tensors["x"],
        found.published.tensors["places"],
    )
    assert torch.equal(out[places.long()], x)


def test_arguments_of_a_generator_are_taken_apart() -> None:
    found = problem(SEVERAL)
    assert set(found.published.tensors) == {"x"}
    x = torch.randn(8, 32)
    namespace = found._namespace({})
    half, total = namespace["Model"](*namespace["get_init_inputs"]())(x)
    assert torch.equal(half, x * 0.5)
    assert torch.equal(total, x.sum(-1) * 3)


def test_results_are_compared_with_expected_variables_alone() -> None:
    test = RunnerTest(IN_PLACE)
    assert test.parts(next(test.configurations())).expected == ["out_ref"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (DOUBLED.replace("torch.float32", "mod._dtype()"), "module of the kernel"),
        (DOUBLED.replace("torch.allclose(result, ref)", "(result == ref).all()"), "no variable"),
        (DOUBLED.replace("in enumerate(TEST_SHAPES)", "in pairs()"), "loops over pairs"),
        (DOUBLED.replace("x.float()", "x.to(torch.float8_e4m3fn)"), "rounds to float8"),
        (DOUBLED.replace("mod.double", "double"), "does not call the kernel"),
    ],
)
def test_runners_in_another_form_are_refused(text: str, reason: str) -> None:
    with pytest.raises(Unsupported, match=reason):
        next(runner.sources(Files(text), "task_runner"))


def test_judged_part_has_neither_commands_nor_devices() -> None:
    part = runner_part(SEVERAL)
    assert "def reference_of_suite(" in part
    assert "cuda" not in part
    assert "load_module" not in part
    assert "device=device" not in part


def test_modules_are_judged_whole() -> None:
    text = "class Model:\n    pass\n"
    assert runner_part(text) == text


def test_imported_tasks_compute_what_the_runner_compares_with(tmp_path: Path) -> None:
    folder = "tasks/triton2triton/vllm"
    files = {
        "LICENSE": "Apache License Version 2.0\n",
        f"{folder}/triton_double/scripts/task_runner.py": DOUBLED,
        f"{folder}/triton_scatter/scripts/task_runner.py": IN_PLACE,
    }
    commit(tmp_path / "checkout", files)
    checkout = Checkout.open(tmp_path / "checkout", SUITE.repository)
    found = import_suite(SUITE, checkout, tmp_path / "into")
    assert [(o.name, o.kind, o.reason) for o in found.outcomes] == [
        ("aka_t2t_double", FIRST_CLASS, ""),
        ("aka_t2t_scatter", FIRST_CLASS, ""),
    ]
    root = tmp_path / "into" / SUITE.slug
    table = tomllib.loads((root / "aka_t2t_scatter" / "task.toml").read_text())
    assert table["models"]["published"]["rows"] == 8
    operator = load_task(root, "aka_t2t_scatter", "torch-to-torch").operator
    for case in operator.cases:
        reference = Reference(operator, case)
        inputs = reference.draw()
        assert sorted(inputs["places"].tolist()) == list(range(case["rows"]))
        expected = reference.expected(inputs)["out"].exact
        assert torch.equal(expected[inputs["places"].long()], inputs["x"].double())
        assert operator.module().cost(case)[0] == case["rows"] * (2 * case["cols"] + 1) * 4
