"""Models that are built from data, and their drawn weights."""

from __future__ import annotations

import warnings

import torch
from torch import nn

from evaluation.sandboxed.model import models


class Scaled(nn.Module):
    """A module with a parameter of equal values that no library's class initialises."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.full((64,), 3.0))


def test_equal_values_are_drawn_around_their_value_without_a_warning() -> None:
    scaled = Scaled()
    torch.set_warn_always(True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            models.draw_weights(scaled, 1)
    finally:
        torch.set_warn_always(False)
    assert scaled.scale.unique().numel() == 64
    assert abs(float(scaled.scale.detach().mean()) - 3.0) < models.NORM_SPREAD
