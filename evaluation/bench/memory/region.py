"""Regions of shared memory as the judge sees them, with guard bands that it compares."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from typing import Any

import torch

from evaluation.bench.memory.layout import Layout

_WORD = torch.int64


class Region(ABC):
    """The judge's view of shared memory: `bytes` (uint8, shape [size]) with guard bands."""

    def __init__(self, layout: Layout, memory: torch.Tensor) -> None:
        self.layout = layout
        self.bytes = memory
        self._order = torch.tensor(layout.order, device=memory.device) if layout.seed else None
        self._guards: list[tuple[int, torch.Tensor, torch.Tensor]] = []
        """Number of the gap, memory in every row, and random bytes of each guard band."""
        rows = layout.rows(memory)
        for gap, (start, end) in enumerate(layout.gaps()):
            # Compared in words of eight bytes where they are aligned, in an eighth of the time.
            middle = min(end, -(-start // _WORD.itemsize) * _WORD.itemsize)
            for band in (rows[:, start:middle], rows[:, middle:end].view(_WORD)):
                if band.shape[1]:
                    values = _random_bytes(band.shape[1] * band.itemsize).view(band.dtype)
                    band[:] = values = values.to(memory.device)
                    self._guards.append((gap, band, values))

    def slot(self, index: int) -> dict[str, torch.Tensor]:
        """Return the tensors of one slot by name."""
        return self.layout.views(self.bytes, index)

    def row(self, slot: int) -> torch.Tensor:
        """Return the bytes of one slot: uint8, shape [stride]."""
        return self.layout.rows(self.bytes)[self.layout.row_of(slot)]

    def rows_of(self, slots: torch.Tensor) -> torch.Tensor:
        """Return the rows of some slots (int64, any shape), on the device of the memory."""
        return slots if self._order is None else self._order[slots]

    def column(self, name: str) -> torch.Tensor:
        """Return one tensor of every row, flattened, in memory order: shape [slots, elements]."""
        return self.layout.columns(self.bytes)[name]

    @abstractmethod
    def share(self) -> tuple[dict[str, Any], list[int]]:
        """Return the description of this region, and the file descriptors to send with it."""

    def overwritten(self) -> str:
        """Return where a guard band changed, such as "after x"; empty if none did."""
        checks = [(gap, (band != values).any()) for gap, band, values in self._guards]
        # Read in one transfer from a GPU.
        changed = torch.stack([check for _, check in checks]).tolist()
        gap = next((gap for (gap, _), bad in zip(checks, changed, strict=True) if bad), None)
        if gap is None:
            return ""
        names = [spec.name for spec in self.layout.specs]
        return f"before {names[0]}" if gap == 0 else f"after {names[gap - 1]}"

    def close(self) -> None:  # noqa: B027 - a region of the device leaves its memory to the block
        """Free the memory; views of it must not be used any more."""


def _random_bytes(count: int) -> torch.Tensor:
    return torch.frombuffer(bytearray(os.urandom(count)), dtype=torch.uint8)
