"""UNTRUSTED: modules that are constructed and called as a suite does, in a candidate process.

A suite constructs `ModelNew(*get_init_inputs())` and the problem's `Model` after the same seed, and
calls both on the inputs alone. So equal weights need no equal names. A module that drew as many
random numbers as the problem's keeps its weights, which its constructor may have scaled. Another
gets those of the problem's by name and shape. They keep the dtype that its constructor gave them.
"""

from __future__ import annotations

import ast
import inspect
import operator
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from evaluation.tasks.suite_call import drawn_number, start_over
from evaluation.types import BufferSet

if TYPE_CHECKING:
    import torch

SuiteCall = Mapping[str, Any]
"""A call as `Operator.suite_call` describes it."""


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
    if drawn_number() != call["next_draw"]:
        for name, path in call["parameters"].items():
            with torch.no_grad(), suppress(AttributeError):
                own = operator.attrgetter(path)(module)
                if own.shape == slot[name].shape:
                    own.copy_(slot[name])
    dtypes = {slot[name].dtype for name in call["parameters"]}
    device = next(value.device for value in slot.values() if torch.is_tensor(value))
    # Of the dtypes that the constructor chose none is replaced, where it could choose one.
    given = dtypes - {torch.float32}
    module = module.to(device, *given) if len(dtypes) == len(given) == 1 else module.to(device)
    if call["keeps_state"]:
        start_over(module, device)
    return module


def accepts(function: Callable[..., Any], *positional: Any, **named: Any) -> bool:
    """Return whether a function or a class can be called with these arguments."""
    try:
        inspect.signature(function).bind(*positional, **named)
    except TypeError:
        return False
    except ValueError:  # it has no signature that could say
        pass
    return True
