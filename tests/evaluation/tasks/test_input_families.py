"""Tests of input families: their distributions, seeds and range."""

from __future__ import annotations

import pytest
import torch

from evaluation.shapes import FAMILIES
from evaluation.tasks.input_families import SMALL_ELEMENTS, InputGenerator, families_for


def draw(family: str, seed: int = 0) -> InputGenerator:
    return InputGenerator(torch.Generator().manual_seed(seed), family)


@pytest.mark.parametrize("family", FAMILIES)
def test_normal_repeats_with_its_seed_and_fits_float16(family: str) -> None:
    first, again, other = (draw(family, seed).normal((40, 129)) for seed in (1, 1, 2))
    assert first.dtype is torch.float32
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.isfinite(first.half()).all()


@pytest.mark.parametrize(
    ("family", "mean", "deviation"),
    [("nominal", 0, 1), ("large", 0, 32), ("tiny", 0, 1e-3), ("shifted", 8, 1)],
)
def test_normal_has_the_mean_and_deviation_of_its_family(
    family: str, mean: float, deviation: float
) -> None:
    values = draw(family).normal((200, 500))
    assert values.mean().item() == pytest.approx(mean, abs=deviation / 50)
    assert values.std().item() == pytest.approx(deviation, rel=0.02)


def test_outliers_are_few_and_at_least_one() -> None:
    values = draw("outliers").normal((100, 1000))
    assert 100 < int((values.abs() > 6).sum()) < 500
    assert torch.equal(draw("outliers").normal((1,)), draw("large").normal((1,)))


def test_structured_inputs_are_small_integers() -> None:
    values = draw("structured").normal((9, 70))
    assert sorted(set(values.flatten().tolist())) == [-3, -2, -1, 0, 1, 2, 3]


def test_cancelling_rows_nearly_sum_to_zero() -> None:
    values = draw("cancelling").normal((50, 256))
    assert values.abs().mean() > 30
    assert values.mean(dim=-1).abs().max() < 1


def test_scale_multiplies_every_family() -> None:
    for family in FAMILIES:
        assert torch.equal(draw(family).normal((8, 8), 0.5), draw(family).normal((8, 8)) * 0.5)


def test_uniform_and_integers_lie_in_their_bounds() -> None:
    uniform = draw("large").uniform((1000,), 0.5, 1.5)
    integers = draw("large").integers((1000,), 3, 9)
    assert 0.5 <= uniform.min() < uniform.max() < 1.5
    assert set(integers.tolist()) == {3, 4, 5, 6, 7, 8}


def test_unknown_family_raises_value_error() -> None:
    with pytest.raises(ValueError, match="no input family 'gigantic'"):
        draw("gigantic")


@pytest.mark.parametrize("elements", [1, SMALL_ELEMENTS])
def test_families_for_a_small_thorough_case_are_all(elements: int) -> None:
    families = families_for(elements, thorough=True)
    assert set(families) == set(FAMILIES) and families.count("nominal") == 5


@pytest.mark.parametrize(("elements", "thorough"), [(SMALL_ELEMENTS + 1, True), (1, False)])
def test_families_for_other_cases_are_nominal_and_two_secret_ones(
    elements: int, thorough: bool
) -> None:
    drawn = [families_for(elements, thorough) for _ in range(200)]
    assert all(len(set(families)) == 3 and families[0] == "nominal" for families in drawn)
    assert {family for families in drawn for family in families} == set(FAMILIES)
