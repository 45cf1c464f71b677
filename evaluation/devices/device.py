"""A device with its measured peaks, and the roofline that follows from them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Level:
    """One level of the memory hierarchy: its size in bytes (0: unbounded) and its measured
    bandwidth in GB/s.
    """

    name: str
    bytes: int
    gbps: float


@dataclass(frozen=True)
class Device:
    """A device that can time kernels.

    `slug` names its model, as `queue` names where work for that model waits: devices that are alike
    share both, and `uuid` tells them apart. `levels` run from the smallest cache to main memory;
    bandwidth counts bytes read and written, by as many threads as a contestant gets. `peaks` holds
    the same figures under one name each, and `float32_tflops`.
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
    """What a process is given that is to see this device alone."""
    unjudged: str = ""
    """Why no kernel is judged on it; empty where they are."""

    @property
    def uuid(self) -> str:
        """Which one of its model it is; empty for a processor."""
        return str(self.fingerprint.get("uuid", ""))

    def roofline_seconds(
        self, moved: int, flops: int, working_set: int, unit: str = "float32"
    ) -> float:
        """The least seconds in which `moved` bytes and `flops` operations can be done.

        Operations are done at the peak of `unit`, a dtype, where that was measured; bytes move at
        the bandwidth of the smallest level that holds `working_set` bytes. The roofline is the
        larger of the two times. Source: Williams, Waterman and Patterson, "Roofline", CACM 2009.
        """
        level = next(lv for lv in self.levels if lv.bytes == 0 or working_set <= lv.bytes)
        tflops = self.peaks.get(f"{unit}_tflops", self.peaks["float32_tflops"])
        return max(moved / (level.gbps * 1e9), flops / (tflops * 1e12))


def slug_of(name: str) -> str:
    """A device's name as it stands in addresses and in the names of queues."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
