"""Calls of a suite's module: its constructor's arguments, its weights and its inputs, by case.

A suite constructs the module once, and calls it on inputs alone. So its weights are the same in all
launches of a case. They are those of the problem's own module, constructed after a secret seed.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from evaluation.tasks.domain import dtype_of, shape_of
from evaluation.types import Argument, Case

if TYPE_CHECKING:
    import torch

    from evaluation.tasks.operator import Operator

# torch is imported in functions, because languages import this module.

CALL = "CALL"
"""Name of the inputs of `forward`, in order, in the reference of an imported problem.

Beside it are `CONSTANTS`, the values of those that are no arguments, and `constructor(case)`.
"""


def suite_call(operator: Operator, case: Case, seed: int) -> dict[str, Any] | None:
    """Return how a suite constructs and calls a module, as JSON; None for an operator of ours."""
    call = None if operator.source is None else operator.code().suite_call(case)
    if call is None:
        return None
    parameters = {a.name: a.parameter for a in operator.weights}
    return {**call, "seed": seed, "parameters": parameters}


def described(module: ModuleType, case: Case) -> dict[str, Any] | None:
    """Return the part of a call that the task's code decides; None without one.

    A constructor that takes more than constants is none that another process could call.
    """
    if not hasattr(module, CALL):
        return None
    arguments = repr(module.constructor(case))
    try:
        ast.literal_eval(arguments)
    except (ValueError, SyntaxError):
        return None
    return {
        "arguments": arguments,
        "inputs": list(module.CALL),
        "constants": dict(module.CONSTANTS),
    }


def extension_call(operator: Operator, case: Case) -> dict[str, Any] | None:
    """Return a call of a suite's module with shapes in the place of tensors, as JSON.

    A source may build extensions when its module is made or first called. None for an operator of
    ours, which is built when its file is imported.
    """
    call = suite_call(operator, case, seed=0)
    if call is None:
        return None
    tensors = {
        a.name: {"shape": shape_of(a, case), "dtype": dtype_of(a, case)} for a in operator.inputs
    }
    scalars = {a.name: case[a.name] for a in operator.scalars}
    known = {**scalars, **call["constants"], **tensors}
    return {"arguments": call["arguments"], "inputs": [known[name] for name in call["inputs"]]}


def weights(
    module: ModuleType, arguments: Sequence[Argument], case: Case, seed: int
) -> Mapping[str, torch.Tensor]:
    """Return the weights of a case by argument, on a CPU: the same ones for equal arguments."""
    paths = tuple((a.name, a.parameter) for a in arguments if a.parameter)
    return _constructed(module, repr(module.constructor(case)), _Hidden(case), paths, seed)


class _Hidden:
    """A case that is no part of the key of a cache."""

    def __init__(self, case: Case) -> None:
        self.case = case

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Hidden)

    def __hash__(self) -> int:
        return 0


@functools.lru_cache(maxsize=1)
def _constructed(
    module: ModuleType, arguments: str, of: _Hidden, paths: tuple[tuple[str, str], ...], seed: int
) -> Mapping[str, torch.Tensor]:
    import torch

    positional, named = module.constructor(of.case)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        parameters = dict(module.Model(*positional, **named).named_parameters())
    return {name: parameters[path].detach() for name, path in paths}
