"""UNTRUSTED: tensors of one call, observed without data, for any choice of sizes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

Sizes = Mapping[str, int]


class Unsupported(Exception):
    """Raised for a problem that cannot become a task; the message says why."""


class Random(Unsupported):
    """Raised for a problem of which two calls with the same inputs differ."""


@dataclass(frozen=True)
class Observed:
    """Shapes of a call. `arguments` are inputs and weights, by name."""

    arguments: dict[str, tuple[int, ...]]
    outputs: tuple[tuple[int, ...], ...]

    @property
    def dimensions(self) -> dict[tuple[str, int], int]:
        """Return the size of each dimension, by tensor and position."""
        tensors = {**self.arguments, **{f"({n})": s for n, s in enumerate(self.outputs)}}
        return {(name, at): size for name, s in tensors.items() for at, size in enumerate(s)}

    @property
    def ranks(self) -> tuple[int, ...]:
        return tuple(len(s) for s in (*self.arguments.values(), *self.outputs))


class Problem(Protocol):
    """A problem of a suite whose sizes can be changed."""

    sizes: dict[str, int]
    """Sizes that may be varied, with their published values."""

    def observe(self, sizes: Sizes) -> Observed:
        """Run the problem on tensors without data. Raises an exception where it cannot run."""
