"""Attention may round its probabilities to 16 bits before it multiplies values by them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from evaluation.bench.memory.verify import MAX_ESTIMATES
from evaluation.tasks.roundings import products_rounded_to, size_of_roundings
from evaluation.tasks.tolerance import Tolerance


def size_of_many(function: Callable[..., Any], given: dict[str, torch.Tensor]) -> torch.Tensor:
    generator = torch.Generator().manual_seed(3)
    sizes = [size_of_roundings(function, given, generator)[0] for _ in range(MAX_ESTIMATES)]
    return torch.stack(sizes).amax(0)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_attention_may_round_probabilities_and_not_scores(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(7)
    q, k, v = (torch.randn((1, 3, 48, 32), generator=generator).to(dtype) for _ in range(3))
    given = {"query": q.double(), "key": k.double(), "value": v.double()}
    attention = torch.nn.functional.scaled_dot_product_attention
    exact = attention(**given)
    scores = q.float() @ k.float().mT / 32**0.5
    name = str(dtype).removeprefix("torch.")

    def share(scores: torch.Tensor) -> float:
        got = (torch.softmax(scores, -1).to(dtype).float() @ v.float()).to(dtype)
        allowed = Tolerance(2.5, 2.0).allowed(exact, size, 1, name)
        return float(((got.double() - exact).abs() / allowed).max())

    size = size_of_many(attention, given)
    assert share(scores) > 1, "roundings of float32 do not allow it"
    with products_rounded_to(name):
        size = size_of_many(attention, given)
    assert share(scores) <= 1
    assert share(8 * (scores / 8 + 4096).to(dtype).float() - 8 * 4096) > 1


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_attention_may_round_probabilities_after_a_scale(dtype: torch.dtype) -> None:
    """Values of a few bits have one for each token; no part of so short a product rounds more."""
    generator = torch.Generator().manual_seed(7)
    scores = 1e-3 * torch.randn((64, 16, 7), generator=generator).double()
    scales = 0.005 + 0.015 * torch.rand((64, 1, 7), generator=generator).double()
    values = torch.randint(-127, 128, (64, 7, 32), generator=generator).double()
    given = {"scores": scores, "scales": scales, "values": values}
    name = str(dtype).removeprefix("torch.")

    def attention(scores: torch.Tensor, scales: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return (torch.softmax(scores, -1) * scales) @ values

    def share() -> float:
        got = ((torch.softmax(scores, -1) * scales).to(dtype).double() @ values).to(dtype)
        exact = attention(**given)
        allowed = Tolerance(2.5, 2.0).allowed(exact, size, 1, name)
        return float(((got.double() - exact).abs() / allowed).max())

    size = size_of_many(attention, given)
    assert share() > 1, "roundings of float32 do not allow it"
    with products_rounded_to(name):
        size = size_of_many(attention, given)
    assert share() <= 1
