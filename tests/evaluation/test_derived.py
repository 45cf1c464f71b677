"""What is made of a reference is a whole program, whatever the reference itself imports."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from evaluation import derived
from evaluation.operators import Operator
from evaluation.place import CPU, GPU
from evaluation.task import load_operator

PLAIN = Path(__file__).resolve().parents[1] / "gpu" / "operators" / "centred"


@pytest.fixture(scope="module")
def operator() -> Operator:
    """One whose reference imports nothing."""
    found = load_operator(PLAIN, GPU)
    assert "import" not in (PLAIN / "reference.py").read_text()
    return found


@pytest.mark.parametrize("kind", [CPU, GPU])
def test_honest_answers_import_what_they_name(operator: Operator, kind: str) -> None:
    x, scale = torch.tensor([[1.0, 3.0]], dtype=torch.float16), 2.0
    for example in derived.honest(operator, kind):
        if example.name == "compiled":  # that needs a compiler; the rest of it is `wide`
            assert example.source.startswith(derived.source(operator, derived._WIDE).rstrip())
            continue
        answer = answered(example.source, operator.name, x, scale)
        assert answer.dtype == torch.float16
        assert answer.tolist() == [[-2.0, 2.0]]


def test_mutants_import_what_they_name_and_are_wrong(operator: Operator) -> None:
    x, scale = torch.tensor([[1.0, 3.0]]), 2.0
    made = derived.mutants(operator)
    assert {example.name for example in made} == {"too_large", "one_short"}
    for example in made:
        assert answered(example.source, operator.name, x, scale).tolist() != [[-2.0, 2.0]]


def answered(source: str, entry: str, *given: object) -> torch.Tensor:
    names: dict[str, object] = {}
    exec(source, names)
    (answer,) = names[entry](*given)  # type: ignore[operator]
    assert isinstance(answer, torch.Tensor)
    return answer
