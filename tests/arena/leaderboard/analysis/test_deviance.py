"""Tests of the explained deviance of correctness."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from arena.leaderboard.analysis.deviance import Deviance, deviance, explained_deviance
from arena.leaderboard.analysis.estimates import NotEnough

Columns = tuple[Any, Any, Any, Any]


def crossed(rate: Any, tasks: int = 40, agents: int = 6, categories: int = 4) -> Columns:
    """Return runs of every agent on every task; `rate(category, agent)` is their chance to pass."""
    task, agent = (index.ravel() for index in np.indices((tasks, agents)))
    category = task % categories
    passed = np.random.default_rng(3).random(len(task)) < rate(category, agent)
    return passed, task, category, agent


def explained(*columns: Any) -> Deviance:
    found = explained_deviance(*columns)
    assert isinstance(found, Deviance)
    return found


def test_deviance_of_groups_is_that_of_their_rates() -> None:
    expected = -2 * (3 * math.log(3 / 4) + math.log(1 / 4))
    assert deviance(np.array([3.0, 5.0]), np.array([4.0, 5.0])) == pytest.approx(expected)


def test_category_that_decides_every_run_explains_everything() -> None:
    passed, task, category, agent = crossed(lambda category, agent: category % 2)
    found = explained(passed, task, category, agent)
    assert (found.runs, found.passed, found.tasks) == (240, 120, 40)
    assert found.category.explained == pytest.approx(1.0)
    assert found.category.p_value == pytest.approx(0.001)
    assert found.agent.explained == pytest.approx(0.0)
    assert found.agent.p_value == 1.0
    assert found.both == pytest.approx(1.0)


def test_hand_made_table_has_the_deviance_of_its_rates() -> None:
    """Category a passes 15 of 20, b 5 of 20; both agents pass 10 of 20."""
    passes = {(0, 0): 7, (0, 1): 8, (1, 0): 3, (1, 1): 2}
    rows = [
        (number < count, 2 * number + category, category, agent)
        for (category, agent), count in passes.items()
        for number in range(10)
    ]
    found = explained(*(np.array(column) for column in zip(*rows, strict=True)))
    left = -2 * 40 * (0.75 * math.log(0.75) + 0.25 * math.log(0.25))
    assert found.category.explained == pytest.approx(1 - left / (2 * 40 * math.log(2)))
    assert found.agent.explained == pytest.approx(0.0)
    assert found.category.added == pytest.approx(found.both)


def test_explained_deviance_equals_that_of_logistic_models_of_single_runs() -> None:
    """Fits by statsmodels, of one row for each run, with and without each factor."""
    import statsmodels.api as sm

    passed, task, category, agent = crossed(lambda c, a: 0.3 + 0.12 * c + 0.03 * a)
    kept = np.random.default_rng(5).random(len(task)) < 0.7  # agents differ in coverage
    passed, task, category, agent = passed[kept], task[kept], category[kept], agent[kept]
    found = explained(passed, task, category, agent)

    def fitted(*factors: Any) -> float:
        dummies = [np.eye(factor.max() + 1)[factor][:, 1:] for factor in factors]
        columns = np.column_stack([np.ones(len(passed)), *dummies])
        fit = sm.GLM(passed.astype(float), columns, family=sm.families.Binomial()).fit()
        return float(1 - fit.deviance / fit.null_deviance)

    by_category, by_agent, both = fitted(category), fitted(agent), fitted(category, agent)
    assert found.category.explained == pytest.approx(by_category, rel=1e-6)
    assert found.agent.explained == pytest.approx(by_agent, rel=1e-6)
    assert found.both == pytest.approx(both, rel=1e-6)
    assert found.category.added == pytest.approx(both - by_agent, rel=1e-6)
    assert found.agent.added == pytest.approx(both - by_category, rel=1e-6)


def test_interval_covers_the_explained_deviance_of_the_population() -> None:
    """Twenty samples of 120 tasks; the population is that of many, where chance is little."""

    def sample(tasks: int, seed: int) -> Columns:
        dice = np.random.default_rng(seed)
        task, agent = (index.ravel() for index in np.indices((tasks, 10)))
        category = dice.integers(0, 5, tasks)[task]
        difficulty = dice.normal(0, 0.5, tasks)[task]
        odds = 0.5 + np.sin(category) + 0.4 * np.sin(2 * agent) + difficulty
        return dice.random(len(task)) < 1 / (1 + np.exp(-odds)), task, category, agent

    everything = explained(*sample(3_000, 99))
    covered = np.zeros(2)
    for seed in range(20):
        found = explained(*sample(120, seed))
        for number, (one, true) in enumerate(
            [(found.category, everything.category), (found.agent, everything.agent)]
        ):
            assert one.low is not None and one.high is not None
            covered[number] += one.low <= true.beyond_chance <= one.high
    assert (covered >= 16).all(), covered


def test_factors_without_effect_explain_what_chance_explains() -> None:
    """On average a factor of g groups explains (g - 1) / n of the deviance per run, by chance."""
    found = explained(*crossed(lambda category, agent: 0.5, tasks=200))
    for factor, groups in ((found.category, 4), (found.agent, 6)):
        assert factor.groups == groups
        assert factor.chance == pytest.approx((groups - 1) / (1200 * 2 * math.log(2)), rel=0.25)
        assert factor.p_value > 0.05
        assert factor.beyond_chance == pytest.approx(max(0, factor.explained - factor.chance))
        assert factor.low == 0


def test_interval_that_misses_its_estimate_is_left_out() -> None:
    """Of 42 tasks, six were tried by all agents, of which two never pass: the page's first runs."""
    task = np.array([*range(42), *range(6), *range(6)])
    agent = np.array([0] * 42 + [1] * 6 + [2] * 6)
    passed = np.array([number != 3 for number in range(42)] + [False] * 12)
    found = explained(passed, task, task % 8, agent)
    for factor in (found.category, found.agent):
        if factor.low is not None:
            assert factor.low <= factor.beyond_chance <= factor.high
    assert found.agent.beyond_chance > 0.5 and found.agent.low is None


def test_one_weak_agent_is_found_where_tasks_are_hard_or_easy() -> None:
    """Tasks decide most; agents are permuted within them, so that they hide nothing."""
    task, agent = (index.ravel() for index in np.indices((30, 5)))
    passed = (task % 2 == 0) & ~((agent == 4) & (task % 4 == 0))
    found = explained(passed, task, task % 3, agent)
    assert found.agent.p_value < 0.01
    assert found.category.p_value > 0.05


def test_agents_on_tasks_of_their_own_are_never_significant() -> None:
    """Nothing can be permuted, so the agent may stand for its tasks."""
    task = np.arange(40)
    agent = task // 20
    found = explained(agent == 0, task, task % 4, agent)
    assert found.agent.explained == pytest.approx(1.0)
    assert found.agent.p_value == 1.0


def test_same_runs_in_another_order_give_the_same_figures() -> None:
    columns = crossed(lambda category, agent: 0.4 + 0.1 * category)
    order = np.random.default_rng(1).permutation(len(columns[0]))
    assert explained(*columns) == explained(*(column[order] for column in columns))


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ((np.arange(30) < 9, *[np.arange(30)] * 3), "here 9 passed and 21 failed"),
        (crossed(lambda category, agent: 1), "here 240 passed and 0 failed"),
        (crossed(lambda category, agent: 0), "here 0 passed and 240 failed"),
        (crossed(lambda category, agent: 0.5, agents=1), "All runs are of one agent"),
        (crossed(lambda category, agent: 0.5, categories=1), "All runs are of one category"),
    ],
)
def test_too_little_variation_gives_a_reason(columns: Columns, reason: str) -> None:
    found = explained_deviance(*columns)
    assert isinstance(found, NotEnough) and reason in found.reason
