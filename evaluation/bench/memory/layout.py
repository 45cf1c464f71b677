"""Tensors in shared memory: their places, and those of guard bands around them.

A region holds `slots` equal slots. A slot holds the tensors of one launch, each behind a guard band
of random bytes, and ends with one more band.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import mmap
import random
import secrets
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from evaluation.tasks.input_families import dtype_name, torch_dtype

ALIGNMENT = 512
"""Alignment of tensors in bytes, as in PyTorch; textures need it."""
GUARD = 1024
"""Bytes between tensors, a multiple of ALIGNMENT."""
Rows = slice | int | torch.Tensor
"""Rows of a column: a range, one row, or row numbers."""


@dataclass(frozen=True)
class TensorSpec:
    """Name, shape and torch dtype name of one tensor of a launch."""

    name: str
    shape: tuple[int, ...]
    dtype: str

    @classmethod
    def of(cls, name: str, value: torch.Tensor) -> TensorSpec:
        """Return the spec of a tensor."""
        return cls(name, tuple(value.shape), dtype_name(value.dtype))

    @property
    def torch_dtype(self) -> torch.dtype:
        return torch_dtype(self.dtype)

    @property
    def itemsize(self) -> int:
        return self.torch_dtype.itemsize

    @property
    def bytes(self) -> int:
        return math.prod(self.shape) * self.itemsize


@dataclass(frozen=True)
class Layout:
    """Places of the tensors of every slot in a region: offsets within a slot, in bytes."""

    specs: tuple[TensorSpec, ...]
    offsets: tuple[int, ...]
    stride: int
    slots: int
    seed: int = 0
    """Seed of the order of rows in memory; 0 where rows are in the order of slots."""

    @property
    def size(self) -> int:
        return max(self.stride * self.slots, mmap.PAGESIZE)

    @classmethod
    def of(cls, specs: Sequence[TensorSpec], slots: int) -> Layout:
        offsets, end = [], GUARD
        for spec in specs:
            offsets.append(end)
            end += -(-spec.bytes // ALIGNMENT) * ALIGNMENT + GUARD
        return cls(tuple(specs), tuple(offsets), end, slots)

    def shuffled(self) -> Layout:
        """Return the layout with rows in a random order.

        So no strided view spans slots. The candidate's process knows the order: it finds its inputs
        by it.
        """
        return dataclasses.replace(self, seed=1 + secrets.randbits(63))

    @functools.cached_property
    def order(self) -> tuple[int, ...]:
        """The row of memory of each slot."""
        slots = range(self.slots)
        return tuple(random.Random(self.seed).sample(slots, len(slots)) if self.seed else slots)

    def row_of(self, slot: int) -> int:
        return self.order[slot]

    def to_json(self) -> dict[str, Any]:
        specs = [[spec.name, list(spec.shape), spec.dtype] for spec in self.specs]
        return {"specs": specs, "slots": self.slots, "seed": self.seed}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Layout:
        specs = [TensorSpec(name, tuple(shape), dtype) for name, shape, dtype in data["specs"]]
        return dataclasses.replace(cls.of(specs, data["slots"]), seed=data["seed"])

    def views(self, region: torch.Tensor, slot: int) -> dict[str, torch.Tensor]:
        """Return the tensors of one slot by name, as views of `region` (uint8, shape [size])."""
        views = {}
        for spec, offset in zip(self.specs, self.offsets, strict=True):
            start = self.row_of(slot) * self.stride + offset
            flat = region[start : start + spec.bytes].view(torch_dtype(spec.dtype))
            views[spec.name] = flat.view(spec.shape)
        return views

    def columns(self, region: torch.Tensor) -> dict[str, torch.Tensor]:
        """Return each tensor of every row, flattened, by name.

        They are views of `region`, of shape [slots, elements].
        """
        rows = self.rows(region)
        return {
            spec.name: rows[:, offset : offset + spec.bytes].view(spec.torch_dtype)
            for spec, offset in zip(self.specs, self.offsets, strict=True)
        }

    def rows(self, region: torch.Tensor) -> torch.Tensor:
        """Return the bytes of every row of `region` (uint8): shape [slots, stride]."""
        return region[: self.stride * self.slots].view(self.slots, self.stride)

    def gaps(self) -> list[tuple[int, int]]:
        """Return the byte ranges of a slot outside its tensors, padding included."""
        gaps, end = [], 0
        for spec, offset in zip(self.specs, self.offsets, strict=True):
            gaps.append((end, offset))
            end = offset + spec.bytes
        return [*gaps, (end, self.stride)]


def map_region(descriptor: int, size: int, read_only: bool = False) -> torch.Tensor:
    """Return shared host memory as a uint8 tensor of shape [size].

    A write to a `read_only` one ends the process by a signal.
    """
    rights = mmap.PROT_READ if read_only else mmap.PROT_READ | mmap.PROT_WRITE
    # Its pages are mapped now, or else their faults would be part of the first times.
    memory = mmap.mmap(descriptor, size, flags=mmap.MAP_SHARED | mmap.MAP_POPULATE, prot=rights)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The given buffer is not writable")
        return torch.frombuffer(memory, dtype=torch.uint8)
