"""Secret slices of the inputs of some launches of a window, for late inputs."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import torch

from evaluation.memory import cuda_ipc
from evaluation.memory.layout import ALIGNMENT
from evaluation.memory.ring import BufferRing

MAX_LATE_LAUNCHES = 8
"""Launches of a window whose inputs arrive late."""
MIN_BYTES, MAX_BYTES = 256, 1 << 20
"""Bytes of a launch's inputs that arrive late; copying more takes longer than a window."""


class InputSlices:
    """Slices of the inputs of launches after `front`, in secret order."""

    def __init__(self, ring: BufferRing, first: int, launches: int) -> None:
        """Choose slices for a window of three launches or more."""
        inputs = ring.inputs
        self.front = secrets.randbelow(launches - 2)
        self.launches = launches_behind(self.front, launches)
        slots = [(first + launch) % ring.slots for launch in self.launches]
        parts = [secret_slice(inputs.layout.stride, MAX_BYTES) for _ in slots]
        self._slices = [inputs.row(slot)[part] for slot, part in zip(slots, parts, strict=True)]
        rows = ring.decoy_inputs(len(slots))
        self.decoy_inputs = [row[part] for row, part in zip(rows, parts, strict=True)]
        """Plausible values that belong to no launch."""
        self._saved = [
            torch.empty(target.shape, dtype=torch.uint8, pin_memory=target.is_cuda)
            for target in self._slices
        ]

    def save(self) -> None:
        """Save the current values of all slices."""
        for saved, source in zip(self._saved, self._slices, strict=True):
            saved.copy_(source)

    def write(self, values: Sequence[torch.Tensor] | None = None) -> None:
        """Write these values, or the saved ones, into all slices."""
        for target, value in zip(self._slices, values or self._saved, strict=True):
            target.copy_(value)

    def inject(self, number: int) -> None:
        """Write the saved values of one slice; on a GPU by the copy engine."""
        if (target := self._slices[number]).is_cuda:
            cuda_ipc.copy_to_device(self._saved[number], target)
        else:
            target.copy_(self._saved[number])


def launches_behind(front: int, launches: int) -> list[int]:
    """Return launches after the next one, by log-uniform distance, in secret order."""
    random, room = secrets.SystemRandom(), launches - 2 - front
    distances = (min(room, int((room + 1) ** random.random())) for _ in range(MAX_LATE_LAUNCHES))
    chosen = {front + 1 + distance for distance in distances}
    return random.sample(sorted(chosen), len(chosen))


def secret_slice(size: int, max_bytes: int | None = None) -> slice:
    """Return a secret slice of `size` bytes, of a log-uniform length up to `max_bytes`.

    One in four has the largest length.
    """
    if max_bytes is not None and max_bytes < size:
        first = secrets.randbelow((size - max_bytes) // ALIGNMENT + 1) * ALIGNMENT
        part = secret_slice(max_bytes)
        return slice(first + part.start, first + part.stop)
    if secrets.randbelow(4) == 0:
        return slice(0, size)
    doublings = max(1, (size // MIN_BYTES).bit_length())
    length = min(size, MIN_BYTES << secrets.randbelow(doublings))
    first = secrets.randbelow((size - length) // ALIGNMENT + 1) * ALIGNMENT
    return slice(first, first + length)
