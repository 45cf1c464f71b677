"""The module that takes no time stands in for the library's in all that a model asks of it."""

from __future__ import annotations

import pytest
import torch

from evaluation.sandboxed.live_model import FreeModule


def test_free_module_returns_its_first_output_of_a_shape() -> None:
    linear = torch.nn.Linear(4, 3)
    free = FreeModule(linear)
    first = free(torch.ones(2, 4))
    assert torch.equal(first, linear(torch.ones(2, 4)))
    assert free(torch.zeros(2, 4)) is first
    assert free(torch.zeros(5, 4)).shape == (5, 3)


def test_free_module_has_the_attributes_of_the_original() -> None:
    linear = torch.nn.Linear(4, 3)
    free = FreeModule(linear)
    assert free.weight is linear.weight and free.in_features == 4
    with pytest.raises(AttributeError, match="nothing"):
        _ = free.nothing
