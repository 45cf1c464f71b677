"""Tests of the import of definitions with workloads, the form of FlashInfer-Bench."""

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
SUITE = suites()["flashinfer"]
VAR = {"type": "var"}
SCALED: dict[str, Any] = {
    "name": "scaled_d64",
    "description": "Scales the rows.",
    "op_type": "misc",
    "axes": {"rows": VAR, "width": {"type": "const", "value": 64}},
    "inputs": {
        "x": {"shape": ["rows", "width"], "dtype": "float32"},
        "factor": {"shape": None, "dtype": "float32"},
    },
    "outputs": {"y": {"shape": ["rows", "width"], "dtype": "float32"}},
    "reference": "import torch\n\ndef run(x, factor):\n"
    "    assert x.shape[1] == 64\n    return {'y': x * factor}",
}
UNCHECKED = "import torch\n\ndef run(x, factor):\n    return {'y': x * factor}"
SEGMENTS: dict[str, Any] = {
    **SCALED,
    "name": "segment_sum",
    "axes": {"count": VAR, "length": VAR, "rows": VAR, "width": {"type": "const", "value": 8}},
    "constraints": ["length == count + 1", "rows == indptr[-1].item()"],
    "inputs": {
        "x": {"shape": ["rows", "width"], "dtype": "float32"},
        "indptr": {"shape": ["length"], "dtype": "int32"},
    },
    "outputs": {"y": {"shape": ["count", "width"], "dtype": "float32"}},
    "reference": "import torch\n\ndef run(x, indptr):\n"
    "    count = indptr.shape[0] - 1\n"
    "    assert indptr[-1].item() == x.shape[0]\n"
    "    segments = torch.repeat_interleave(torch.arange(count), indptr.diff())\n"
    "    y = torch.zeros(count, x.shape[1], dtype=x.dtype, device=x.device)\n"
    "    return y.index_add(0, segments.to(x.device), x)",
}


def workload(inputs: dict[str, Any] | None = None, **axes: int) -> str:
    return json.dumps({"definition": "a", "workload": {"axes": axes, "inputs": inputs or {}}})


def problem(found: dict[str, Any], *workloads: str) -> KernelBench:
    files = Files(json.dumps(found), "\n".join(workloads))
    text = next(definition.sources(files, found["name"]))
    try:
        return KernelBench(text)
    except Exception:
        return KernelBench(text, "cpu")


def test_largest_workload_is_the_published_one() -> None:
    given = {"factor": {"type": "scalar", "value": 0.5}}
    found = problem(SCALED, workload(given, rows=96), workload(given, rows=32))
    assert found.published.tensors["x"].shape == (96, 64)
    assert found.published.others == {"factor": 0.5}
    assert found.cases == {"workload-1": {"rows": 32, "width": 64}}


def test_offsets_increase_to_the_axis_that_a_constraint_names() -> None:
    found = problem(SEGMENTS, workload(count=6, length=7, rows=40))
    offsets = found.published.tensors["indptr"]
    assert offsets.shape == (7,)
    assert offsets[0] == 0
    assert offsets[-1] == 40
    assert bool((offsets.diff() >= 0).all())
    assert found.published.outputs[0].shape == (6, 8)


def test_bare_lines_and_axes_of_expressions_are_read() -> None:
    width = {"type": "expr", "expression": "heads * depth"}
    axes = {"rows": VAR, "heads": {"type": "const", "value": 4}, "depth": VAR, "width": width}
    bare = json.dumps({"axes": {"rows": 32, "depth": 8}, "inputs": {}})
    found = problem({**SCALED, "axes": axes, "reference": UNCHECKED}, bare)
    assert found.published.tensors["x"].shape == (32, 32)
    assert found.sizes.keys() == {"rows", "heads", "depth"}


@pytest.mark.parametrize("text", ["__import__('os')", "rows ** rows", "unknown * 2", "width", "("])
def test_expression_that_is_no_size_is_refused(text: str) -> None:
    axes = {**SCALED["axes"], "width": {"type": "expr", "expression": text}}
    with pytest.raises(Unsupported, match="axis width"):
        problem({**SCALED, "axes": axes}, workload(rows=4))


def test_definition_without_workloads_has_no_published_case() -> None:
    files = Files(json.dumps(SCALED))
    assert definition.case_name(files) == "chosen" and "no workload" in definition.flags(files)[0]
    assert definition.flags(Files(files.source, workload(rows=2))) == []


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"reference": "def walk(x): return x"}, "no function run"),
        ({"constraints": []}, "last value of indptr"),
        ({"inputs": {"x": SEGMENTS["inputs"]["x"]}}, "takes indptr"),
        (
            {"inputs": SEGMENTS["inputs"] | {"x": {"shape": ["rows"], "dtype": "float4_e2m1"}}},
            "format float4_e2m1",
        ),
        (
            {"inputs": SEGMENTS["inputs"] | {"x": {"shape": ["rows"], "dtype": "int32"}}},
            "no rule says how x",
        ),
    ],
)
def test_definitions_that_give_too_little_are_refused(changed: dict[str, Any], reason: str) -> None:
    with pytest.raises(Unsupported, match=reason):
        problem({**SEGMENTS, **changed}, workload(count=6, length=7, rows=40))


def test_definitions_of_a_checkout_become_tasks(tmp_path: Path) -> None:
    files = {
        "LICENCE": "Apache License Version 2.0\n",
        "set/definitions/misc/scaled_d64.json": json.dumps(SCALED),
        "set/definitions/misc/segment_sum.json": json.dumps(SEGMENTS),
        "set/definitions/misc/broken.json": "{",
        "set/workloads/misc/scaled_d64.jsonl": workload(rows=256),
    }
    commit(tmp_path / "checkout", files)
    checkout = Checkout.open(tmp_path / "checkout", SUITE.repository)
    found = import_suite(SUITE, checkout, tmp_path / "into")
    assert [(o.name, o.kind) for o in found.outcomes] == [
        ("fi_broken", REFUSED),
        ("fi_scaled_d64", FIRST_CLASS),
        ("fi_segment_sum", FIRST_CLASS),
    ]
    root = tmp_path / "into" / SUITE.slug
    assert (root / "fi_scaled_d64/problem.json").read_text() == json.dumps(SCALED)
    assert (root / "fi_scaled_d64/cases.jsonl").read_text() == workload(rows=256)
    operator = load_task(root, "fi_scaled_d64", "torch-to-torch").operator
    assert operator.cases[0]["rows"] == 256
    chosen = load_task(root, "fi_segment_sum", "torch-to-torch").operator
    assert chosen.cases[0].name == "chosen"
    assert "width" not in operator.domain.symbols  # the reference asserts it
    x = torch.ones(3, 64, dtype=torch.float64)
    assert torch.equal(operator.module().exact(x=x, factor=2.0), 2 * x)
    again = import_suite(SUITE, checkout, tmp_path / "into")
    assert [o.written for o in again.outcomes] == ["", "unchanged", "unchanged"]
