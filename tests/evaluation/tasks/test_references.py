"""Tests of every operator's reference under vmap."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from evaluation.kinds.kernel.load import load_operator
from evaluation.shapes import FAMILIES, elements
from evaluation.tasks.operator import Operator
from evaluation.tasks.reference import Reference
from evaluation.tasks.spec import folder_of, self_tested
from evaluation.types import Case

TASKS = Path(__file__).resolve().parents[3] / "tasks"
SMALL = 20_000

Wide = dict[str, torch.Tensor]


DEFINED = [
    (name, function)
    for name in self_tested(TASKS)
    for function in ("reference", "magnitude")
    if f"def {function}(" in (folder_of(TASKS, name) / "reference.py").read_text()
]
"""The functions that operators define themselves."""


def small_cases(operator: Operator) -> list[Case]:
    cases = [*operator.cases, *operator.domain.boundaries()]
    return [case for case in cases if elements(operator.arguments, case) <= SMALL]


def launches(operator: Operator, case: Case) -> list[Wide]:
    """Return the inputs of one launch for every family, floating-point ones in float64."""
    reference = Reference(operator, case)
    return [
        {
            n: t.double() if t.dtype.is_floating_point else t
            for n, t in reference.draw(family).items()
        }
        for family in FAMILIES
    ]


@pytest.mark.parametrize(("name", "function"), DEFINED)
def test_vmap_of_a_reference_equals_single_calls(name: str, function: str) -> None:
    operator = load_operator(folder_of(TASKS, name))
    call = getattr(operator.module(), function)
    for case in small_cases(operator):
        scalars = {argument.name: case[argument.name] for argument in operator.scalars}

        def outputs(wide: Wide, scalars: dict[str, float] = scalars) -> tuple[torch.Tensor, ...]:
            result = call(**wide, **scalars)
            return result if isinstance(result, tuple) else (result,)

        single = launches(operator, case)
        stacked = {name: torch.stack([wide[name] for wide in single]) for name in single[0]}
        batched = torch.vmap(outputs)(stacked)
        for index, wide in enumerate(single):
            for got, expected in zip(batched, outputs(wide), strict=True):
                # The order of a sum can differ, which shows where terms nearly cancel.
                atol = 1e-14 * float(expected.abs().max()) + 1e-300
                torch.testing.assert_close(got[index], expected, rtol=1e-11, atol=atol)
