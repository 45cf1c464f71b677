"""Estimates with 95% intervals: shares, geometric means and medians."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

CONFIDENCE = 0.95
SEED = 20251124
"""Of every resampling, so that the same runs give the same figures."""
RESAMPLES = 999
MIN_RESAMPLED = 10
"""The smallest sample whose bootstrap interval is shown."""


@dataclass(frozen=True)
class NotEnough:
    """The reason why a figure cannot be computed, as a sentence for the page."""

    reason: str


@dataclass(frozen=True)
class Proportion:
    """A share of `total` independent runs, with its interval after Wilson."""

    count: int
    total: int
    low: float
    high: float

    @property
    def share(self) -> float:
        return self.count / self.total


@dataclass(frozen=True)
class Estimate:
    """A figure of `count` values; without an interval where these are too few."""

    count: int
    value: float
    low: float | None
    high: float | None


def cross_table(
    rows: NDArray[Any],
    columns: NDArray[Any],
    shape: tuple[int, int],
    weights: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Count the pairs of these numbers of rows and columns, or add up the weights of each pair."""
    cells = np.bincount(rows * shape[1] + columns, weights, minlength=shape[0] * shape[1])
    return np.asarray(cells.reshape(shape))


def proportions(counts: NDArray[Any], totals: NDArray[Any]) -> list[Proportion]:
    """Return the shares `counts / totals`; every total must be positive."""
    from statsmodels.stats.proportion import proportion_confint

    low, high = proportion_confint(counts, totals, alpha=1 - CONFIDENCE, method="wilson")
    columns = (np.asarray(column).tolist() for column in (counts, totals, low, high))
    return [Proportion(*values) for values in zip(*columns, strict=True)]


def geometric_mean(logs: NDArray[Any]) -> Estimate | None:
    """Return the geometric mean of values with these logs, its interval by Student's t.

    NaN stands for a missing value; None without any value.
    """
    from scipy import stats

    known = logs[~np.isnan(logs)]
    if not len(known):
        return None
    mean = float(known.mean())
    if len(known) < 2 or not np.ptp(known):
        return Estimate(len(known), float(np.exp(mean)), None, None)
    found = stats.ttest_1samp(known, 0.0).confidence_interval(CONFIDENCE)
    return Estimate(len(known), *np.exp([mean, found.low, found.high]).tolist())


def ratio_of_means(logs: NDArray[Any], others: NDArray[Any]) -> Estimate | None:
    """Return the ratio of two geometric means, its interval after Welch; `count` is of both.

    None where a sample has fewer than two values.
    """
    from scipy import stats

    one, two = logs[~np.isnan(logs)], others[~np.isnan(others)]
    if min(len(one), len(two)) < 2:
        return None
    count, ratio = len(one) + len(two), float(np.exp(one.mean() - two.mean()))
    if not np.ptp(one) and not np.ptp(two):
        return Estimate(count, ratio, None, None)
    found = stats.ttest_ind(one, two, equal_var=False).confidence_interval(CONFIDENCE)
    return Estimate(count, ratio, *np.exp([found.low, found.high]).tolist())


def median(values: NDArray[Any]) -> Estimate | None:
    """Return the median, its interval by the bootstrap; None without any value."""
    if not len(values):
        return None
    low, high = bootstrap(values, np.median) if len(values) >= MIN_RESAMPLED else (None, None)
    return Estimate(len(values), float(np.median(values)), low, high)


def bootstrap(
    values: NDArray[Any], statistic: Callable[..., Any], method: str = "percentile"
) -> tuple[float | None, float | None]:
    """Return the bootstrap interval of `statistic(values, axis)`; nothing where it has none."""
    from scipy import stats

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", stats.DegenerateDataWarning)
        found = stats.bootstrap(
            (values,),
            statistic,
            n_resamples=RESAMPLES,
            confidence_level=CONFIDENCE,
            method=method,
            rng=np.random.default_rng(SEED),
        )
    ends = found.confidence_interval
    if np.isnan(ends.low) or np.isnan(ends.high):
        return None, None
    return float(ends.low), float(ends.high)
