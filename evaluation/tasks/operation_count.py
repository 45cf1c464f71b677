"""Cost model by default: bytes of all tensors, and operations counted on tensors without data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from evaluation.shapes import dtype_of, shape_of, tensor_bytes
from evaluation.tasks.input_families import torch_dtype
from evaluation.types import Argument, Case


class OperationCount(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A mode that counts operations.

    A contraction of m x k and k x n counts 2 m n k; any other operation counts one for each element
    of its largest tensor, and a view nothing.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operations = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if formula := flop_registry.get(func.overloadpacket):
            self.operations += int(formula(*args, **(kwargs or {}), out_val=result))
        elif not func.is_view:
            tensors = [t for t in tree_leaves((args, kwargs, result)) if torch.is_tensor(t)]
            self.operations += max((t.numel() for t in tensors), default=0)
        return result


def counted_cost(
    reference: Callable[..., Any], arguments: Sequence[Argument], case: Case
) -> tuple[int, int]:
    """Return the bytes of all tensors, and the operations of the reference on a case."""
    given: dict[str, Any] = {}
    for argument in arguments:
        if argument.role == "scalar":
            given[argument.name] = case[argument.name]
        elif argument.role != "output":
            shape, dtype = shape_of(argument, case), torch_dtype(dtype_of(argument, case))
            given[argument.name] = torch.empty(shape, dtype=dtype, device="meta")
    with OperationCount() as count:
        reference(**given)
    return tensor_bytes(arguments, case), max(1, count.operations)
