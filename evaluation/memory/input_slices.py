"""Secret slices of the inputs of some launches of a window, for late inputs."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from evaluation.memory import cuda_ipc
from evaluation.memory.layout import ALIGNMENT

if TYPE_CHECKING:
    from evaluation.memory.ring import BufferRing

TARGETS = 8
"""Launches of a window whose inputs arrive late, at most."""
MAX_BYTES = 1 << 20
"""Bytes of a launch's inputs that arrive late, at most; copying more takes longer than a window."""

MIN_BYTES = 256
"""Bytes of a launch's inputs that arrive just before it, at least."""


class InputSlices:
    """Slices of the inputs of launches after `front`, in secret order."""

    def __init__(self, ring: BufferRing, first: int, launches: int) -> None:
        """Choose slices for a window of three launches or more."""
        inputs = ring.inputs
        self.front = secrets.randbelow(launches - 2)
        self.launches = _behind(self.front, launches)
        slots = [(first + launch) % ring.slots for launch in self.launches]
        parts = [secret_part(inputs.layout.stride, MAX_BYTES) for _ in slots]
        self.places = [inputs.row(slot)[part] for slot, part in zip(slots, parts, strict=True)]
        rows = ring.decoy_inputs(len(slots))
        self.decoy_inputs = [row[part] for row, part in zip(rows, parts, strict=True)]
        """Plausible values that belong to no launch."""
        self._kept = [
            torch.empty(place.shape, dtype=torch.uint8, pin_memory=place.is_cuda)
            for place in self.places
        ]

    def keep(self) -> None:
        """Keep the current values of all slices."""
        for kept, place in zip(self._kept, self.places, strict=True):
            kept.copy_(place)

    def write(self, values: Sequence[torch.Tensor] | None = None) -> None:
        """Write these values, or the kept ones, into all slices."""
        for place, value in zip(self.places, values or self._kept, strict=True):
            place.copy_(value)

    def inject(self, number: int) -> None:
        """Write the kept values of one slice; on a GPU by the copy engine."""
        if (place := self.places[number]).is_cuda:
            cuda_ipc.copy_to_device(self._kept[number], place)
        else:
            place.copy_(self._kept[number])


def _behind(front: int, launches: int) -> list[int]:
    """Return launches after the next one, by log-uniform distance, in secret order."""
    random, room = secrets.SystemRandom(), launches - 2 - front
    chosen = {front + 1 + min(room, int((room + 1) ** random.random())) for _ in range(TARGETS)}
    return random.sample(sorted(chosen), len(chosen))


def secret_part(size: int, max_bytes: int | None = None) -> slice:
    """Return a secret part of `size` bytes, of a log-uniform length from MIN_BYTES to `max_bytes`.

    One in four is the largest.
    """
    if max_bytes is not None and max_bytes < size:
        first = secrets.randbelow((size - max_bytes) // ALIGNMENT + 1) * ALIGNMENT
        part = secret_part(max_bytes)
        return slice(first + part.start, first + part.stop)
    if secrets.randbelow(4) == 0:
        return slice(0, size)
    doublings = max(1, (size // MIN_BYTES).bit_length())
    length = min(size, MIN_BYTES << secrets.randbelow(doublings))
    first = secrets.randbelow((size - length) // ALIGNMENT + 1) * ALIGNMENT
    return slice(first, first + length)
