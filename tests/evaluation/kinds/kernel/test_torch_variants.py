"""What is made of a reference is a whole program, whatever the reference itself imports."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from evaluation.code.languages import languages
from evaluation.device_kind import CPU, GPU
from evaluation.kinds.kernel import torch_variants
from evaluation.kinds.kernel.load import load_operator, load_task
from evaluation.tasks.operator import Operator, Track

TESTS = Path(__file__).resolve().parents[3]
PLAIN = TESTS / "gpu" / "operators" / "centred"
TASKS = TESTS.parent / "tasks"


@pytest.fixture(scope="module")
def operator() -> Operator:
    """One whose reference imports nothing."""
    found = load_operator(PLAIN, GPU)
    assert "import" not in (PLAIN / "reference.py").read_text()
    return found


@pytest.mark.parametrize("kind", [CPU, GPU])
def test_honest_answers_import_what_they_name(operator: Operator, kind: str) -> None:
    x, scale = torch.tensor([[1.0, 3.0]], dtype=torch.float16), 2.0
    for example in torch_variants.honest(operator, kind):
        if example.name == "compiled":  # that needs a compiler; the rest of it is `filled`
            (filled,) = (e for e in torch_variants.honest(operator, kind) if e.name == "filled")
            assert example.source.startswith(filled.source.rstrip())
            continue
        out = torch.zeros_like(x)
        if example.name == "filled":
            answered(example.source, operator.name, x, scale, out=out)
        else:
            out = answered(example.source, operator.name, x, scale)[0]
        assert out.dtype == torch.float16
        assert out.tolist() == [[-2.0, 2.0]]


def test_compiled_baseline_is_compiled_for_the_shapes_of_each_case(
    operator: Operator,
) -> None:
    shapes: list[torch.Size] = []

    def backend(graph: torch.fx.GraphModule, examples: list[torch.Tensor]) -> Callable[..., Any]:
        shapes.extend(each.shape for each in examples)
        return graph.forward

    ending = torch_variants.COMPILED.replace("dynamic=", "backend=backend, dynamic=")
    source = torch_variants.source(operator, ending)
    namespace: dict[str, Any] = {"backend": backend}
    exec(source, namespace)
    for rows in (2, 3, 4, 3):
        namespace[operator.name](torch.ones(rows, 5), 2.0)
    assert [tuple(shape) for shape in shapes] == [(2, 5), (3, 5), (4, 5)]


def test_honest_answers_have_the_dtypes_and_memory_of_their_own(operator: Operator) -> None:
    """An output may have a dtype of its own, and a reference may return a view of an input."""
    (output,) = operator.outputs
    outputs = (dataclasses.replace(output, dtype="float16"), output)
    arguments = tuple(a for a in operator.arguments if a is not output) + outputs
    changed = dataclasses.replace(operator, arguments=arguments)
    (wide,) = (e for e in torch_variants.honest(changed, CPU) if e.name == "wide")
    source = wide.source.replace("reference(*", "(lambda x, scale: (x, x))(*")
    x = torch.tensor([[1.0, 3.0]])
    half, same = answered(source, operator.name, x, 2.0)
    assert (half.dtype, same.dtype) == (torch.float16, torch.float32)
    assert same.tolist() == x.tolist() and same.data_ptr() != x.data_ptr()


def test_mutants_import_what_they_name_and_are_wrong(operator: Operator) -> None:
    x, scale = torch.tensor([[1.0, 3.0]]), 2.0
    made = torch_variants.mutants(operator)
    assert {example.name for example in made} == {"too_large", "one_short"}
    for example in made:
        (answer,) = answered(example.source, operator.name, x, scale)
        assert answer.tolist() != [[-2.0, 2.0]]


def answered(source: str, entry: str, *given: object, **named: object) -> Any:
    """Return the result of a source's entry point."""
    names: dict[str, Any] = {}
    exec(source, names)
    return names[entry](*given, **named)


@pytest.mark.parametrize("kind", [CPU, GPU])
def test_honest_answers_pass_static_analysis(operator: Operator, kind: str) -> None:
    track = Track("torch", "torch")
    task = dataclasses.replace(load_task(TASKS, "softmax", track.slug), operator=operator)
    for example in torch_variants.honest(operator, kind):
        files = {f"{operator.name}.py": example.source}
        languages()["torch"].check(files, dataclasses.replace(task, kind=kind))
