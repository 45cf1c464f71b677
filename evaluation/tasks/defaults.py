"""Loading of a `reference.py`, and defaults for the functions that it leaves out."""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

import torch

from evaluation.errors import TaskError, line_of
from evaluation.shapes import dtype_of, shape_of
from evaluation.tasks.float64 import lifted
from evaluation.tasks.input_families import InputGenerator
from evaluation.tasks.operation_count import counted_cost
from evaluation.tasks.roundings import size_of_roundings
from evaluation.types import Argument, Case, Comparison

WHOLE_BOUNDS = {"bool": (0, 2), "uint8": (0, 256), "int8": (-128, 128)}
OTHER_BOUNDS = (-1000, 1000)
_seeds: ContextVar[Random | None] = ContextVar("seeds of roundings", default=None)

CHECKS = {Comparison.PROPERTY: "check", Comparison.DISTRIBUTION: "distribution"}
"""Functions of a reference that comparisons need."""


@contextmanager
def fixed_seeds(seed: int) -> Iterator[None]:
    """Disturb roundings by random numbers from `seed` meanwhile, so that a fit can be repeated.

    A judge takes secret ones.
    """
    token = _seeds.set(Random(seed))
    try:
        yield
    finally:
        _seeds.reset(token)


def _seed() -> int:
    seeds = _seeds.get()
    return secrets.randbits(63) if seeds is None else seeds.getrandbits(63)


def load_reference(text: str, path: Path, arguments: tuple[Argument, ...]) -> ModuleType:
    """Run the text of a `reference.py`, and complete it. Raises TaskError that names `path`."""
    module = ModuleType(f"reference_of_{path.parent.name}")
    try:
        exec(compile(text, path, "exec"), module.__dict__)
    except Exception as error:
        found = line_of(error, path) or f"{type(error).__name__}: {error}"
        raise TaskError(f"{path}: {found}") from error
    if not callable(getattr(module, "reference", None)):
        raise TaskError(f"{path}: reference: missing; define this function")
    complete(module, arguments, path)
    return module


def complete(module: ModuleType, arguments: tuple[Argument, ...], path: Path) -> None:
    """Give a module the functions that it has not: magnitude, reduction, inputs and cost.

    `exact` is the reference as the judge calls it with float64 tensors. Without a hand-written
    `magnitude`, it lifts the casts of the reference.
    """
    defined = module.__dict__
    reference = defined["reference"]
    outputs = [argument for argument in arguments if argument.role == "output"]
    rounded = [n for n, output in enumerate(outputs) if output.compare == Comparison.ROUNDED]
    for comparison, function in CHECKS.items():
        if any(output.compare == comparison for output in outputs) and function not in defined:
            raise TaskError(f"{path}: {function}: missing; define it for compare = {comparison!r}")
    if "magnitude" not in defined:
        exact = defined["exact"] = lifted(reference)

        def magnitude(**given: Any) -> tuple[torch.Tensor, ...]:
            tensor = next(value for value in given.values() if torch.is_tensor(value))
            generator = torch.Generator(tensor.device).manual_seed(_seed())
            return size_of_roundings(exact, given, generator, rounded)

        defined["magnitude"] = magnitude
        defined["reduction"] = lambda case: 1
    else:
        defined["exact"] = reference
        if "reduction" not in defined:
            raise TaskError(f"{path}: reduction: missing; define it beside magnitude")
    if "inputs" not in defined:
        activations = tuple(a for a in arguments if not a.parameter)
        defined["inputs"] = lambda case, draw: drawn(arguments, case, draw)
        defined["activations"] = lambda case, draw: drawn(activations, case, draw)
    else:
        defined["activations"] = defined["inputs"]
    if "cost" not in defined:
        defined["cost"] = _Cost(reference, arguments, path)


class _Cost:
    """The counted cost of each case, which is counted once."""

    def __init__(
        self, reference: Callable[..., Any], arguments: tuple[Argument, ...], path: Path
    ) -> None:
        self._reference, self._arguments, self._path = reference, arguments, path
        self._known: dict[tuple[object, ...], tuple[int, int]] = {}

    def __call__(self, case: Case) -> tuple[int, int]:
        key = (case.dtype, *case.symbols.items())
        if key not in self._known:
            try:
                found = counted_cost(self._reference, self._arguments, case)
            except Exception as error:  # the reference is the author's
                raise TaskError(
                    f"{self._path}: its operations cannot be counted on tensors without data"
                    f" ({type(error).__name__}: {error}); define cost(case)"
                ) from error
            self._known[key] = found
        return self._known[key]


def drawn(
    arguments: tuple[Argument, ...], case: Case, draw: InputGenerator
) -> dict[str, torch.Tensor]:
    """Return inputs as `task.toml` describes them: by range, by scale, or normal."""
    return {a.name: _values(a, case, draw) for a in arguments if a.role == "input"}


def _values(argument: Argument, case: Case, draw: InputGenerator) -> torch.Tensor:
    shape, dtype = shape_of(argument, case), dtype_of(argument, case)
    whole = not getattr(torch, dtype).is_floating_point
    if not argument.bounds and not whole:
        return draw.normal(shape, argument.scale)
    low, high = bounds_of(argument, case) or WHOLE_BOUNDS.get(dtype, OTHER_BOUNDS)
    if whole:
        return draw.integers(shape, math.ceil(low), math.ceil(high)).to(getattr(torch, dtype))
    return draw.uniform(shape, low, high)


def bounds_of(argument: Argument, case: Case) -> tuple[float, float] | None:
    """Return the range that an input is drawn from; None for an argument without one."""
    if not argument.bounds:
        return None
    low, high = (case[b] if isinstance(b, str) else b for b in argument.bounds)
    return float(low), float(high)
