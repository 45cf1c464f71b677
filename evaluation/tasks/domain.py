"""Domains: the configurations of an operator, and how cases are drawn from them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from evaluation.errors import TaskError
from evaluation.shapes import elements, extent, shape_of, tensor_bytes
from evaluation.tasks.expressions import Expression
from evaluation.types import Argument, Case, Split

_POWERS = (4, 6, 8, 10)
_ATTEMPTS, _MORE_ATTEMPTS = 200, 5000
"""Draws of a case, without and with conditions on its symbols."""


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


@dataclass(frozen=True)
class Domain:
    """Dtypes and ranges of the symbols, for cases with tensors of at most `max_bytes`.

    `derived` are sizes computed of other symbols, in order. `required` holds in every case.
    """

    dtypes: tuple[str, ...]
    symbols: Mapping[str, Range]
    arguments: tuple[Argument, ...]
    max_bytes: int
    derived: Mapping[str, Expression] = field(default_factory=dict)
    required: tuple[Expression, ...] = ()

    def with_derived(self, symbols: Mapping[str, int | float]) -> dict[str, int | float]:
        """Return symbols of a case with the derived ones. Raises ValueError."""
        values = dict(symbols)
        for name, expression in self.derived.items():
            values[name] = int(expression.value(values))
        return values

    def problem(self, symbols: Mapping[str, int | float]) -> str:
        """Return what is wrong with the symbols of a case; empty for a valid one."""
        for symbol, values in self.symbols.items():
            if not values.holds(symbols[symbol]):
                return f"{symbol} = {symbols[symbol]!r} lies outside the domain, {values}"
        try:
            known = self.with_derived(symbols)
            for expression in self.required:
                if not expression.value(known):
                    return f"{expression.text!r} does not hold"
        except ValueError as error:
            return str(error)
        for argument in self.arguments:
            for dimension in argument.shape:
                if extent(dimension, known) < 1:
                    return f"the dimension {dimension!r} of {argument.name} is not positive"
        return ""

    def fits(self, case: Case, share: int = 1) -> bool:
        """Return whether the tensors of a case take at most `max_bytes`, or a share of it."""
        return tensor_bytes(self.arguments, case) * share <= self.max_bytes

    def sample(
        self,
        random: Random,
        name: str,
        dtypes: Sequence[str] = (),
        max_elements: int | None = None,
    ) -> Case:
        """Draw a case of one of `dtypes` (default: any) of at most `max_elements`.

        A case that is too large is drawn again. After many such draws the smallest is returned,
        even where it has more elements. Raises: TaskError where it exceeds `max_bytes`.
        """
        dtype = random.choice(tuple(dtypes) or self.dtypes)
        for _ in range(_ATTEMPTS if not self.required else _MORE_ATTEMPTS):
            symbols = {s: r.draw(random) for s, r in self.symbols.items()}
            if self.problem(symbols):
                continue
            case = self._case(name, dtype, symbols)
            if self._fits(case, max_elements):
                return case
        symbols = {s: r.boundaries()[0] for s, r in self.symbols.items()}
        if problem := self.problem(symbols):
            raise TaskError(f"domain: no case was found, and of its least values {problem}")
        smallest = self._case(name, dtype, symbols)
        if not self.fits(smallest):
            raise TaskError(f"domain: even its smallest case is larger than {self.max_bytes} bytes")
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
        for i in range(max(map(len, lists), default=0)):
            # Lists start at different positions, so that small and large sizes are combined.
            starts = (i + j * len(values) // len(lists) for j, values in enumerate(lists))
            chosen = [values[s % len(values)] for s, values in zip(starts, lists, strict=True)]
            symbols = dict(zip(self.symbols, chosen, strict=True))
            if not self.problem(symbols):
                yield self._case(f"boundary-{i}", dtypes[i % len(dtypes)], symbols)

    def _case(self, name: str, dtype: str, symbols: Mapping[str, int | float]) -> Case:
        return Case(name, Split.SAMPLED, "sampled", dtype, self.with_derived(symbols))

    def _fits(self, case: Case, max_elements: int | None) -> bool:
        if not self.fits(case):
            return False
        if max_elements is None:
            return True
        # An interpreter runs the programs of a launch in turn: a thousand rows take seconds.
        longest = max((max(shape_of(a, case)) for a in self.arguments if a.shape), default=1)
        return elements(self.arguments, case) <= max_elements and longest * 32 <= max_elements
