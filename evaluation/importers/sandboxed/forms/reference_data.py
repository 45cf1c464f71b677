"""UNTRUSTED: the data of a reference, taken apart into inputs, output buffers and settings."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from evaluation.importers.sandboxed.forms.generator import Generator
from evaluation.importers.sandboxed.forms.kernelbench import identifier
from evaluation.importers.sandboxed.observation import Unsupported

MAX_CALLS = 5000
"""Calls of PyTorch in a generator: it runs for every size that is tried."""
BLANK, FILLED = ("empty", "zeros"), ("ones", "full")
"""Functions that make a buffer, and that make an input which is not drawn."""
SETTINGS = (int, float, bool, str, type(None))


class TooManyCalls(Unsupported):
    """Raised for a generator that would take too long."""


@dataclass
class _Making(TorchFunctionMode):
    """A mode that notes tensors whose elements are all equal, by the function that made them.

    Raises: Unsupported where there are too many calls.
    """

    made: list[tuple[torch.Tensor, str]] = field(default_factory=list)
    calls: int = 0

    def __post_init__(self) -> None:
        super().__init__()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls += 1
        if self.calls > MAX_CALLS:
            raise TooManyCalls(f"its generator makes more than {MAX_CALLS} calls of PyTorch")
        result = func(*args, **(kwargs or {}))
        name = getattr(func, "__name__", "").removesuffix("_like")
        if func is torch.Tensor.clone:
            name = self.maker_of(args[0])
        if name in (*BLANK, *FILLED) and torch.is_tensor(result):
            self.made.append((result, name))
        return result

    def maker_of(self, tensor: torch.Tensor) -> str:
        """Return the function that made a tensor; empty for one that was written to, or drawn."""
        if tensor._version:
            return ""
        return next((name for other, name in self.made if other is tensor), "")


class Data:
    """The products of a generator for some values of its arguments, by default without data.

    `namespace` has the functions of the file and the arguments.

    Raises: Unsupported.
    """

    def __init__(
        self, generator: Generator, namespace: Mapping[str, object], device: str = "meta"
    ) -> None:
        self.inputs: dict[str, str] = {}
        """Expressions of the generator, by name of the input."""
        self.fixed: list[str] = []
        """Inputs that are the same in every call."""
        self.settings: dict[str, str] = {}
        """Expressions of what is no tensor, and of the shapes of buffers, by name."""
        self.tensors: dict[str, torch.Tensor] = {}
        """Inputs by name."""
        self.values: dict[str, object] = {}
        """Values of the settings."""
        self._taken = {*namespace, "self"}
        self._buffers: dict[str, str] = {}
        self._is_tuple = generator.is_tuple
        lines = generator.lines(map(ast.unparse, generator.returned))
        text = "def returned():\n" + "".join(f"    {line}\n" for line in lines)
        own = dict(namespace)
        exec(compile(text, "problem.py", "exec"), own)
        with torch.device(device), _Making() as self._making:
            self._values: list[Any] = own["returned"]()  # type: ignore[operator]
        pairs = zip(generator.returned, self._values, strict=True)
        self.items = [self._item(number, *pair) for number, pair in enumerate(pairs)]
        if not self.inputs:
            raise Unsupported("no part of its data is drawn")

    @property
    def value(self) -> Any:
        """Return the data as the reference takes it."""
        return tuple(self._values) if self._is_tuple else self._values[0]

    @property
    def expression(self) -> str:
        """Return the expression that puts the data together again."""
        return f"({''.join(f'{x}, ' for x in self.items)})" if self._is_tuple else self.items[0]

    @property
    def buffers(self) -> list[str]:
        """Return the statements that make the output buffers."""
        device = f"device={next(iter(self.inputs))}.device"
        return [f"{name} = torch.{made}, {device})" for name, made in self._buffers.items()]

    def _item(self, number: int, node: ast.expr, value: object) -> str:
        """Return the expression of one item of the data, and note what it needs."""
        expression, other = ast.unparse(node), f"input_{number}" if self._is_tuple else "data"
        name = self._name(_variable(node) or other)
        if torch.is_tensor(value):
            maker = self._making.maker_of(value)
            if maker in BLANK:
                self.settings[f"{name}_shape"] = f"tuple({expression}.shape)"
                self.values[f"{name}_shape"] = tuple(value.shape)
                self._buffers[name] = f"{maker}(self.{name}_shape, dtype={value.dtype}"
            else:
                self.inputs[name] = expression
                self.tensors[name] = value
                self.fixed += [name] if maker else []
            return name
        if isinstance(value, dict) and value and all(map(torch.is_tensor, value.values())):
            names = {key: self._name(str(key)) for key in value}
            self.inputs |= {n: f"{expression}[{key!r}]" for key, n in names.items()}
            self.tensors |= {n: value[key] for key, n in names.items()}
            return f"{{{', '.join(f'{key!r}: {n}' for key, n in names.items())}}}"
        if value is None:
            return "None"
        if isinstance(value, list | tuple) and value and all(map(torch.is_tensor, value)):
            own = [self._name(f"{name}_{number}") for number in range(len(value))]
            self.inputs |= {n: f"{expression}[{number}]" for number, n in enumerate(own)}
            self.tensors |= dict(zip(own, value, strict=True))
            return f"[{', '.join(own)}]"
        if _is_setting(value):
            self.settings[name], self.values[name] = expression, value
            return f"self.{name}"
        raise Unsupported(f"its data has a {type(value).__name__}, which is no tensor")

    def _name(self, wanted: str) -> str:
        name = identifier(wanted, self._taken)
        self._taken.add(name)
        return name


def _variable(node: ast.expr) -> str:
    """Return the name of a variable, also of `x` in `x.contiguous()`; empty for others."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        node = node.func.value
    return node.id if isinstance(node, ast.Name) and node.id != "torch" else ""


def _is_setting(value: object) -> bool:
    if isinstance(value, dict):
        return all(map(_is_setting, value.values()))
    if isinstance(value, list | tuple):
        return all(map(_is_setting, value))
    return isinstance(value, SETTINGS)
