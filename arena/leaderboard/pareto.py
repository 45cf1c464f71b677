"""The Pareto front: what no other beats both in spending and in speed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


def pareto_front(
    found: Iterable[T], place: Callable[[T], tuple[float, float]]
) -> list[tuple[T, bool]]:
    """Return all, those that spend least first, each with whether it is on the front.

    `place` returns what one spends and its speedup. One is on the front if no other spends at most
    as much and is at least as fast; of equal ones the first is.
    """
    ordered: list[tuple[T, bool]] = []
    fastest = 0.0
    placed = [(*place(one), one) for one in found]
    for _, speedup, one in sorted(placed, key=lambda each: (each[0], -each[1])):
        ordered.append((one, speedup > fastest))
        fastest = max(fastest, speedup)
    return ordered
