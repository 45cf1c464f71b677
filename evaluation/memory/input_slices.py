"""Parts of the inputs of some launches of a window, drawn in secret: those that arrive late, and
those that other windows are prepared with alike.
"""

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
"""Launches of a window whose inputs come late, at most."""
MOST_BYTES = 1 << 20
"""Of such a launch's inputs that come late: a copy of more takes longer than many a window."""

LEAST_BYTES = 256
"""Of the inputs of a launch that arrive just before it."""


class InputSlices:
    """Of launches behind the one after `front`, in secret order. They keep what is there when they
    are told to.
    """

    def __init__(self, rig: BufferRing, first: int, launches: int) -> None:
        """Of a window of so many launches from a slot on, three or more."""
        inputs = rig.inputs
        self.front = secrets.randbelow(launches - 2)
        self.launches = _behind(self.front, launches)
        slots = [(first + launch) % rig.slots for launch in self.launches]
        parts = [secret_part(inputs.layout.stride, MOST_BYTES) for _ in slots]
        self.places = [inputs.row(slot)[part] for slot, part in zip(slots, parts, strict=True)]
        rows = rig.strays(len(slots))
        self.strays = [row[part] for row, part in zip(rows, parts, strict=True)]
        """What may stand there and is of no launch: no kernel sees it twice, and wonders."""
        self._kept = [
            torch.empty(place.shape, dtype=torch.uint8, pin_memory=place.is_cuda)
            for place in self.places
        ]

    def keep(self) -> None:
        for kept, place in zip(self._kept, self.places, strict=True):
            kept.copy_(place)

    def lay(self, values: Sequence[torch.Tensor] | None = None) -> None:
        """Write values, or what was kept, into all places."""
        for place, value in zip(self.places, values or self._kept, strict=True):
            place.copy_(value)

    def arrive(self, number: int) -> None:
        """Write what was kept into one place; on a GPU by the copy engine."""
        if (place := self.places[number]).is_cuda:
            cuda_ipc.send(self._kept[number], place)
        else:
            place.copy_(self._kept[number])


def _behind(front: int, launches: int) -> list[int]:
    """Launches behind the next after `front`, evenly by the order of how far, in secret order."""
    random, room = secrets.SystemRandom(), launches - 2 - front
    chosen = {front + 1 + min(room, int((room + 1) ** random.random())) for _ in range(TARGETS)}
    return random.sample(sorted(chosen), len(chosen))


def secret_part(size: int, most: int | None = None) -> slice:
    """A secret part of `size` bytes, of any order from LEAST_BYTES to `most`; one in four is of
    that size, or whole.
    """
    if most is not None and most < size:
        first = secrets.randbelow((size - most) // ALIGNMENT + 1) * ALIGNMENT
        part = secret_part(most)
        return slice(first + part.start, first + part.stop)
    if secrets.randbelow(4) == 0:
        return slice(0, size)
    doublings = max(1, (size // LEAST_BYTES).bit_length())
    length = min(size, LEAST_BYTES << secrets.randbelow(doublings))
    first = secrets.randbelow((size - length) // ALIGNMENT + 1) * ALIGNMENT
    return slice(first, first + length)
