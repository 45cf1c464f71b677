"""UNTRUSTED: calls of a function, recorded while the suite's test of it runs."""

from __future__ import annotations

import inspect
import math
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from evaluation.importers.sandboxed.observation import Unsupported

LISTS = (list, tuple, torch.Size)
SIZE_NAMES = ("normalized_shape", "num_classes", "num_features", "num_embeddings")
"""Arguments that name sizes of tensors."""


@dataclass(frozen=True)
class Tensors:
    """One tensor argument; `at` is its place in a list of tensors."""

    parameter: str
    at: int | None
    shape: tuple[int, ...]
    dtype: torch.dtype
    low: float
    high: float


@dataclass(frozen=True)
class Call:
    """One call of the function, by names of its parameters."""

    tensors: tuple[Tensors, ...]
    others: Mapping[str, Any]
    listed: frozenset[str]
    changed: frozenset[str]
    """Parameters whose tensors the function changed."""
    returned: bool

    @property
    def key(self) -> str:
        kinds = [(t.parameter, t.at, len(t.shape), str(t.dtype)) for t in self.tensors]
        others = {n: v for n, v in self.others.items() if n not in SIZE_NAMES}
        return repr((kinds, sorted(others.items(), key=repr), sorted(self.changed)))

    @property
    def elements(self) -> int:
        return sum(math.prod(t.shape) for t in self.tensors)


class _OnCpu(TorchFunctionMode):
    """A mode in which a test that names a GPU runs without one."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        named = dict(kwargs or {})
        if _is_gpu(named.get("device")):
            named["device"] = "cpu"
        if func is torch.Tensor.cuda:
            return args[0]
        if func is torch.Tensor.to:
            args = tuple("cpu" if _is_gpu(a) else a for a in args)
        return func(*args, **named)


def _is_gpu(value: Any) -> bool:
    return isinstance(value, str | torch.device) and str(value).startswith("cuda")


def recorded(function: str, test: str, name: str) -> tuple[list[Call], Callable[..., Any]]:
    """Return the calls that the test makes, and the function."""
    module = types.ModuleType("problem")
    exec(compile(function, "problem.py", "exec"), module.__dict__)
    known = {n: f for n, f in vars(module).items() if inspect.isfunction(f)}
    own = [n for n, f in known.items() if f.__module__ == "problem"]
    chosen = (
        name if name in known else next((n for n in own if n.lower().startswith(name.lower())), "")
    )
    called = known.get(chosen or (own[-1] if own else ""))
    if called is None:
        raise Unsupported(f"has no function {name}()")
    signature, calls = inspect.signature(called), []

    def recorder(*args: Any, **kwargs: Any) -> Any:
        try:
            bound = signature.bind(*args, **kwargs).arguments
            before = {id(x): x._version for x in _tensors_in(bound)}
            noted = {n: _copied(v) for n, v in bound.items()}
            result = called(*args, **kwargs)
        except Exception:
            return None
        changed = {
            n for n, v in bound.items() if any(before[id(x)] != x._version for x in _tensors_in(v))
        }
        with suppress(Unsupported):
            calls.append(_call(noted, frozenset(changed), result is not None))
        return result

    setattr(module, called.__name__, recorder)
    sys.modules["data_utils"] = _data_utils()
    torch.cuda.synchronize = lambda *args: None
    torch.manual_seed(1)
    reason = ""
    with _OnCpu():
        try:
            exec(
                compile(test, "test.py", "exec"),
                {**module.__dict__, "__file__": "/a/b/c/d.py"} | {called.__name__: recorder},
            )
        except Exception as error:
            reason = f"{type(error).__name__}: {str(error).strip()[:200]}"
    if not calls and reason:
        raise Unsupported(f"its test does not run: {reason}")
    return calls, called


def _data_utils() -> types.ModuleType:
    """Return the module of generators that tests of KernelBench-X import."""
    module = types.ModuleType("data_utils")

    def rand_tensor(
        shape: Sequence[int], *, dtype: torch.dtype = torch.float32, mode: str = "standard",
        low: float = -1.0, high: float = 1.0, **options: Any
    ) -> torch.Tensor:  # fmt: skip
        if mode == "uniform":
            return (high - low) * torch.rand(tuple(shape), dtype=dtype) + low
        return torch.randn(tuple(shape), dtype=dtype)

    def rand_int(
        shape: Sequence[int], *, low: int, high: int, dtype: torch.dtype = torch.int64,
        **options: Any
    ) -> torch.Tensor:  # fmt: skip
        return torch.randint(low, high, tuple(shape), dtype=dtype)

    def rand_bool(shape: Sequence[int], **options: Any) -> torch.Tensor:
        return torch.randint(0, 2, tuple(shape), dtype=torch.bool)

    vars(module).update(rand_tensor=rand_tensor, rand_int=rand_int, rand_bool=rand_bool)
    return module


def _tensors_in(value: Any) -> list[torch.Tensor]:
    if torch.is_tensor(value):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [x for each in value for x in _tensors_in(each)] if isinstance(value, LISTS) else []


def _copied(value: Any) -> Any:
    if torch.is_tensor(value):
        return value.detach().clone()
    return [_copied(v) for v in value] if isinstance(value, LISTS) and _tensors_in(value) else value


def _call(noted: Mapping[str, Any], changed: frozenset[str], returned: bool) -> Call:
    """Return a recorded call. Raises Unsupported."""
    tensors: list[Tensors] = []
    others: dict[str, Any] = {}
    listed = set()
    for name, value in noted.items():
        if torch.is_tensor(value):
            tensors.append(_tensor(name, None, value))
        elif isinstance(value, LISTS) and _tensors_in(value):
            if not all(torch.is_tensor(x) for x in value):
                raise Unsupported(f"{name} is a list of tensors and other things")
            listed.add(name)
            tensors += [_tensor(name, at, x) for at, x in enumerate(value)]
        elif name == "out":
            if value is not None:
                raise Unsupported("writes into `out`")
        else:
            others[name] = value
            written(value)
    if not tensors:
        raise Unsupported("no tensor is given")
    return Call(tuple(tensors), others, frozenset(listed), changed, returned)


def _tensor(name: str, at: int | None, value: torch.Tensor) -> Tensors:
    if value.is_complex():
        raise Unsupported(f"{name} has complex numbers")
    finite = value.double().nan_to_num(0.0, 0.0, 0.0)
    low, high = (float(finite.min()), float(finite.max())) if value.numel() else (0.0, 0.0)
    return Tensors(name, at, tuple(value.shape), value.dtype, low, high)


def written(value: Any) -> str:
    """Return a value as Python. Raises Unsupported."""
    if value is None or type(value) in (bool, int, float, str):
        if _is_gpu(value):
            raise Unsupported("names a device")
        if isinstance(value, float) and not math.isfinite(value):
            return f'float("{value}")'
        return repr(value)
    if isinstance(value, torch.dtype):
        return str(value)
    if isinstance(value, LISTS):
        return f"({''.join(f'{written(v)}, ' for v in value)})"
    raise Unsupported(f"takes a {type(value).__name__}")
