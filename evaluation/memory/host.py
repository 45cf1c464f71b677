"""Host memory shared with processes on a CPU: sealed memfds, which nobody can grow or shrink."""

from __future__ import annotations

import fcntl
import os
from typing import Any

import torch

from evaluation.memory.layout import Layout, Region, map_region

F_SEAL_FUTURE_WRITE = 0x10
"""Seal against new writable mappings; the maker's own stays (Linux 5.1, fcntl(2))."""


class HostMemory:
    """Source of regions for processes on a CPU; every region has its own memfd."""

    device = torch.device("cpu")

    def region(self, role: str, layout: Layout) -> Region:
        return HostRegion(layout)

    def close(self) -> None:
        """Do nothing: regions close their own memory."""


class HostRegion(Region):
    """A region in a sealed memfd."""

    def __init__(self, layout: Layout, read_only: bool = False) -> None:
        """Make a region. Of a `read_only` one no other process can make a writable mapping."""
        self.descriptor = os.memfd_create("arena", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self.descriptor, layout.size)
        memory = map_region(self.descriptor, layout.size)
        seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
        seals |= F_SEAL_FUTURE_WRITE if read_only else 0
        fcntl.fcntl(self.descriptor, fcntl.F_ADD_SEALS, seals)
        super().__init__(layout, memory)

    def share(self) -> tuple[dict[str, Any], list[int]]:
        return self.layout.to_json(), [self.descriptor]

    def close(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1
