"""UNTRUSTED: modules that are constructed and called as a suite does, in a candidate process.

A suite constructs `ModelNew(*get_init_inputs())` and the problem's `Model` after the same seed, and
calls both on the inputs alone. So equal weights need no equal names; where a name and a shape are
those of the problem's module, its weight is copied in any case. Weights keep the dtype that its
constructor gave them: a module may compute in half precision inside.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from evaluation.types import BufferSet

if TYPE_CHECKING:
    import torch

SuiteCall = Mapping[str, Any]
"""A call as `evaluation.tasks.suite_call` describes it."""


def constructed(
    model: Callable[..., torch.nn.Module], call: SuiteCall, slot: BufferSet
) -> torch.nn.Module | None:
    """Return a module with the suite's constants and weights.

    None where its constructor does not take the suite's arguments.
    """
    import torch

    positional, named = ast.literal_eval(call["arguments"])
    if not accepts(model, *positional, **named):
        return None
    torch.manual_seed(call["seed"])
    module = model(*positional, **named)
    for part in module.modules():
        if isinstance(part, torch.nn.modules.dropout._DropoutNd):
            part.p = 0.0  # as in the reference, which is a function of its inputs
    own = {**dict(module.named_buffers()), **dict(module.named_parameters())}
    with torch.no_grad():
        for name, path in call["parameters"].items():
            if path in own and own[path].shape == slot[name].shape:
                own[path].copy_(slot[name])
    dtypes = {slot[name].dtype for name in call["parameters"]}
    device = next(value.device for value in slot.values() if torch.is_tensor(value))
    # Of the dtypes that the constructor chose none is replaced, where it could choose one.
    given = dtypes - {torch.float32}
    return module.to(device, *given) if len(dtypes) == len(given) == 1 else module.to(device)


def accepts(function: Callable[..., Any], *positional: Any, **named: Any) -> bool:
    """Return whether a function or a class can be called with these arguments."""
    try:
        inspect.signature(function).bind(*positional, **named)
    except TypeError:
        return False
    except ValueError:  # it has no signature that could say
        pass
    return True
