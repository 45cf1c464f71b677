"""UNTRUSTED: random calls of an input function, served and recorded without data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

NORMAL, UNIFORM, INTEGERS = "normal", "uniform", "integers"


@dataclass
class Recording(TorchFunctionMode):
    """A mode that notes which tensors came straight from a generator.

    Those of a GPU are made on the device of the mode around it.
    """

    drawn: list[tuple[torch.Tensor, str, tuple[int, int]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if str((kwargs or {}).get("device", "")).startswith("cuda"):
            kwargs = {name: value for name, value in kwargs.items() if name != "device"}
        result = func(*args, **(kwargs or {}))
        unit = func is torch.Tensor.uniform_ and tuple(args[1:3]) in ((), (0, 1))
        if func is torch.rand or unit:
            self.drawn.append((result, UNIFORM, (0, 1)))
        elif func is torch.randn:
            self.drawn.append((result, NORMAL, (0, 0)))
        elif func is torch.randint:
            named = dict(kwargs or {})
            bounds = [*(a for a in args if isinstance(a, int))]
            low = named.get("low", bounds[0] if len(bounds) > 1 else 0)
            high = named.get("high", bounds[-1] if bounds else 0)
            self.drawn.append((result, INTEGERS, (int(low), int(high))))
        return result

    def source_of(self, tensor: torch.Tensor) -> tuple[str, tuple[int, int]] | None:
        """Return how a tensor was drawn; None for one that was made in another way."""
        for other, kind, bounds in self.drawn:
            if other is tensor:
                return kind, bounds
        return None
