"""Calls of a suite's module: its constructor's arguments, its weights and its inputs, by case.

A suite constructs the module once, and calls it on inputs alone. So its weights are the same in all
launches of a case. They are those of the problem's own module, constructed after a secret seed.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from evaluation.types import Argument, Case

if TYPE_CHECKING:
    import torch

    Made = tuple[Mapping[str, torch.Tensor], int]

# torch is imported in functions, because languages import this module.

_made: dict[tuple[object, ...], Made] = {}  # the last ones, by what they follow from
CALL = "CALL"
"""Name of the inputs of `forward`, in order, in the reference of an imported problem.

Beside it are `CONSTANTS`, the values of those that are no arguments, and `constructor(case)`.
"""
KEEPS_STATE = "KEEPS_STATE"  # the name of what is true where calls change tensors of the module


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
        "keeps_state": bool(getattr(module, KEEPS_STATE, False)),
    }


def drawn_number() -> int:
    """Return what PyTorch's generator gives next: after as many draws from one seed, the same."""
    import torch

    return int(torch.randint(1 << 62, (), device="cpu"))


def start_over(module: torch.nn.Module, device: torch.device | None = None) -> None:
    """Let each call of a module start from the tensors that it has now, moved to a device."""
    import torch

    places = [names for part in module.modules() for names in (vars(part), part._buffers)]
    kept = [{n: x.to(device) for n, x in names.items() if torch.is_tensor(x)} for names in places]

    def restore(*_: object) -> None:
        for names, tensors in zip(places, kept, strict=True):
            names.update(tensors)

    module.register_forward_pre_hook(restore)


def weights(module: ModuleType, arguments: Sequence[Argument], case: Case, seed: int) -> Made:
    """Return the weights by argument, on a CPU, and the number drawn next; the last are kept."""
    import torch

    positional, named = module.constructor(case)
    paths = tuple((a.name, a.parameter) for a in arguments if a.parameter)
    key = module, repr((positional, named)), paths, seed
    if key not in _made:
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            made = module.Model(*positional, **named)
            drawn = drawn_number()
        _made.clear()
        _made[key] = {n: operator.attrgetter(path)(made).detach() for n, path in paths}, drawn
    return _made[key]
