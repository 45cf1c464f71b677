"""Tests of the import of SOL-ExecBench: derived axes, numbers, and inputs of a definition's own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from evaluation.importers.checkout import Checkout
from evaluation.importers.files import Files
from evaluation.importers.importer import import_suite
from evaluation.importers.outcome import FIRST_CLASS, REFUSED
from evaluation.importers.sandboxed.forms import definition
from evaluation.importers.sandboxed.forms.kernelbench import KernelBench
from evaluation.importers.sandboxed.observation import Unsupported
from evaluation.importers.suites import suites
from evaluation.kinds.kernel.load import load_task
from tests.evaluation.importers.suite_checkout import commit

pytestmark = pytest.mark.timeout(600)
SUITE = suites()["sol-execbench"]
REFERENCE = """\
import torch


def get_inputs(axes_and_scalars, device):
    rows = axes_and_scalars["rows"]
    count = axes_and_scalars.get("experts", 4)
    heads = 4
    weights = torch.rand(rows, count, device=device)
    weights = weights / weights.sum(dim=-1, keepdim=True)
    chosen = torch.stack([torch.randperm(count, device=device)[:2] for _ in range(rows)])
    depth = axes_and_scalars["depth"]
    bias = torch.randn(1, heads * depth, device=device)
    return {"weights": weights, "chosen": chosen.to(torch.int64), "factor": 0.5, "bias": bias}


@torch.no_grad()
def run(weights, chosen, table, bias, factor):
    taken = weights.gather(1, chosen) * factor
    return (taken[:, :, None] * table[chosen]).sum(1) + bias
"""
CUSTOM = {"type": "custom"}
MIXED: dict[str, Any] = {
    "name": "007_mixed_experts",
    "description": "Sums the rows of chosen experts.",
    "axes": {
        "rows": {"type": "var"},
        "experts": {"type": "const", "value": 8},
        "heads": {"type": "const", "value": 4},
        "depth": {"type": "const", "value": 8},
        "width": {"type": "expr", "expression": "heads * depth"},
    },
    "custom_inputs_entrypoint": "get_inputs",
    "inputs": {
        "weights": {"shape": ["rows", "experts"], "dtype": "float32"},
        "chosen": {"shape": ["rows", "2"], "dtype": "int64"},
        "table": {"shape": ["experts", "width"], "dtype": "float32"},
        "bias": {"shape": [1, "width"], "dtype": "float32"},
        "factor": {"shape": None, "dtype": "float32"},
    },
    "outputs": {"y": {"shape": ["rows", "width"], "dtype": "float32"}},
    "reference": REFERENCE,
}
GIVEN = {
    "weights": CUSTOM,
    "chosen": CUSTOM,
    "factor": CUSTOM,
    "table": {"type": "random"},
    "bias": CUSTOM,
}


def workload(**axes: int) -> str:
    return json.dumps({"uuid": "a", "axes": axes, "inputs": GIVEN, "tolerance": {"max_atol": 1}})


def problem(changed: dict[str, Any], line: str) -> KernelBench:
    files = Files(json.dumps({**MIXED, **changed}), line)
    return KernelBench(next(definition.sources(files, "mixed")), "cpu")


def test_inputs_are_those_of_the_definitions_own_function() -> None:
    found = problem({}, workload(rows=40)).published
    assert found.others == {"factor": 0.5}
    torch.testing.assert_close(found.tensors["weights"].sum(-1), torch.ones(40))
    assert found.tensors["chosen"].shape == (40, 2)
    assert bool((found.tensors["chosen"][:, 0] != found.tensors["chosen"][:, 1]).all())
    assert found.tensors["table"].shape == (8, 32) and found.tensors["bias"].shape == (1, 32)


def test_masks_that_a_workload_calls_random_have_both_values() -> None:
    mask = {"shape": ["rows"], "dtype": "bool"}
    changed = {
        "inputs": {"mask": mask},
        "custom_inputs_entrypoint": None,
        "reference": "import torch\n\ndef run(mask):\n    return mask.float() * 2",
    }
    line = json.dumps({"axes": {"rows": 64}, "inputs": {"mask": {"type": "random"}}})
    given = problem(changed, line).published.tensors["mask"]
    assert given.dtype == torch.bool and 0 < int(given.sum()) < 64


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"custom_inputs_entrypoint": None}, "no function of the definition makes"),
        (
            {"reference": REFERENCE.replace('"rows"]', '"columns"]')},
            "takes 'columns', which is no axis",
        ),
        (
            {
                "reference": REFERENCE.replace(
                    '    return {"weights"',
                    '    if not rows:\n        return {}\n    return {"weights"',
                )
            },
            "does not return once",
        ),
        ({"reference": REFERENCE.replace('"weights": weights, ', "")}, "does not return weights"),
        (
            {"reference": REFERENCE.replace("return {", "return {**{}, ")},
            "a dict with plain names",
        ),
    ],
)
def test_input_functions_that_cannot_be_read_are_refused(
    changed: dict[str, Any], reason: str
) -> None:
    with pytest.raises(Unsupported, match=reason):
        problem(changed, workload(rows=4))


def test_definitions_of_a_checkout_become_tasks(tmp_path: Path) -> None:
    files = {
        "LICENSE": "Apache License Version 2.0\n",
        "data/benchmark/L1/007/definition.json": json.dumps(MIXED),
        "data/benchmark/L1/007/workload.jsonl": "\n".join(workload(rows=rows) for rows in (16, 64)),
        "data/benchmark/L2/broken/definition.json": "{",
        "data/benchmark/L2/broken/reference.py": REFERENCE,
    }
    commit(tmp_path / "checkout", files)
    checkout = Checkout.open(tmp_path / "checkout", SUITE.repository)
    found = import_suite(SUITE, checkout, tmp_path / "into")
    assert [(o.name, o.kind, o.reason) for o in found.outcomes][:1] == [
        ("sol_007_mixed_experts", FIRST_CLASS, "")
    ]
    assert [(o.name, o.kind) for o in found.outcomes][1:] == [("sol_broken", REFUSED)]
    task = load_task(tmp_path / "into" / SUITE.slug, "sol_007_mixed_experts", "torch-to-torch")
    assert task.operator.level == 1 and task.operator.title.startswith("mixed experts")
    assert "rows" in task.operator.domain.symbols
    structured = {a.name for a in task.operator.activations if a.structured}
    assert {"weights", "chosen"} <= structured
