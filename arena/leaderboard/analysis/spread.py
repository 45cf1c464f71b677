"""The spread of one agent's speedup on one task across devices.

The speedup on each device is over that device's own baseline. Results on several devices are
compared where an agent passed the same version of a task on each of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arena.leaderboard.analysis.estimates import (
    CONFIDENCE,
    Estimate,
    NotEnough,
    Proportion,
    cross_table,
    geometric_mean,
    median,
    proportions,
)

MIN_CORRELATED = 4
"""The smallest sample for which a correlation has an interval."""


@dataclass(frozen=True)
class Pair:
    """Two devices, by their numbers, on the results that both have.

    `ratio` is the speedup on the first over that on the second. `correlation` is Pearson's, of the
    log speedups; None where it is undefined.
    """

    first: int
    second: int
    ratio: Estimate
    correlation: Estimate | None


@dataclass(frozen=True)
class Spread:
    """The results on two or more devices.

    The spread of a result is its highest speedup over its lowest: `median`, `quartiles` and, by
    category, `categories`. `mixed` counts those that are faster than the baseline on one device
    and slower on another.
    """

    devices: int
    median: Estimate
    quartiles: tuple[float, float]
    mixed: Proportion
    pairs: list[Pair]
    categories: list[tuple[str, Estimate]]


def spread(
    entry: NDArray[Any],
    device: NDArray[Any],
    log_speedup: NDArray[Any],
    category: Sequence[str] | NDArray[Any],
) -> Spread | NotEnough:
    """Compare devices, given a row for each timed run that passed.

    `entry` numbers the agent and version of a task, and `category` is that of the task. Repeats on
    one device are combined by their geometric mean.
    """
    entries, first_row, of_entry = np.unique(entry, return_index=True, return_inverse=True)
    devices, of_device = np.unique(device, return_inverse=True)
    shape = len(entries), len(devices)
    counts = cross_table(of_entry, of_device, shape)
    sums = cross_table(of_entry, of_device, shape, log_speedup)
    logs = np.divide(sums, counts, out=np.full(shape, np.nan), where=counts > 0)
    several = (~np.isnan(logs)).sum(axis=1) > 1
    if not several.any():
        return NotEnough(
            "No agent has passed one version of a task on two devices, so there is nothing to "
            "compare."
        )
    logs, names = logs[several], np.asarray(category, "O")[first_row][several]
    highest, lowest = np.nanmax(logs, axis=1), np.nanmin(logs, axis=1)
    ratios = np.exp(highest - lowest)
    low, high = np.quantile(ratios, [0.25, 0.75]).tolist()
    mixed = np.array([((highest > 0) & (lowest < 0)).sum()])
    by_category = [(name, median(ratios[names == name])) for name in sorted(set(names.tolist()))]
    middle = median(ratios)
    assert middle is not None
    return Spread(
        devices=int((~np.isnan(logs)).any(axis=0).sum()),
        median=middle,
        quartiles=(low, high),
        mixed=proportions(mixed, np.array([len(ratios)]))[0],
        pairs=_pairs(devices, logs),
        categories=sorted(
            [(name, found) for name, found in by_category if found], key=lambda pair: -pair[1].value
        ),
    )


def _pairs(devices: NDArray[Any], logs: NDArray[Any]) -> list[Pair]:
    """Return the pairs of devices that share a result, those with the most first."""
    found = []
    for first, second in combinations(range(len(devices)), 2):
        both = logs[~np.isnan(logs[:, [first, second]]).any(axis=1)][:, [first, second]]
        if ratio := geometric_mean(both[:, 0] - both[:, 1]):
            numbers = int(devices[first]), int(devices[second])
            found.append(Pair(*numbers, ratio, _correlation(both)))
    return sorted(found, key=lambda pair: -pair.ratio.count)


def _correlation(both: NDArray[Any]) -> Estimate | None:
    from scipy import stats

    if len(both) < MIN_CORRELATED or not np.ptp(both, axis=0).all():
        return None
    tested = stats.pearsonr(both[:, 0], both[:, 1])
    ends = tested.confidence_interval(CONFIDENCE)
    return Estimate(len(both), float(tested.statistic), float(ends.low), float(ends.high))
