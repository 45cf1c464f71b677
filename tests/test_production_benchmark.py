"""The benchmark of production tasks: its submissions, and the committed results in the document."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from benchmarks import production
from evaluation.device_kind import CPU, GPU
from evaluation.production.architectures import find_task

ROOT = Path(__file__).resolve().parent.parent
RESULTS = json.loads((ROOT / "benchmarks/results/production-gpu.json").read_text())
DOCUMENT = (ROOT / "docs/production.md").read_text()


@pytest.mark.parametrize("slug", RESULTS["verdicts"])
def test_document_has_the_committed_figures(slug: str) -> None:
    verdict = RESULTS["verdicts"][slug]
    deployed = verdict["deployed"]
    row = (
        f"| `{slug.partition('/')[0]}` | in Triton | {verdict['isolated']:.2f}x "
        f"| {deployed['speedup']:.2f}x [{deployed['low']:.2f}, {deployed['high']:.2f}] "
        f"| {verdict['seconds']['total']:.0f} |"
    )
    assert verdict["verdict"] == "passed" and row in DOCUMENT


def test_both_sides_of_each_committed_verdict_were_captured_and_fastest_as_a_graph() -> None:
    for verdict in RESULTS["verdicts"].values():
        for phase, best in verdict["best"].items():
            assert best["candidate"] == best["baseline"] == "graph"
            assert all(verdict["engaged"][phase]["graph"]["captured"].values())


@pytest.mark.parametrize("name", production.TASKS)
def test_depth_of_a_model_is_cut_and_its_width_is_not(name: str) -> None:
    architecture, _ = find_task(name)
    cut = production.shallow(architecture, GPU)
    before, after = (each.sizes[GPU].settings for each in (architecture, cut))
    changed = {key for key in before if before[key] != after[key]}
    assert changed <= {*production.DEPTHS, "layer_types"} and after.keys() == before.keys()
    assert all(after[key] <= production.MAX_LAYERS for key in production.DEPTHS if key in after)
    assert cut.hash != architecture.hash  # compiled code of another depth is not reused
    assert cut.sizes[CPU] == architecture.sizes[CPU]


def test_compiled_submission_is_the_class_with_its_forward_compiled() -> None:
    source = "class ModelNew:\n    def forward(self, x):\n        return x\n"
    tree = ast.parse(production.compiled(source))
    decorators = [
        ast.unparse(each)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        for each in node.decorator_list
    ]
    assert decorators == ["torch.compile(dynamic=False)"]
