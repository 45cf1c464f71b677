"""Fresh secret inputs for many launches, made from a few drawn sets of inputs."""

from __future__ import annotations

import secrets

import torch

from evaluation.memory.layout import Rows
from evaluation.tasks.reference import Reference

FAMILIES = ("nominal", "outliers", "nominal", "shifted")
"""Input families of the drawn sets, which are mixed so that all launches look alike."""
MAX_GATHERED_ELEMENTS = {"cpu": 1 << 11, "cuda": 1 << 20}
"""Largest tensor that one gather copies for many launches; larger ones are copied one by one."""
START_ALIGNMENT = 16
"""Alignment of larger ones in elements, for vectorised copies."""


class InputPool:
    """Drawn inputs of a case, and random gains for them.

    The inputs of a launch are a secret slice of the drawn values times a secret slice of the gains.
    Without gains, the first values would identify a slice, and its results could be looked up.
    """

    def __init__(self, reference: Reference, random: torch.Generator) -> None:
        self._random, device = random, reference.device
        draws = [reference.draw(family) for family in FAMILIES]
        generator = torch.Generator(device).manual_seed(secrets.randbits(63))
        self._values: dict[str, torch.Tensor] = {}
        self._gains: dict[str, torch.Tensor] = {}
        for name in draws[0]:
            values = self._values[name] = torch.cat([draw[name].flatten() for draw in draws])
            if values.dtype.is_floating_point:
                gains = torch.rand(values.shape, generator=generator, device=device) + 0.5
                self._gains[name] = gains.to(values.dtype)

    def draw(self, name: str, count: int) -> torch.Tensor:
        """Draw the starts of slices of values and gains for launches: int64, shape [2, count]."""
        total = self._values[name].numel()
        size = total // len(FAMILIES)
        step = 1 if is_gathered(size, self._random.device) else START_ALIGNMENT
        starts = -(-(total - size + 1) // step)
        shape, device = (2, count), self._random.device
        return torch.randint(starts, shape, generator=self._random, device=device) * step

    def write(
        self, name: str, starts: torch.Tensor, out: torch.Tensor, rows: Rows = slice(None)
    ) -> torch.Tensor:
        """Write one input of launches with these starts into some rows of `out`.

        `out` has the shape [rows, elements], and `starts` has [2, launches].
        """
        values, gains, size = self._values[name], self._gains.get(name), out.shape[1]
        if not size:
            return out
        if is_gathered(size, out.device):
            written = values.unfold(0, size, 1)[starts[0]]
            if gains is None:
                out[rows] = written
            elif isinstance(rows, torch.Tensor):
                out[rows] = written.mul_(gains.unfold(0, size, 1)[starts[1]])
            else:
                torch.mul(written, gains.unfold(0, size, 1)[starts[1]], out=out[rows])
            return out
        numbers = rows.tolist() if isinstance(rows, torch.Tensor) else range(len(out))
        for number, start, gain in zip(numbers, *starts.tolist(), strict=True):
            if gains is None:
                out[number].copy_(values[start : start + size])
            else:
                torch.mul(values[start : start + size], gains[gain : gain + size], out=out[number])
        return out


def is_gathered(size: int, device: torch.device) -> bool:
    """Return whether tensors of so many elements are processed for many launches at once."""
    return size <= MAX_GATHERED_ELEMENTS[device.type]
