"""References judge many launches at once: batched by vmap they say what they say one by one."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from evaluation.tasks.domain import elements
from evaluation.tasks.input_families import FAMILIES
from evaluation.tasks.operator import Operator
from evaluation.tasks.reference import Reference
from evaluation.tasks.spec import find_operators
from evaluation.tracks.load import load_operator
from evaluation.types import Case

TASKS = Path(__file__).resolve().parents[3] / "tasks"
SMALL = 20_000

Wide = dict[str, torch.Tensor]


@pytest.fixture(params=find_operators(TASKS))
def operator(request: pytest.FixtureRequest) -> Operator:
    return load_operator(TASKS / request.param)


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


@pytest.mark.parametrize("function", ["reference", "magnitude"])
def test_batched_launches_get_the_answers_of_single_ones(operator: Operator, function: str) -> None:
    call = getattr(operator.module(), function)
    for case in small_cases(operator):
        scalars = {argument.name: case[argument.name] for argument in operator.scalars}

        def answers(wide: Wide, scalars: dict[str, float] = scalars) -> tuple[torch.Tensor, ...]:
            answer = call(**wide, **scalars)
            return answer if isinstance(answer, tuple) else (answer,)

        single = launches(operator, case)
        stacked = {name: torch.stack([wide[name] for wide in single]) for name in single[0]}
        batched = torch.vmap(answers)(stacked)
        for index, wide in enumerate(single):
            for got, expected in zip(batched, answers(wide), strict=True):
                # Sums may be taken in another order, which shows where they nearly cancel.
                atol = 1e-14 * float(expected.abs().max()) + 1e-300
                torch.testing.assert_close(got[index], expected, rtol=1e-11, atol=atol)
