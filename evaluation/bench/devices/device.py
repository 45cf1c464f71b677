"""Devices with their measured peaks, and the roofline."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Level:
    """One level of the memory hierarchy: its bytes (0: unbounded) and bandwidth in GB/s."""

    name: str
    bytes: int
    gbps: float


@dataclass(frozen=True)
class Device:
    """A device that can time kernels.

    `slug` names its model and `queue` the queue for that model; `uuid` tells equal devices apart.
    `levels` run from the smallest cache to main memory; bandwidth counts bytes read and written, by
    the threads of one process. `peaks` has the same figures by name, and `float32_tflops`.
    """

    slug: str
    kind: str
    vendor: str
    name: str
    arch: str
    queue: str
    cores: int
    threads: int
    memory_bytes: int
    last_level_cache_bytes: int
    levels: tuple[Level, ...]
    peaks: Mapping[str, float]
    isolation: Mapping[str, Any]
    fingerprint: Mapping[str, Any]
    environment: Mapping[str, str] = field(default_factory=dict)
    """Environment of a process that can use this device only."""
    unjudged: str = ""
    """Reason why kernels are not judged on it; empty where they are."""

    @property
    def uuid(self) -> str:
        """The UUID of this device among others of its model; empty for a CPU."""
        return str(self.fingerprint.get("uuid", ""))

    def roofline_seconds(
        self, moved: float, flops: float, working_set: int, unit: str = "float32"
    ) -> float:
        """Return the least seconds in which `moved` bytes and `flops` operations can be done.

        Operations are done at the peak of `unit`, a dtype, where that was measured. Bytes move at
        the bandwidth of the smallest level that holds `working_set` bytes. The roofline is the
        larger time.

        Source: Williams, Waterman and Patterson, "Roofline", CACM 2009.
        """
        level = next(lv for lv in self.levels if lv.bytes == 0 or working_set <= lv.bytes)
        tflops = self.peaks.get(f"{unit}_tflops", self.peaks["float32_tflops"])
        return max(moved / (level.gbps * 1e9), flops / (tflops * 1e12))


def slug_of(name: str) -> str:
    """Return a device's name for URLs and names of queues."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
