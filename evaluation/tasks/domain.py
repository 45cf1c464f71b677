"""Domains: the configurations of an operator, and how cases are drawn from them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random

from evaluation.errors import TaskError
from evaluation.types import Argument, Case, Split

ITEM_BYTES = {"float64": 8, "int64": 8, "float32": 4, "int32": 4, "float16": 2, "bfloat16": 2}
ITEM_BYTES |= {"int8": 1}
_POWERS = (4, 6, 8, 10)
_ATTEMPTS = 200


@dataclass(frozen=True)
class Choices:
    """A symbol with a few values, all equally likely."""

    values: tuple[int | float, ...]

    def draw(self, random: Random) -> int | float:
        return random.choice(self.values)

    def boundaries(self) -> tuple[int | float, ...]:
        return tuple(sorted(self.values))

    def holds(self, value: int | float) -> bool:
        return value in self.values


@dataclass(frozen=True)
class LogUniform:
    """A size from `low` to `high`: every doubling equally likely, half of the draws odd."""

    low: int
    high: int
    multiple_of: int = 1

    def draw(self, random: Random) -> int:
        size = round(math.exp(random.uniform(math.log(self.low), math.log(self.high))))
        if self.multiple_of == 1 and random.random() < 0.5:
            size |= 1
        return self._fit(size)

    def boundaries(self) -> tuple[int, ...]:
        """Return sizes at which masks, vectors and tiles fail: 1, 3, 7 and around powers of two."""
        around = (2**k + step for k in _POWERS for step in (-1, 0, 1))
        return tuple(size for size in (1, 3, 7, *around) if self.holds(size)) or (
            self._fit(self.low),
        )

    def holds(self, value: int | float) -> bool:
        return self.low <= value <= self.high and value % self.multiple_of == 0

    def _fit(self, size: int) -> int:
        size = min(max(size, self.low), self.high)
        return max(size // self.multiple_of * self.multiple_of, self.multiple_of)


Range = Choices | LogUniform


def extent(dimension: str | int, symbols: Mapping[str, int | float]) -> int:
    """Return the size of one dimension: an integer, a symbol, or a product such as `2*hidden`."""
    return math.prod(
        int(factor) if factor.isdigit() else int(symbols[factor]) for factor in factors(dimension)
    )


def factors(dimension: str | int) -> tuple[str, ...]:
    """Return the integers and symbols whose product is a dimension."""
    return tuple(factor.strip() for factor in str(dimension).split("*"))


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


@dataclass(frozen=True)
class Domain:
    """Dtypes and ranges of the symbols, for cases with tensors of at most `max_bytes`."""

    dtypes: tuple[str, ...]
    symbols: Mapping[str, Range]
    arguments: tuple[Argument, ...]
    max_bytes: int

    def sample(
        self,
        random: Random,
        name: str,
        dtypes: Sequence[str] = (),
        max_elements: int | None = None,
    ) -> Case:
        """Draw a case of one of `dtypes` (default: any) of at most `max_elements`.

        A case that is too large is drawn again. After many such draws the smallest is returned.

        Raises: TaskError where even that is too large.
        """
        dtype = random.choice(tuple(dtypes) or self.dtypes)
        for _ in range(_ATTEMPTS):
            case = self._case(name, dtype, {s: r.draw(random) for s, r in self.symbols.items()})
            if self._fits(case, max_elements):
                return case
        smallest = self._case(name, dtype, {s: r.boundaries()[0] for s, r in self.symbols.items()})
        if not self._fits(smallest, max_elements):
            raise TaskError(
                f"domain: even its smallest case is larger than {max_elements} elements"
            )
        return smallest

    def boundaries(
        self, dtypes: Sequence[str] = (), max_elements: int | None = None
    ) -> tuple[Case, ...]:
        """Return public cases that together have every boundary value of every symbol."""
        return tuple(
            replace(case, split=Split.SEEN, kind="boundary")
            for case in self._boundary_cases(tuple(dtypes) or self.dtypes)
            if self._fits(case, max_elements)
        )

    def _boundary_cases(self, dtypes: Sequence[str]) -> Iterator[Case]:
        lists = [r.boundaries() for r in self.symbols.values()]
        for i in range(max(map(len, lists))):
            # Lists start at different positions, so that small and large sizes are combined.
            starts = (i + j * len(values) // len(lists) for j, values in enumerate(lists))
            chosen = [values[s % len(values)] for s, values in zip(starts, lists, strict=True)]
            symbols = dict(zip(self.symbols, chosen, strict=True))
            yield self._case(f"boundary-{i}", dtypes[i % len(dtypes)], symbols)

    def _case(self, name: str, dtype: str, symbols: Mapping[str, int | float]) -> Case:
        return Case(name, Split.SAMPLED, "sampled", dtype, symbols)

    def _fits(self, case: Case, max_elements: int | None) -> bool:
        if tensor_bytes(self.arguments, case) > self.max_bytes:
            return False
        if max_elements is None:
            return True
        # An interpreter runs the programs of a launch in turn: a thousand rows take seconds.
        longest = max(max(shape_of(a, case)) for a in self.arguments if a.shape)
        return elements(self.arguments, case) <= max_elements and longest * 32 <= max_elements
