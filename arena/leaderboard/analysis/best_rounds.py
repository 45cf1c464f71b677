"""The best round of a run so far, by the rule of `runs.scoring.best`, for columns of many runs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

MAX_ROUNDS = 30
"""Rounds that figures by round show."""


def best_so_far(of_run: NDArray[Any], counts: NDArray[Any], low: NDArray[Any]) -> NDArray[Any]:
    """Return the position of the best round of its run so far, for each round; -1 for none.

    Rounds come by run, then by number. Of those that `counts` the best has the highest lower bound,
    and of equals it is the latest.
    """
    by_low = np.argsort(low, kind="stable")
    place = np.empty(len(low), int)
    place[by_low] = np.arange(1, len(low) + 1)
    offset = of_run * (len(low) + 1)
    reached = np.maximum.accumulate(offset + np.where(counts, place, 0)) - offset
    return np.where(reached > 0, by_low[reached - 1], -1)
