"""UNTRUSTED: replacement of a class of modules in a model by a candidate's, with the same weights.

Runs in the judge too, to find classes that can be replaced.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from evaluation.errors import SubmissionError
from evaluation.types import Reason

MODEL = "ModelNew"


@dataclass
class Calls:
    """Constructor arguments of each module that was made while they were recorded."""

    made: dict[int, tuple[tuple[Any, ...], dict[str, Any]]] = field(default_factory=dict)
    kept: list[nn.Module] = field(default_factory=list)
    """The modules, so that no id is used twice."""

    def of(self, module: nn.Module) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        return self.made.get(id(module))


@contextmanager
def recorded(classes: Iterable[type[nn.Module]]) -> Iterator[Calls]:
    """Record the constructor arguments of modules of exactly these classes."""
    calls = Calls()
    inherited: list[type[nn.Module]] = []
    replaced: list[tuple[type[nn.Module], Any]] = []
    for cls in classes:
        if "__init__" in vars(cls):
            replaced.append((cls, cls.__init__))
        else:
            inherited.append(cls)
    for cls in (*inherited, *(cls for cls, _ in replaced)):
        cls.__init__ = _recording(cls, cls.__init__, calls)  # type: ignore[method-assign]
    try:
        yield calls
    finally:
        for cls, original in replaced:
            cls.__init__ = original  # type: ignore[method-assign]
        for cls in inherited:
            del cls.__init__


def _recording(cls: type[nn.Module], original: Any, calls: Calls) -> Any:
    @functools.wraps(original)
    def init(self: nn.Module, *args: Any, **kwargs: Any) -> None:
        if type(self) is cls:
            calls.made[id(self)] = args, kwargs
            calls.kept.append(self)
        original(self, *args, **kwargs)

    return init


def places(model: nn.Module, cls: type[nn.Module]) -> list[str]:
    """Return the dotted paths of all modules of exactly this class, each shared one once."""
    return [name for name, module in model.named_modules() if type(module) is cls and name]


def rebuilt(module: nn.Module, calls: Calls, new: Callable[..., nn.Module]) -> nn.Module:
    """Return `new` made with the arguments of `module`, with its weights shared, not copied.

    Raises: SubmissionError where the weights differ in names, shapes or dtypes.
    """
    made = calls.of(module)
    if made is None:
        raise LookupError(f"the construction of {type(module).__name__} was not recorded")
    args, kwargs = made
    fresh = new(*args, **kwargs)
    if not isinstance(fresh, nn.Module):
        raise SubmissionError(Reason.CALL_ERROR, f"`{MODEL}` must be a torch.nn.Module")
    want, got = module.state_dict(), fresh.state_dict()
    if missing := sorted(set(want) ^ set(got)):
        raise SubmissionError(
            Reason.WRONG_SHAPE,
            f"state_dict of `{MODEL}` and of the library's module differ in {', '.join(missing)}",
        )
    for name, value in want.items():
        if got[name].shape != value.shape:
            raise SubmissionError(
                Reason.WRONG_SHAPE,
                f"{name} has shape {tuple(got[name].shape)}; the library's {tuple(value.shape)}",
            )
    device = next((value.device for value in want.values()), None)
    if device is not None:
        fresh.to(device)  # buffers that are not in the state_dict
    fresh.load_state_dict(want, strict=True, assign=True)
    _take_buffers(fresh, module)
    fresh.train(module.training)
    return fresh


def _take_buffers(fresh: nn.Module, module: nn.Module) -> None:
    """Give buffers outside the state_dict the dtype of the original's."""
    originals = dict(module.named_buffers())
    for name, buffer in fresh.named_buffers():
        original = originals.get(name)
        if original is not None and buffer.dtype != original.dtype:
            buffer.data = buffer.data.to(original.dtype)


def check_interface(new: type[nn.Module], library: type[nn.Module]) -> None:
    """Require the library's parameters of `__init__` and `forward`. Raises SubmissionError."""
    for method in ("__init__", "forward"):
        want, got = _names(getattr(library, method)), _names(getattr(new, method))
        if got != want and "*" not in got:
            raise SubmissionError(
                Reason.CALL_ERROR,
                f"`{MODEL}.{method}` takes ({', '.join(got)}); "
                f"the library's takes ({', '.join(want)})",
            )
    if issubclass(new, library):
        raise SubmissionError(
            Reason.FORBIDDEN, f"`{MODEL}` must not inherit from the class that it replaces"
        )


def _names(function: Callable[..., Any]) -> list[str]:
    parameters = list(inspect.signature(function).parameters.values())
    variable = (inspect.Parameter.VAR_POSITIONAL,)
    return ["*" if p.kind in variable else p.name for p in parameters]


def replace(model: nn.Module, path: str, module: nn.Module) -> None:
    """Put a module at a dotted path of a model."""
    parent, _, name = path.rpartition(".")
    owner = model.get_submodule(parent) if parent else model
    if isinstance(owner, nn.ModuleDict):
        owner[name] = module
    else:
        setattr(owner, name, module)


def swap(
    model: nn.Module, calls: Calls, library: type[nn.Module], new: Callable[..., nn.Module]
) -> list[str]:
    """Replace every module of a class, and return their paths. Raises SubmissionError."""
    found = places(model, library)
    if not found:
        raise LookupError(f"the model has no {library.__name__}")
    for path in found:
        replace(model, path, rebuilt(model.get_submodule(path), calls, new))
    return found
