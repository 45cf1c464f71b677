"""Input values of a case: one generator, seven families."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import torch
from torch import Tensor

from evaluation.shapes import FAMILIES

SMALL_ELEMENTS = 1 << 19
"""Largest case that every family is drawn for."""
LARGE = 32.0
TINY = 1e-3
SHIFT = 8.0
OUTLIERS = 1 / 256


class InputGenerator:
    """Float32 inputs of one family on one device.

    With z standard normal, `normal` returns `scale` times

    - nominal: z
    - large: 32 z, where an exponential overflows unless its maximum is subtracted first
    - tiny: z / 1000, where epsilons and subnormal halves matter
    - outliers: z, with one element in 256 (and at least one) multiplied by 32
    - shifted: z + 8, whose mean is far from zero
    - structured: the integers -3 to 3 in turn through the whole tensor, from a random start
    - cancelling: z + 32 and z - 32 in turn along the last dimension, whose sums nearly vanish

    All lie in the range of float16. `uniform` and `integers` are the same in every family.
    """

    def __init__(self, generator: torch.Generator, family: str) -> None:
        if family not in FAMILIES:
            raise ValueError(f"no input family {family!r}; there are {', '.join(FAMILIES)}")
        self.generator = generator
        self.device = generator.device
        self.family = family

    def normal(self, shape: Sequence[int], scale: float = 1.0) -> Tensor:
        z = torch.randn(tuple(shape), generator=self.generator, device=self.device)
        match self.family:
            case "large":
                z *= LARGE
            case "tiny":
                z *= TINY
            case "outliers":
                z = self._with_outliers(z)
            case "shifted":
                z += SHIFT
            case "structured":
                places = torch.arange(z.numel(), device=self.device)
                z = ((places + self.integers((1,), 0, 7)) % 7 - 3).float().view(z.shape)
            case "cancelling":
                size = z.shape[-1] if z.dim() else 1
                z += LARGE * (1 - 2 * (torch.arange(size, device=self.device) % 2)).view(
                    (size,) if z.dim() else ()
                )
        return z.mul_(scale)

    def uniform(self, shape: Sequence[int], low: float, high: float) -> Tensor:
        unit = torch.rand(tuple(shape), generator=self.generator, device=self.device)
        return unit.mul_(high - low).add_(low)

    def integers(self, shape: Sequence[int], low: int, high: int) -> Tensor:
        """Return integers from `low` to `high - 1`, int64."""
        return torch.randint(low, high, tuple(shape), generator=self.generator, device=self.device)

    def _with_outliers(self, z: Tensor) -> Tensor:
        count = max(1, round(z.numel() * OUTLIERS))
        z.view(-1)[self.integers((count,), 0, z.numel())] *= LARGE
        return z


def families_for(elements: int, thorough: bool, families: Sequence[str] = FAMILIES) -> list[str]:
    """Return those of an operator's families for a case with so many elements.

    A small case in a thorough check has all, the nominal one five times. Others have the nominal
    one and two that are chosen in secret.
    """
    nominal, *others = families
    if thorough and elements <= SMALL_ELEMENTS:
        return [nominal, *others, *[nominal] * 4]
    return [nominal, *secrets.SystemRandom().sample(others, min(2, len(others)))]


def torch_dtype(name: str) -> torch.dtype:
    """Return `torch.float32` for `float32`. Raises ValueError for anything else."""
    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype):
        raise ValueError(f"{name} is not a torch dtype")
    return dtype


def dtype_name(dtype: torch.dtype) -> str:
    """Return `float32` for `torch.float32`."""
    return str(dtype).removeprefix("torch.")
