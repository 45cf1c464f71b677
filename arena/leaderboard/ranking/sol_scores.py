"""SOL scores: how much of the time above the limit of the hardware a kernel leaves.

With the times of baseline, kernel and limit, the score is (baseline - limit) / (baseline - limit +
kernel - limit): 0.5 at the speed of the baseline, 1 at the limit. The limit is the measured
roofline, and the baseline the fastest of its task, both over the public cases.

Source: the score of SOL-ExecBench, 2026, whose limit is computed instead of measured.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from arena.leaderboard.ranking.columns import Columns

PARITY = 0.5
"""Score of a kernel as fast as the baseline."""


def sol_gains(
    rows: Columns, seen: NDArray[np.float64], unseen: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the SOL score of each run less PARITY, and the distances to both ends of its interval.

    `seen` and `unseen` have the middles and the half widths of the log speedups. A run gains 0
    unless its kernel is surely faster than the baseline by both, and has a measured roofline.
    """
    middle, below, above = seen
    share = np.where(rows["roofline_share"] > 0, rows["roofline_share"], np.nan)
    of_baseline = share / np.exp(middle)
    score, low, high = (
        _scores(of_baseline, np.exp(end)) for end in (middle, middle - below, middle + above)
    )
    faster = (middle > below) & (unseen[0] > unseen[1]) & ~np.isnan(score)  # False where it is NaN
    return np.where(faster, [score - PARITY, score - low, high - score], 0.0)


def _scores(of_baseline: NDArray[np.float64], speedup: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the score of a speedup over a baseline with that share of the roofline.

    A time below the limit, which is measured with an error, counts as the limit.
    """
    baseline = np.maximum(1.0 / of_baseline - 1.0, 0.0)
    kernel = np.maximum(1.0 / (of_baseline * speedup) - 1.0, 0.0)
    both = baseline + kernel
    return np.where(both == 0.0, 1.0, baseline / np.where(both == 0.0, 1.0, both))
