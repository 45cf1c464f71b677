"""Tests of pass rates and failure classes by category."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from arena.leaderboard.analysis.failures import Failures, failures

CLASSES = ("compile", "correctness")


def counted(rows: list[tuple[int, str, str]], speedups: list[float] | None = None) -> Failures:
    task, category, failure = zip(*rows, strict=True)
    values = speedups or [math.nan] * len(rows)
    return failures(np.array(task), category, failure, np.array(values), CLASSES)


def test_runs_are_counted_by_category_and_class() -> None:
    found = counted(
        [(1, "a", ""), (1, "a", "compile"), (2, "b", "correctness"), (2, "b", "correctness")],
    )
    assert found.classes == ["compile", "correctness"]
    first, second = found.categories
    assert (first.name, first.passed.count, first.passed.total, first.failed) == ("b", 0, 2, [0, 2])
    assert (second.name, second.passed.share, second.failed) == ("a", 0.5, [1, 0])
    assert first.slow is second.slow is None


def test_correct_runs_below_the_baseline_are_slow() -> None:
    rows = [(1, "a", ""), (2, "a", ""), (3, "a", ""), (4, "a", "compile")]
    [found] = counted(rows, [0.8, 1.2, math.nan, math.nan]).categories
    assert found.slow is not None
    assert (found.slow.count, found.slow.total) == (1, 2)


def test_association_is_cramers_v_of_the_failed_runs() -> None:
    rows = [(task, "ab"[task % 2], CLASSES[(task + task // 16) % 2]) for task in range(20)]
    found = counted([*rows, (99, "c", "")]).association
    assert found is not None
    table = np.array([[8, 2], [2, 8]])
    assert found.failed == 20
    assert found.cramers_v == pytest.approx(math.sqrt(stats.chi2_contingency(
        table, correction=False).statistic / 20))  # fmt: skip
    assert found.cramers_v == pytest.approx(0.6)
    assert 0.005 < found.p_value < 0.06  # Fisher's exact test has 0.023
    assert 0 < found.chance < found.cramers_v


def test_failures_of_few_tasks_are_not_significant_however_many_runs() -> None:
    """A hundred runs of two tasks say no more of their categories than two."""
    rows = [(task, "ab"[task], CLASSES[task]) for task in (0, 1) for _ in range(50)]
    found = counted(rows).association
    assert found is not None
    assert (found.cramers_v, found.p_value) == (pytest.approx(1.0), pytest.approx(1.0))


def test_failures_of_one_class_or_category_have_no_association() -> None:
    assert counted([(1, "a", "compile"), (2, "b", "compile")]).association is None
    assert counted([(1, "a", "compile"), (2, "a", "correctness")]).association is None
    assert counted([(1, "a", ""), (2, "b", "")]).association is None
