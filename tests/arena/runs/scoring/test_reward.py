"""The reward function: its order, its bounds, and the verdicts without a reward."""

from __future__ import annotations

import itertools
import math
import random

import pytest

from arena.runs.scoring.reward import (
    MAX_SPEEDUP,
    PARITY,
    REFUSED,
    STOPPED,
    Outcome,
    reward,
    reward_of_speedup,
)
from evaluation.types import GateName, Reason, Verdict

GATES = [gate.value for gate in GateName]
LOWS = sorted(random.Random(22).lognormvariate(0, 3) for _ in range(2000))


def passed(*lows: float) -> float:
    value = reward(Outcome("passed", lows=lows))
    assert value is not None
    return value


def test_reward_of_passed_kernel_never_falls_with_the_lower_end() -> None:
    values = [passed(low) for low in LOWS]
    assert values == sorted(values)


def test_reward_of_passed_kernel_grows_strictly_within_its_bounds() -> None:
    inside = [low for low in LOWS if 1 / MAX_SPEEDUP < low < MAX_SPEEDUP]
    assert len(inside) > 1000
    assert all(passed(a) < passed(b) for a, b in itertools.pairwise(inside) if b > a * 1.0001)


def test_noisy_measurement_of_a_correct_kernel_has_no_reward() -> None:
    assert reward(Outcome("passed", lows=[2.0], noisy=True)) is None
    assert reward(Outcome("failed", "WRONG_VALUES", "correctness", noisy=True)) == -0.5
    assert reward(Outcome("rejected", noisy=True)) == REFUSED


@pytest.mark.parametrize(
    ("low", "expected"),
    [
        (1.0, PARITY),
        (MAX_SPEEDUP, 1.0),
        (4.0, 0.75),
        (0.25, 0.25),
        (1 / MAX_SPEEDUP, 0.0),
        (1e9, 1.0),
        (math.inf, 1.0),
        (1e-9, 0.0),
        (0.0, 0.0),
        (-1.0, 0.0),
        (math.nan, 0.0),
    ],
)
def test_reward_of_speedup_at_known_points_is_exact(low: float, expected: float) -> None:
    assert reward_of_speedup(low) == pytest.approx(expected)


def test_reward_of_held_out_cases_counts_where_it_is_lower() -> None:
    for first, second in zip(LOWS, random.Random(7).sample(LOWS, len(LOWS)), strict=True):
        assert passed(first, second) == passed(min(first, second))


def test_reward_of_passed_kernel_without_a_speedup_is_zero() -> None:
    assert passed() == 0.0


@pytest.mark.parametrize("reason", ["", *(reason.value for reason in Reason)])
@pytest.mark.parametrize("gate", GATES)
@pytest.mark.parametrize("verdict", ["failed", "rejected", "disputed"])
def test_reward_of_kernel_that_did_not_pass_is_below_any_correct_one(
    verdict: str, gate: str, reason: str
) -> None:
    lowest_correct = passed(1e-12)
    for lows in ((), (100.0,), (100.0, 100.0)):
        value = reward(Outcome(verdict, reason, gate, lows))
        assert value is not None and REFUSED <= value < lowest_correct


@pytest.mark.parametrize("gate", GATES)
@pytest.mark.parametrize(
    ("verdict", "reason"),
    [
        ("rejected", ""),
        ("disputed", "FASTER_THAN_ROOFLINE"),
        ("failed", "FORBIDDEN"),
        ("failed", "FASTER_THAN_ROOFLINE"),
    ],
)
def test_reward_of_trick_is_the_lowest_whatever_gate_found_it(
    verdict: str, reason: str, gate: str
) -> None:
    assert reward(Outcome(verdict, reason, gate, (1000.0,))) == REFUSED == -1.0
    assert min(STOPPED.values()) > REFUSED


def test_reward_of_failed_kernel_grows_with_the_gate_reached() -> None:
    values = [reward(Outcome("failed", "CRASH", gate)) for gate in GATES]
    assert values == sorted(STOPPED.values()) and len(set(values)) == len(GATES)


def test_reward_of_failed_kernel_without_a_gate_is_that_of_the_first() -> None:
    assert reward(Outcome("failed")) == STOPPED[GateName.INTEGRITY]


@pytest.mark.parametrize("verdict", ["", Verdict.BROKEN, Verdict.SKIPPED])
@pytest.mark.parametrize("reason", ["", "FORBIDDEN"])
def test_reward_without_a_verdict_on_the_kernel_is_none(verdict: str, reason: str) -> None:
    assert reward(Outcome(verdict, reason, "correctness", (2.0,))) is None
