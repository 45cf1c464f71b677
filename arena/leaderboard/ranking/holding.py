"""Results by how they hold on hidden sizes, and rows in which only some count as solved."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from arena.leaderboard.ranking.columns import Columns
from arena.leaderboard.ranking.filters import KEPT, RIGHT, SPECIALISED
from arena.runs.scoring.hidden import MIN_RETAINED


def holding(rows: Columns, holds: str) -> NDArray[Any]:
    """Return which rows are of a class of `filters.HOLDS`.

    A specialised one was timed on the public sizes and did not pass: it is wrong on a hidden one.
    """
    if holds == RIGHT:
        return rows["passed"]
    if holds == KEPT:
        with np.errstate(invalid="ignore"):
            retained = rows["unseen_speedup"] >= MIN_RETAINED * rows["speedup"]
        return np.asarray(rows["passed"] & retained)
    if holds == SPECIALISED:
        return np.asarray(~rows["passed"] & (rows["speedup"] > 0))
    return np.ones(len(rows), bool)


def only_holding(rows: Columns, holds: str) -> Columns:
    """Return the rows in which those of one class alone count as passed."""
    return rows.having("passed", holding(rows, holds)) if holds else rows


def counts(rows: Columns) -> dict[str, int]:
    """Return the number of rows of each class."""
    return {name: int(holding(rows, name).sum()) for name in (RIGHT, KEPT, SPECIALISED)}
