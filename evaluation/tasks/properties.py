"""Outputs that are not compared by value: residuals of the inputs, and random samples."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch

MAX_DISTANCE = 3.7
"""Largest sqrt(n) times the distance of Kolmogorov and Smirnov: exceeded once in 3e11 samples."""
MAX_CORRELATION = 6.8
"""Largest sqrt(n) times a correlation of independent values: exceeded once in 1e11 samples."""
MIN_VALUES = 64
"""Values of a sample from which on its correlations are tested."""


def measured_property(check: Callable[..., Any], given: Mapping[str, Any]) -> float:
    """Return the largest relative residual that `check` finds; NaN counts as infinite.

    `given` are inputs, outputs and scalars by name, floating-point ones in float64.
    """
    found = check(**given)
    residuals = found if isinstance(found, tuple) else (found,)
    return max(_largest(torch.as_tensor(residual)) for residual in residuals)


def _largest(residual: torch.Tensor) -> float:
    if not residual.numel():
        return 0.0
    return float(residual.double().abs().nan_to_num(math.inf, math.inf, math.inf).max())


class Distances:
    """Tests of random outputs of one case; each is compared with the one before, too."""

    def __init__(self) -> None:
        self._before: torch.Tensor | None = None

    def share(self, distribution: Callable[..., Any], given: Mapping[str, Any]) -> float:
        """Return the largest statistic of an output as a share of what chance allows.

        `distribution` returns a sample (any shape) and the probability of values up to each of its
        elements; NaN marks an impossible value. Tested are the distance of the distribution, the
        correlation of neighbours, and that with the sample before.
        """
        sample, probability = (t.double().flatten() for t in distribution(**given))
        if not bool(torch.isfinite(probability).all()):
            return math.inf
        shares = [distance(sample, probability) / MAX_DISTANCE]
        if len(sample) >= MIN_VALUES:
            centred = probability - probability.mean()
            pairs = [(centred[:-1], centred[1:])]
            if self._before is not None and len(self._before) == len(centred):
                pairs.append((self._before, centred))
            shares += [correlation(*pair) / MAX_CORRELATION for pair in pairs]
            self._before = centred
        return max(shares)


def distance(sample: torch.Tensor, probability: torch.Tensor) -> float:
    """Return sqrt(n) times the largest difference of the empirical distribution function.

    It is taken at the values themselves, so that a distribution may be discrete.
    """
    if not len(sample):
        return 0.0
    order = sample.argsort()
    values, expected = sample[order], probability[order]
    last = torch.ones(len(values), dtype=torch.bool, device=values.device)
    last[:-1] = values[1:] != values[:-1]
    share = torch.arange(1, len(values) + 1, device=values.device) / len(values)
    return math.sqrt(len(values)) * float((share - expected)[last].abs().max())


def correlation(first: torch.Tensor, second: torch.Tensor) -> float:
    """Return sqrt(n) times the correlation of two centred samples; infinite where one is constant.

    A discrete sample can be constant by chance: then it counts as 0.
    """
    norm = float(first.norm() * second.norm())
    if not norm:
        return 0.0
    return math.sqrt(len(first)) * abs(float(first @ second)) / norm
