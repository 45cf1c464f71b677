"""References in float64: their own casts to narrower floating-point types are lifted."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

NARROW = (torch.float32, torch.float16, torch.bfloat16)


def widened(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return the tensors with floating-point ones in float64."""
    return {n: t.double() if t.dtype.is_floating_point else t for n, t in tensors.items()}


def outputs_of(result: Any) -> tuple[torch.Tensor, ...]:
    """Return what a reference returned as a tuple: of one output, it returns the tensor."""
    return result if isinstance(result, tuple) else (result,)


class Lifted(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A mode in which `x.float()`, `x.to(torch.float16)` and `dtype=torch.float32` give float64.

    Casts to integers and to float8 are what a reference computes, so they stay.
    """

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return func(*args, **lifted_arguments(kwargs))


def lifted_arguments(kwargs: dict[str, Any] | None) -> dict[str, Any]:
    """Return the named arguments of an operation, a narrow dtype replaced by float64."""
    named = dict(kwargs or {})
    if named.get("dtype") in NARROW:
        named["dtype"] = torch.float64
    return named


def lifted(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that computes in float64 throughout."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        before = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)  # of quotients of integers, and new tensors
        try:
            with Lifted():  # type: ignore[no-untyped-call]
                return function(*args, **kwargs)
        finally:
            torch.set_default_dtype(before)

    return call
