"""Inputs of timed launches: slices of drawn sets that keep what an operator promises of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from evaluation.bench.memory.input_pool import Tensors
from evaluation.kinds.kernel.load import load_operator
from evaluation.kinds.kernel.workload import OperatorWorkload
from evaluation.tasks.defaults import bounds_of
from evaluation.tasks.operator import Operator
from evaluation.tasks.reference import Reference
from evaluation.tasks.spec import find_operators, folder_of
from evaluation.types import Argument, Case

TASKS = Path(__file__).resolve().parents[4] / "tasks"
OPERATORS = find_operators(TASKS)
OF_INDICES = ("attention_decode", "cross_entropy", "embedding_bag", "page_gather")
LAUNCHES = 4
ELEMENTS = 2000
"""Elements of a case, at least, where an operator has one: a slice then crosses rows."""


def within(values: torch.Tensor, low: float, high: float) -> bool:
    wide = values.double()  # int8 has no 128
    return bool(((wide >= low) & (wide < high)).all())


def has_pages(given: Tensors, case: Case) -> bool:
    pages = case["sequences"] * case["pages"]
    lengths = within(given["lengths"], 1, case["pages"] * case["page_size"] + 1)
    return lengths and within(given["block_tables"], 0, pages)


def has_fields_of_three_values(given: Tensors, case: Case) -> bool:
    return all(bool(((given["packed"] >> shift) & 3 < 3).all()) for shift in (0, 2, 4, 6))


def has_classes_or_ignored(given: Tensors, case: Case) -> bool:
    targets = given["targets"]
    return within(targets[targets != case["ignore_index"]], 0, case["vocab"])


def is_positive_definite(given: Tensors, case: Case) -> bool:
    a = given["a"].double()
    return torch.allclose(a, a.mT) and bool((torch.linalg.eigvalsh(a) > 0).all())


PROMISES: dict[str, Callable[[Tensors, Case], bool]] = {
    "attention_decode": has_pages,
    "bitnet_matmul": has_fields_of_three_values,
    "cholesky": is_positive_definite,
    "cross_entropy": has_classes_or_ignored,
    "int8_matmul": lambda given, case: within(given["weight"], -127, 128),
    "quaternion_rotation": lambda given, case: bool(given["quaternion"].any(-1).all()),
    "rmsprop_centred": lambda given, case: bool((given["square"] > given["average"] ** 2).all()),
    "spherical_harmonics": lambda given, case: bool(given["direction"].any(-1).all()),
}
"""Promises of prompts on inputs beyond a `range` of an argument."""


def workload_of(operator: Operator) -> OperatorWorkload:
    """Return the smallest case of enough elements; the largest where none has."""
    cases = sorted(operator.cases, key=operator.elements)
    enough = (case for case in cases if operator.elements(case) >= ELEMENTS)
    return OperatorWorkload(operator, next(enough, cases[-1]))


def timed(workload: OperatorWorkload) -> dict[str, torch.Tensor]:
    """Return inputs of timed launches, stacked along the first dimension."""
    pool = workload.pool(torch.Generator().manual_seed(1))
    pool.begin(LAUNCHES)
    found = {}
    for spec in workload.inputs:
        out = torch.empty((LAUNCHES, math.prod(spec.shape)), dtype=spec.torch_dtype)
        pool.write(spec.name, pool.draw(spec.name, LAUNCHES), out)
        found[spec.name] = out.view(LAUNCHES, *spec.shape)
    return found


def is_in_range(argument: Argument, case: Case, values: torch.Tensor) -> bool:
    """Return whether values lie in the range of an input, whose bounds are rounded as they are."""
    if (bounds := bounds_of(argument, case)) is None:
        return True
    low, high = torch.tensor(bounds, dtype=torch.float64).to(values.dtype).double()
    if values.dtype.is_floating_point:
        wide = values.double()
        return bool(((wide >= low) & (wide <= high)).all())
    return within(values, *bounds)


@pytest.mark.parametrize("name", OPERATORS)
def test_inputs_keep_ranges_and_promises_in_timed_launches(name: str) -> None:
    workload = workload_of(load_operator(folder_of(TASKS, name)))
    case, given = workload.reference.case, timed(workload)
    drawn = workload.reference.draw()
    for argument in workload.arguments:
        for inputs in (given, drawn) if argument.role == "input" else ():
            assert is_in_range(argument, case, inputs[argument.name]), argument.name
    promised = PROMISES.get(name, lambda given, case: True)
    assert promised(given, case) and promised(drawn, case)


def eager(reference: Reference, given: Tensors) -> dict[str, torch.Tensor]:
    """Return what PyTorch computes of one launch, in the dtypes of the outputs."""
    operator = reference.operator
    found = operator.module().reference(**given, **reference.scalars)
    found = found if isinstance(found, tuple) else (found,)
    return {a.name: y for a, y in zip(operator.outputs, found, strict=True)}


@pytest.mark.parametrize("name", OF_INDICES)
def test_reference_of_indices_is_right_in_timed_launches(name: str) -> None:
    workload = workload_of(load_operator(folder_of(TASKS, name)))
    given = timed(workload)
    launches = [{n: t[number] for n, t in given.items()} for number in range(LAUNCHES)]
    each = [eager(workload.reference, launch) for launch in launches]
    outputs = {n: torch.stack([found[n] for found in each]) for n in each[0]}
    workload.check(given, outputs, 1 << 20, "here")
