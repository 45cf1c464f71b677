"""Check of an operator's `reference.py` on its smallest case, before any submission is judged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import torch

from evaluation.errors import TaskError, line_of
from evaluation.shapes import FAMILIES, shape_of
from evaluation.tasks.float64 import outputs_of, widened
from evaluation.tasks.input_families import InputGenerator
from evaluation.tasks.spec import Task
from evaluation.types import Argument, Case


def check_reference(task: Task) -> None:
    """Call each function of the reference once. Raises TaskError for a wrong result."""
    operator = task.operator
    case = task.checked_cases()[0]
    generator = InputGenerator(torch.Generator(), FAMILIES[0])
    inputs = _call(task, "inputs", case, generator)
    _check_tensors(task, "inputs", inputs, operator.inputs, case)
    wide = widened(inputs)
    scalars = {scalar.name: case[scalar.name] for scalar in operator.scalars}
    for function in ("exact", "magnitude"):
        outputs = outputs_of(_call(task, function, **wide, **scalars))
        if len(outputs) != len(operator.outputs):
            _fail(task, function, f"returned {len(outputs)} outputs, not {len(operator.outputs)}")
        named = {a.name: y for a, y in zip(operator.outputs, outputs, strict=True)}
        _check_tensors(task, function, named, operator.outputs, case)
    if not _are_numbers([_call(task, "reduction", case)], 1):
        _fail(task, "reduction", "must return the number of terms of a sum, above 0")
    if not _are_numbers(_call(task, "cost", case), 2):
        _fail(task, "cost", "must return two numbers: bytes moved and operations")


def _call(task: Task, function: str, *arguments: Any, **named: Any) -> Any:
    call = getattr(task.operator.module(), function)
    try:
        return call(*arguments, **named)
    except Exception as error:
        found = line_of(error, task.operator.folder / "reference.py")
        _fail(task, function, found or f"{type(error).__name__}: {error}")


def _check_tensors(
    task: Task, function: str, found: Any, wanted: Sequence[Argument], case: Case
) -> None:
    """Raise TaskError unless `found` holds a tensor of the right shape for each argument."""
    names = [argument.name for argument in wanted]
    if not isinstance(found, dict) or set(found) != set(names):
        returned = ", ".join(found) if isinstance(found, dict) else type(found).__name__
        advice = f"must return {', '.join(names)}, returned {returned or 'nothing'}"
        _fail(task, function, advice)
    for argument in wanted:
        tensor, shape = found[argument.name], shape_of(argument, case)
        if not isinstance(tensor, torch.Tensor) or tensor.shape != shape:
            got = list(tensor.shape) if isinstance(tensor, torch.Tensor) else repr(tensor)
            _fail(task, function, f"{argument.name} must have the shape {list(shape)}, got {got}")


def _are_numbers(values: Any, count: int) -> bool:
    return (
        isinstance(values, list | tuple)
        and len(values) == count
        and all(isinstance(value, int | float) and value >= 0 for value in values)
        and values[0] > 0
    )


def _fail(task: Task, function: str, advice: str) -> NoReturn:
    function = "reference" if function == "exact" else function  # which the author has written
    raise TaskError(f"{task.operator.folder / 'reference.py'}: {function}: {advice}")
