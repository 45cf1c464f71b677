"""Tensors in shared memory: their places, and guard bands around them.

A region holds `slots` equal slots. A slot holds each tensor of one launch behind a guard band of
random bytes, and ends with one more band. On a host a region is a sealed memfd, which nobody can
grow or shrink.
"""

from __future__ import annotations

import dataclasses
import fcntl
import functools
import math
import mmap
import os
import secrets
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from evaluation.tasks.input_families import torch_dtype

ALIGNMENT = 512
"""Bytes, as PyTorch aligns its tensors; textures need it."""
GUARD = 1024
"""Bytes between tensors, a multiple of ALIGNMENT."""
_WORD, _WIDE = 8, torch.int64
Rows = slice | int | torch.Tensor
"""Rows of a column: contiguous ones, a single one, or those with these numbers."""


@dataclass(frozen=True)
class TensorSpec:
    """Name, shape and torch dtype name of one tensor of a launch."""

    name: str
    shape: tuple[int, ...]
    dtype: str

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
    order: tuple[int, ...] = ()
    """The row of memory of each slot; empty where rows are in the order of slots."""

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
        """Return the layout with rows in a random order, so that no strided view spans slots."""
        order = secrets.SystemRandom().sample(range(self.slots), self.slots)
        return dataclasses.replace(self, order=tuple(order))

    def row_of(self, slot: int) -> int:
        return self.order[slot] if self.order else slot

    def rows_of(self, slots: torch.Tensor) -> torch.Tensor:
        """Return the rows of some slots (int64, any shape)."""
        return self._order[slots] if self.order else slots

    @functools.cached_property
    def _order(self) -> torch.Tensor:
        return torch.tensor(self.order)

    def to_json(self) -> dict[str, Any]:
        specs = [[spec.name, list(spec.shape), spec.dtype] for spec in self.specs]
        return {"specs": specs, "slots": self.slots, "order": self.order}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Layout:
        specs = [TensorSpec(name, tuple(shape), dtype) for name, shape, dtype in data["specs"]]
        return dataclasses.replace(cls.of(specs, data["slots"]), order=tuple(data["order"]))

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


def map_region(descriptor: int, size: int) -> torch.Tensor:
    """Return a shared region as a uint8 tensor of shape [size]."""
    # Its pages are there at once: else the first windows would be clocked with their faults.
    memory = mmap.mmap(descriptor, size, flags=mmap.MAP_SHARED | mmap.MAP_POPULATE)
    return torch.frombuffer(memory, dtype=torch.uint8)


class Region(ABC):
    """The judge's view of a region: its memory (uint8, shape [size]) with guard bands."""

    def __init__(self, layout: Layout, memory: torch.Tensor) -> None:
        self.layout = layout
        self.bytes = memory
        self._bands: list[tuple[int, torch.Tensor, torch.Tensor]] = []
        """The gap of each band, its place in every row, and its bytes."""
        rows = layout.rows(memory)
        for gap, (start, end) in enumerate(layout.gaps()):
            # A word at a time, which takes an eighth of the time, where a tensor ends with a word.
            middle = min(end, -(-start // _WORD) * _WORD)
            for place in (rows[:, start:middle], rows[:, middle:end].view(_WIDE)):
                if place.shape[1]:
                    band = _random_bytes(place.shape[1] * place.itemsize).view(place.dtype)
                    place[:] = band = band.to(memory.device)
                    self._bands.append((gap, place, band))

    def slot(self, index: int) -> dict[str, torch.Tensor]:
        """Return the tensors of one slot by name."""
        return self.layout.views(self.bytes, index)

    def row(self, slot: int) -> torch.Tensor:
        """Return the bytes of one slot: uint8, shape [stride]."""
        return self.layout.rows(self.bytes)[self.layout.row_of(slot)]

    def column(self, name: str) -> torch.Tensor:
        """Return one tensor of every row, flattened, in memory order: shape [slots, elements]."""
        return self.layout.columns(self.bytes)[name]

    @abstractmethod
    def share(self) -> tuple[dict[str, Any], list[int]]:
        """Return the description of this region and the descriptors to send with it."""

    def breached(self, parts: Sequence[Rows] = (slice(None),)) -> str:
        """Return the tensor next to an overwritten band of those rows; empty when all are whole."""
        names = [spec.name for spec in self.layout.specs]
        looks = [
            (gap, (place[part] != band).any()) for gap, place, band in self._bands for part in parts
        ]
        # All at once: each answer of a GPU's takes its time.
        changed = torch.stack([poll for _, poll in looks]).tolist()
        gaps = [gap for (gap, _), whole in zip(looks, changed, strict=True) if whole]
        if not gaps:
            return ""
        return f"before {names[0]}" if gaps[0] == 0 else f"after {names[gaps[0] - 1]}"

    def close(self) -> None:  # noqa: B027 - a region whose memory is another's keeps it
        """Free the memory; views of it must not be used any more."""


class HostRegion(Region):
    """A region in a sealed memfd."""

    def __init__(self, layout: Layout) -> None:
        self.descriptor = os.memfd_create("arena", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self.descriptor, layout.size)
        seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
        fcntl.fcntl(self.descriptor, fcntl.F_ADD_SEALS, seals)
        super().__init__(layout, map_region(self.descriptor, layout.size))

    def share(self) -> tuple[dict[str, Any], list[int]]:
        return self.layout.to_json(), [self.descriptor]

    def close(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


class HostMemory:
    """Source of regions for processes on a CPU."""

    device = torch.device("cpu")

    def region(self, role: str, layout: Layout) -> Region:
        return HostRegion(layout)

    def close(self) -> None:
        """Free everything."""


def _random_bytes(count: int) -> torch.Tensor:
    return torch.frombuffer(bytearray(os.urandom(count)), dtype=torch.uint8)


def bits_of(tensor: torch.Tensor) -> torch.Tensor:
    """Return the same memory as integers, so that NaN compares like any other value."""
    if not tensor.dtype.is_floating_point:
        return tensor
    kind = {2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.dtype.itemsize]
    return tensor.view(kind)


def poison(tensor: torch.Tensor, secret: int, rows: Rows = slice(None)) -> None:
    """Fill outputs with a value that no right output holds.

    It is a NaN with a secret payload, or a secret integer. `tensor` has the shape [elements], or
    [slots, elements], of which `rows` can select some.
    """
    bits, word = bits_of(tensor), poison_bits(tensor.dtype, secret)
    size = bits.dtype.itemsize
    pace = _WIDE.itemsize // size
    if all(n % pace == 0 for n in (bits.shape[-1], *bits.stride()[:-1], bits.storage_offset())):
        # Written a word of memory at a time, which takes a third of the time on a GPU.
        whole = word.to_bytes(size, "little", signed=True) * pace
        bits, word = bits.view(_WIDE), int.from_bytes(whole, "little", signed=True)
    if isinstance(rows, torch.Tensor):
        bits[rows] = word
    else:
        bits[rows].fill_(word)


_ALL_ONES = {
    torch.float16: 0x7C00,
    torch.bfloat16: 0x7F80,
    torch.float32: 0x7F80_0000,
    torch.float64: 0x7FF0 << 48,
}


def poison_bits(dtype: torch.dtype, secret: int) -> int:
    """Return the bit pattern of the poison: exponent all ones and a payload of secret bits."""
    mask = (1 << (8 * dtype.itemsize - 1)) - 1
    if not dtype.is_floating_point:
        return -1 - (secret & (mask >> 1))
    exponent = _ALL_ONES[dtype]
    payload = secret & (mask ^ exponent)
    return exponent | payload | 1


def unwritten(tensor: torch.Tensor, secret: int) -> torch.Tensor:
    """Return where an output still holds its poison (bool, the tensor's shape)."""
    return bits_of(tensor) == poison_bits(tensor.dtype, secret)
