"""Counts of operations: a reference's cost by default, and how many terms an operation adds up."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from evaluation.shapes import dtype_of, shape_of, tensor_bytes
from evaluation.tasks.input_families import torch_dtype
from evaluation.types import Argument, Case

LINEAR_ALGEBRA = ("linalg_", "triangular_solve", "cholesky", "_linalg_", "lu_", "_fft")


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
    """Return the bytes of all tensors, and the operations on a case, on tensors without data."""
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


def terms_of(name: str, args: Any, kwargs: Mapping[str, Any]) -> float:
    """Return how many terms an operation adds up for one element, 1 for an elementwise one.

    An addend counts as a term, also of a sum made before: an accumulator may begin with it.
    """
    match name:
        case "add" | "add_" | "sub" | "sub_":
            sums = [terms + 1 for each in args if (terms := getattr(each, "terms", 1.0)) > 1]
            return min(sums) if sums and all(map(torch.is_tensor, args)) else 1.0
        case "mm" | "bmm" | "mv" | "dot":
            return float(args[0].shape[-1])
        case "addmm" | "baddbmm" | "addmv":
            return float(args[1].shape[-1] + 1)
        case "convolution":
            weight, transposed, groups = args[1], args[6], args[8]
            window = math.prod(weight.shape[2:])
            each = weight.shape[0] // groups if transposed else weight.shape[1]
            return float(window * each + 1)
        case "convolution_backward":
            return _terms_of_gradient(*args)
        case "sum" | "mean" | "prod" | "var" | "linalg_vector_norm":
            return _reduced(args, kwargs)
        case "cumsum" | "cumprod" | "logcumsumexp":
            return float(args[0].shape[args[1]]) if args[0].dim() else 1.0
        case "avg_pool1d" | "avg_pool2d" | "avg_pool3d":
            return float(math.prod(args[1]) ** (1 if len(args[1]) > 1 else 2))
        case "_adaptive_avg_pool2d" | "_adaptive_avg_pool3d":
            sizes = zip(args[0].shape[-len(args[1]) :], args[1], strict=True)
            return float(math.prod(_largest_window(size, cells) for size, cells in sizes))
        case "index_add" | "scatter_add" | "scatter_add_" | "index_add_" | "_cdist_forward":
            return float(max(1, args[-1].numel() // max(1, args[0].numel()))) + 1
        case "_embedding_bag" | "_embedding_bag_forward_only":
            ends = torch.cat([args[2][1:], args[2].new_full((1,), args[1].numel())])
            return float(max(1, int((ends - args[2]).max())))
    if name.startswith(LINEAR_ALGEBRA):
        return float(max((size for a in args if torch.is_tensor(a) for size in a.shape), default=1))
    return 1.0


def _terms_of_gradient(gradient: torch.Tensor, x: Any, weight: torch.Tensor, *rest: Any) -> float:
    """Return the terms of an element of the one wanted gradient of a convolution."""
    transposed, groups, wanted = rest[4], rest[6], rest[7]
    if not wanted[0]:  # of the weight and the bias, a sum over the places of all images
        large = x if transposed and wanted[1] else gradient
        return float(large.numel() // max(1, large.shape[1]))
    each = weight.shape[1] if transposed else weight.shape[0] // groups
    return float(math.prod(weight.shape[2:]) * each)


def _largest_window(size: int, cells: int) -> int:
    """Return the size of the largest window of adaptive pooling, whose windows may overlap."""
    starts, ends = range(0, size * cells, size), range(size, size * (cells + 1), size)
    return max(-(-end // cells) - start // cells for start, end in zip(starts, ends, strict=True))


def _reduced(args: Any, kwargs: Mapping[str, Any]) -> float:
    """Return the size of the dimensions that a reduction is over."""
    dims = next((a for a in args[1:] if isinstance(a, list | tuple)), kwargs.get("dim"))
    dims = [dims] if isinstance(dims, int) else dims or range(args[0].dim())
    return float(max(1, math.prod(args[0].shape[d] for d in dims if args[0].dim())))
