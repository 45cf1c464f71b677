"""Pass rates and failure classes by category, where each run counts once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arena.leaderboard.analysis.estimates import SEED, Proportion, cross_table, proportions

PERMUTATIONS = 299


@dataclass(frozen=True)
class Category:
    """One category: its pass rate, its failed runs by class, and its correct but slow runs.

    `slow` is the share of the timed runs that passed but are slower than the baseline on held-out
    cases; None where none was timed.
    """

    name: str
    passed: Proportion
    failed: list[int]
    slow: Proportion | None


@dataclass(frozen=True)
class Association:
    """The dependence of the failure class on the category, over failed runs.

    `cramers_v` is 0 for none and 1 for the strongest; `chance` is its mean over permutations, and
    `p_value` the share of them that are as strong.
    """

    failed: int
    cramers_v: float
    chance: float
    p_value: float


@dataclass(frozen=True)
class Failures:
    """The categories, lowest pass rate first, and the classes that their counts are of.

    `association` is None where the failed runs are of one category or of one class.
    """

    classes: list[str]
    categories: list[Category]
    association: Association | None


def failures(
    task: NDArray[Any],
    category: Sequence[str] | NDArray[Any],
    failure: Sequence[str] | NDArray[Any],
    speedup: NDArray[Any],
    classes: Sequence[str],
) -> Failures:
    """Count runs by category and failure class, one of `classes`, or "" for a run that passed.

    There must be a run. `speedup` is that on held-out cases; NaN for a run that failed or was not
    timed.
    """
    names, of_category = np.unique(np.asarray(category, "U"), return_inverse=True)
    numbers = {name: number for number, name in enumerate(("", *classes))}
    of_class = np.array([numbers[name] for name in np.asarray(failure, "O").tolist()], int)
    shape = len(names), len(numbers)
    table = cross_table(of_category, of_class, shape)
    timed = (of_class == 0) & (speedup > 0)
    timed_counts = np.bincount(of_category[timed], minlength=shape[0])
    slow_counts = np.bincount(of_category[timed & (speedup < 1)], minlength=shape[0])
    some = timed_counts > 0
    slow = dict(
        zip(names[some].tolist(), proportions(slow_counts[some], timed_counts[some]), strict=True)
    )
    rates = proportions(table[:, 0], table.sum(axis=1))
    rows = zip(names.tolist(), rates, table[:, 1:].tolist(), strict=True)
    categories = [Category(name, rate, counts, slow.get(name)) for name, rate, counts in rows]
    categories.sort(key=lambda row: (row.passed.share, row.name))
    failed = of_class > 0
    found = association(task[failed], of_category[failed], of_class[failed])
    return Failures(list(classes), categories, found)


def association(
    task: NDArray[Any], of_category: NDArray[Any], of_class: NDArray[Any]
) -> Association | None:
    """Return the dependence of class on category, given task and both numbers of each failed run.

    The null permutes the categories among the tasks, since the runs of one task depend on each
    other.
    """
    from scipy import stats

    tasks, of_task = np.unique(task, return_inverse=True)
    of_class = np.unique(of_class, return_inverse=True)[1]
    category = np.zeros(len(tasks), int)
    category[of_task] = np.unique(of_category, return_inverse=True)[1]
    if not len(task) or not category.any() or not of_class.any():
        return None
    shape = len(tasks), int(of_class.max()) + 1
    counts = cross_table(of_task, of_class, shape)

    def strength(shuffled: NDArray[Any]) -> float:
        members = np.eye(int(category.max()) + 1, dtype=int)[shuffled.astype(int)]
        return float(stats.contingency.association(members.T @ counts, method="cramer"))

    tested = stats.permutation_test(
        (category,),
        strength,
        permutation_type="pairings",
        n_resamples=PERMUTATIONS,
        alternative="greater",
        rng=np.random.default_rng(SEED),
    )
    null = tested.null_distribution
    return Association(len(task), float(tested.statistic), float(null.mean()), float(tested.pvalue))
