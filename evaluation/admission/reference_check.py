"""Check of an operator's `reference.py` on its smallest case, before any submission is judged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeVar

import torch

from evaluation.errors import TaskError
from evaluation.tasks.domain import shape_of
from evaluation.tasks.input_families import FAMILIES, InputGenerator
from evaluation.tasks.spec import Task
from evaluation.types import Argument, Case, Split

Given = TypeVar("Given")


def rehearse(task: Task) -> None:
    """Call each function of the reference once. Raises TaskError for a wrong result."""
    operator = task.operator
    case = min(task.cases(Split.SEEN), key=operator.elements)
    reference = operator.module()

    def asked(function: str, call: Callable[[Any], Given]) -> Given:
        try:
            return call(getattr(reference, function))
        except Exception as error:
            _fail(task, function, f"raised {type(error).__name__}: {error}")

    draw = InputGenerator(torch.Generator(), FAMILIES[0])
    inputs = asked("inputs", lambda call: call(case, draw))
    _check_named(task, "inputs", inputs, operator.inputs, case)
    wide = {name: x.double() if x.dtype.is_floating_point else x for name, x in inputs.items()}
    scalars = {scalar.name: case[scalar.name] for scalar in operator.scalars}
    for function in ("reference", "magnitude"):
        told = asked(function, lambda call: call(**wide, **scalars))
        outputs = told if isinstance(told, tuple) else (told,)
        if len(outputs) != len(operator.outputs):
            _fail(task, function, f"gave {len(outputs)} outputs, not {len(operator.outputs)}")
        named = {a.name: y for a, y in zip(operator.outputs, outputs, strict=True)}
        _check_named(task, function, named, operator.outputs, case)
    if not _numbers([asked("reduction", lambda call: call(case))], 1):
        _fail(task, "reduction", "must give how many terms are added up, a number above 0")
    if not _numbers(asked("cost", lambda call: call(case)), 2):
        _fail(task, "cost", "must give bytes moved and operations, two numbers")


def _check_named(
    task: Task, function: str, given: Any, wanted: Sequence[Argument], case: Case
) -> None:
    """Raise TaskError unless `given` holds a tensor of the right shape for each argument."""
    names = [argument.name for argument in wanted]
    if not isinstance(given, dict) or set(given) != set(names):
        told = ", ".join(given) if isinstance(given, dict) else type(given).__name__
        _fail(task, function, f"must give {', '.join(names)}, gave {told or 'nothing'}")
    for argument in wanted:
        tensor, shape = given[argument.name], shape_of(argument, case)
        if not isinstance(tensor, torch.Tensor) or tensor.shape != shape:
            got = list(tensor.shape) if isinstance(tensor, torch.Tensor) else repr(tensor)
            _fail(task, function, f"{argument.name} must have the shape {list(shape)}, got {got}")


def _numbers(given: Any, count: int) -> bool:
    return (
        isinstance(given, list | tuple)
        and len(given) == count
        and all(isinstance(value, int | float) and value >= 0 for value in given)
        and given[0] > 0
    )


def _fail(task: Task, function: str, advice: str) -> NoReturn:
    raise TaskError(f"{task.operator.folder / 'reference.py'}: {function}: {advice}")
