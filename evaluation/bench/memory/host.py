"""Host memory shared with processes on a CPU: sealed memfds, which nobody can grow or shrink."""

from __future__ import annotations

import fcntl
import os
from typing import Any

import torch

from evaluation.bench.memory.layout import Layout, map_region
from evaluation.bench.memory.region import Region

F_SEAL_FUTURE_WRITE = 0x10
"""Seal against new writable mappings; the maker's own stays (Linux 5.1, fcntl(2))."""


class HostMemory:
    """Shared host memory, with one allocation for each role, such as "inputs".

    Cases reuse an allocation, which grows: Linux clears each page of a new one.
    """

    device = torch.device("cpu")

    def __init__(self) -> None:
        self._blocks: dict[str, HostBlock] = {}

    def region(self, role: str, layout: Layout) -> Region:
        """Return a region that replaces the role's earlier ones."""
        block = self._blocks.get(role)
        if block is None or block.size < layout.size:
            if block:
                block.free()
            block = self._blocks[role] = HostBlock(layout.size + layout.size // 4)
        return HostRegion(layout, block=block)

    def close(self) -> None:
        """Free all blocks. One that another process has mapped stays until that process ends."""
        for block in self._blocks.values():
            block.free()
        self._blocks.clear()


class HostBlock:
    """A sealed memfd, mapped here."""

    def __init__(self, size: int, read_only: bool = False) -> None:
        """Make a block. Of a `read_only` one no other process can make a writable mapping."""
        self.size = size
        self.descriptor = os.memfd_create("arena", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self.descriptor, size)
        self.memory = map_region(self.descriptor, size)
        seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
        seals |= F_SEAL_FUTURE_WRITE if read_only else 0
        fcntl.fcntl(self.descriptor, fcntl.F_ADD_SEALS, seals)

    def free(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


class HostRegion(Region):
    """A region at the start of a block, or one with a block of its own."""

    def __init__(
        self, layout: Layout, read_only: bool = False, block: HostBlock | None = None
    ) -> None:
        """Make a region. `read_only` is for a block of its own."""
        self._block, self._owns_block = block or HostBlock(layout.size, read_only), block is None
        super().__init__(layout, self._block.memory[: layout.size])

    @property
    def descriptor(self) -> int:
        return self._block.descriptor

    def share(self) -> tuple[dict[str, Any], list[int]]:
        return self.layout.to_json(), [self.descriptor]

    def close(self) -> None:
        if self._owns_block:
            self._block.free()
