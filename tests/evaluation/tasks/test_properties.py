"""Tests of outputs that are not compared by value: rounded, property and distribution."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from evaluation.bench.memory.verify import acceptable, compare
from evaluation.errors import SubmissionError
from evaluation.kinds.kernel.load import load_operator
from evaluation.kinds.kernel.workload import OperatorWorkload
from evaluation.tasks.properties import Distances
from evaluation.tasks.reference import Reference
from evaluation.tasks.spec import folder_of

TASKS = Path(__file__).resolve().parents[3] / "tasks"


def smallest(name: str, least: int = 2000) -> Reference:
    operator = load_operator(folder_of(TASKS, name))
    cases = [c for c in operator.cases if operator.elements(c) >= least and c.dtype == "float32"]
    return Reference(operator, min(cases, key=operator.elements))


def outputs_of(reference: Reference, inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: y.rounded.clone() for name, y in reference.expected(inputs).items()}


def test_cholesky_is_judged_by_its_residual_whatever_the_launches() -> None:
    reference = smallest("cholesky")
    inputs = reference.draw()
    outputs = outputs_of(reference, inputs)
    assert 0 <= compare(outputs, reference.expected(inputs), 1, "here") < 1
    wrong = {"l": outputs["l"] * 1.001}
    with pytest.raises(SubmissionError, match=r"l is wrong: .* times the allowed error"):
        compare(wrong, reference.expected(inputs), 1, "here")
    many = {"a": torch.stack([inputs["a"]] * 2)}
    both = {"l": torch.stack([outputs["l"]] * 2)}
    assert acceptable(both, reference.expected_of_many(many))
    both["l"][1] *= 1.001
    assert not acceptable(both, reference.expected_of_many(many))


def test_structured_inputs_stay_whole_on_the_clock() -> None:
    reference = smallest("cholesky")
    pool = OperatorWorkload(reference.operator, reference.case).pool(torch.Generator())
    pool.begin(3)
    starts = pool.draw("a", 3)
    size = reference.draw()["a"].numel()
    written = pool.write("a", starts, torch.empty((3, size)))
    shape = reference.draw()["a"].shape
    assert not torch.equal(written[0], written[1])
    for row in written:
        matrix = row.view(shape)
        assert torch.allclose(matrix, matrix.mT)
        torch.linalg.cholesky(matrix.double())
    again = pool.write("a", starts[:, 1:], torch.empty((2, size)))
    assert torch.equal(again, written[1:])


def test_rounded_integers_may_differ_only_where_a_rounding_decides() -> None:
    reference = smallest("quantize_rows_int8")
    x = reference.draw("structured")["x"]
    inputs = {"x": x}
    outputs = outputs_of(reference, inputs)
    compare(outputs, reference.expected(inputs), 1 << 20, "here")
    outputs["q"].view(-1)[0] += 3
    with pytest.raises(SubmissionError, match=r"q\[0, 0\] is wrong"):
        compare(outputs, reference.expected(inputs), 1 << 20, "here")
    tie = torch.zeros_like(x)
    tie[:, 0], tie[:, 1] = 127.0, 0.5
    expected = reference.expected({"x": tie})
    assert expected["q"].allowed[0, 1] == 1
    assert expected["q"].allowed[0, 2] == 0


def uniform(out: torch.Tensor, **others: object) -> tuple[torch.Tensor, torch.Tensor]:
    return out, torch.where((out >= 0) & (out < 1), out, torch.nan)


def test_wrong_random_outputs_are_rejected() -> None:
    generator = torch.Generator().manual_seed(5)

    def share(*samples: torch.Tensor) -> float:
        distances = Distances()
        return [distances.share(uniform, {"out": sample}) for sample in samples][-1]

    good = [torch.rand(10_000, generator=generator) for _ in range(2)]
    assert share(*good) < 1
    assert share(good[0] ** 1.2) > 1
    assert share(torch.arange(10_000) / 10_000) > 1  # right values, but in order
    assert share(good[0], good[0]) > 1  # the sample before, once more
    assert share(good[0] + 1) == float("inf")


def test_dropout_by_pytorch_passes_and_a_fixed_mask_does_not() -> None:
    reference = smallest("dropout", 4000)
    p = reference.case["p"]
    mask: torch.Tensor | None = None
    for fixed in (False, True):
        refused = False
        for _ in range(3):
            inputs = reference.draw()
            if mask is None or not fixed:
                mask = torch.rand(inputs["x"].shape) >= p
            out = torch.where(mask, inputs["x"] / (1 - p), 0.0)
            refused |= not acceptable({"out": out}, reference.expected(inputs))
        assert refused is fixed
