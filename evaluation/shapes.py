"""Shapes and dtypes of the tensors of a case, by the symbols of its task."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache

from evaluation.types import Argument, Case

ITEM_BYTES = {"float64": 8, "int64": 8, "float32": 4, "int32": 4, "float16": 2, "bfloat16": 2}
ITEM_BYTES |= {"int16": 2, "int8": 1, "uint8": 1, "bool": 1}
ITEM_BYTES |= {"float8_e4m3fn": 1, "float8_e5m2": 1}
WHOLE = ("int64", "int32", "int16", "int8", "uint8", "bool")
"""Dtypes without roundings."""
FAMILIES = ("nominal", "large", "tiny", "outliers", "shifted", "structured", "cancelling")
"""Families of input values (see `input_families`); timed inputs are of the first."""


def extent(dimension: str | int, symbols: Mapping[str, int | float]) -> int:
    """Return the size of one dimension: an integer, a symbol, or a product such as `2*hidden`."""
    size, names = _product(dimension)
    for name in names:
        size *= int(symbols[name])
    return size


@cache  # loading a task computes a thousand extents, all of a few dimensions
def _product(dimension: str | int) -> tuple[int, tuple[str, ...]]:
    """Return the product of the integers of a dimension, and its symbols."""
    found = factors(dimension)
    names = tuple(factor for factor in found if not factor.isdigit())
    return math.prod(int(factor) for factor in found if factor.isdigit()), names


def factors(dimension: str | int) -> tuple[str, ...]:
    """Return the integers and symbols whose product is a dimension."""
    return tuple(factor.strip() for factor in str(dimension).split("*"))


def symbols_of(arguments: Iterable[Argument]) -> tuple[str, ...]:
    """Return the symbols of all shapes, in order of first use."""
    used = (f for a in arguments for dimension in a.shape for f in factors(dimension))
    return tuple(dict.fromkeys(factor for factor in used if not factor.isdigit()))


def shape_of(argument: Argument, case: Case) -> tuple[int, ...]:
    return tuple(extent(dimension, case.symbols) for dimension in argument.shape)


def dtype_of(argument: Argument, case: Case) -> str:
    return case.dtype if argument.dtype == "dtype" else argument.dtype


def elements(arguments: Sequence[Argument], case: Case) -> int:
    """Return the number of elements of all tensors of a call."""
    return sum(count for _, count in _tensors(arguments, case))


def tensor_bytes(arguments: Sequence[Argument], case: Case) -> int:
    """Return the bytes of all tensors of a call."""
    return sum(ITEM_BYTES[dtype] * count for dtype, count in _tensors(arguments, case))


def _tensors(arguments: Sequence[Argument], case: Case) -> Iterator[tuple[str, int]]:
    """Yield the dtype and the number of elements of each tensor of a call."""
    for argument in arguments:
        if argument.role != "scalar":
            yield dtype_of(argument, case), math.prod(shape_of(argument, case))
