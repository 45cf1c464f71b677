"""fast_p as a curve: the share of tasks with a correct kernel that is faster than p."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from arena.leaderboard.ranking.columns import Columns
from arena.leaderboard.ranking.rankings import counted

MIN_P, MAX_P = 0.25, 8.0
"""Ends of the axis, which is logarithmic."""
WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 720, 220, 40, 26, 8, 12
TICKS = (0.25, 0.5, 0.8, 1.0, 1.5, 2.0, 3.0, 5.0, 8.0)
MINOR_TICKS = (0.8, 1.5, 3.0)
"""Ticks without a label where the axis is narrow."""


@dataclass(frozen=True)
class Curve:
    """fast_p of one agent: its speedups, the greatest first, and the sum of shares up to each."""

    speedups: tuple[float, ...]
    shares: tuple[float, ...]

    def at(self, p: float) -> float:
        """Return the share of tasks with a kernel that is faster than p."""
        above = sum(speedup > p for speedup in self.speedups)
        return self.shares[above - 1] if above else 0.0

    def path(self, top: float) -> str:
        """Return the steps, from the right, as a path of a drawing whose highest share is `top`.

        Of the steps at one position the last is drawn, the highest.
        """
        speedups, shares = np.array(self.speedups), np.array(self.shares)
        inside = (speedups > MIN_P) & (speedups < MAX_P)
        at = np.round(_along(speedups[inside]))
        last = np.append(at[1:] != at[:-1], True)[: len(at)]
        steps = zip(at[last].astype(int).tolist(), shares[inside][last].tolist(), strict=True)
        drawn = "".join(f"H{x}V{y_of(share, top)}" for x, share in steps)
        return f"M{x_of(MAX_P)} {y_of(self.at(MAX_P), top)}{drawn}H{LEFT}"


def x_of(p: float) -> float:
    """Return the position of a speedup on the axis."""
    return round(float(_along(np.array(min(max(p, MIN_P), MAX_P)))), 1)


def _along(p: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the exact positions of speedups between the ends of the axis."""
    share = np.log(p / MIN_P) / math.log(MAX_P / MIN_P)
    return np.asarray(LEFT + share * (WIDTH - LEFT - RIGHT))


def y_of(share: float, top: float) -> float:
    """Return the height of a share in a drawing whose highest share is `top`."""
    return round(HEIGHT - BOTTOM - share / top * (HEIGHT - BOTTOM - TOP), 1)


def levels(top: float) -> list[float]:
    """Return the shares that a drawing marks: round ones up to `top`, two to four of them.

    Of a `top` below two percent it is that alone, since labels are whole percents.
    """
    if top < 0.02:
        return [top]
    decade = 10.0 ** math.floor(math.log10(top / 2))
    step = max(factor * decade for factor in (1, 2, 5) if factor * decade <= top / 2 * (1 + 1e-9))
    return [round(number * step, 9) for number in range(int(top / step + 1e-9), 0, -1)]


def curves(rows: Columns, tasks: Collection[int], name: str) -> dict[int, Curve]:
    """Return the curve of each agent of these runs, by its id, over a set of tasks.

    `name` is the column of the speedup. Repeats of a task share its weight, and a task without a
    passed and timed run is never fast.
    """
    rows = rows.among(counted(rows, tasks))
    found = {}
    for pk in np.unique(rows["agent"]).tolist():
        own = rows.among(rows["agent"] == pk)
        _, of_row, repeats = np.unique(own["task"], return_inverse=True, return_counts=True)
        weights = 1.0 / (repeats[of_row.reshape(-1)] * len(tasks))
        speedups = np.where(own["passed"], np.nan_to_num(own[name], nan=0.0), 0.0)
        order = np.argsort(-speedups, kind="stable")[: int((speedups > 0).sum())]
        shares = np.cumsum(weights[order])
        found[pk] = Curve(tuple(speedups[order].tolist()), tuple(shares.tolist()))
    return found
