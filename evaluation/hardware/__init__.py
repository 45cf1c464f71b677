"""What devices this machine has, what they were measured to do, and the roofline that follows."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Protocol, cast

from evaluation.builds import default_cache
from evaluation.errors import Broken
from evaluation.place import GPU


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

    `levels` run from the smallest cache to main memory; bandwidth counts bytes read and written, by
    as many threads as a contestant gets. `peaks` holds the same figures under one name each, and
    `float32_tflops`. `queue` is the name under which work for this device model waits.
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

    def state(self) -> dict[str, Any]:
        """Clocks, temperature and power now, of a device that tells."""
        if self.vendor != "NVIDIA":
            return {}
        from evaluation.hardware import nvidia

        return {"now": nvidia.state(str(self.fingerprint["uuid"]))}

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


class Vendor(Protocol):
    """A module of this folder: one vendor, one file."""

    def devices(self, cache: Path, again: bool = False) -> Sequence[Device]:
        """The vendor's devices on this machine, measured now or earlier (kept in `cache`).

        `again` measures now in any case; the better of what was kept and what is found is kept.
        """


def device_for(kind: str, cache_folder: Path) -> Device:
    """The first device of a kind. Raises Broken where this machine has none."""
    for device in devices(cache_folder):
        if device.kind == kind:
            return device
    advice = "; PyTorch reaches none: mend its driver, or set ARENA_GPU=none" if kind == GPU else ""
    raise Broken(f"this machine has no {kind} that can be judged on{advice}")


@cache
def devices(cache_folder: Path | None = None) -> tuple[Device, ...]:
    """Every device of this machine, GPUs before CPUs."""
    return _found(cache_folder or default_cache())


def measured_again(device: Device, cache_folder: Path) -> Device:
    """The same device with its peaks measured once more; they can only rise.

    Peaks that were measured on a busy machine lie too low. That is ruled out before anything is
    called too fast.
    """
    devices.cache_clear()
    return next(found for found in _found(cache_folder, again=True) if found.slug == device.slug)


def _found(cache_folder: Path, again: bool = False) -> tuple[Device, ...]:
    vendors = [
        cast(Vendor, importlib.import_module(f"{__name__}.{module.name}"))
        for module in pkgutil.iter_modules(__path__)
    ]
    found = [device for vendor in vendors for device in vendor.devices(cache_folder, again)]
    return tuple(sorted(found, key=lambda device: device.kind == "cpu"))


def render(found: Sequence[Device]) -> str:
    """The devices as text for a terminal."""
    lines: list[str] = []
    for device in found:
        walls = ", ".join(f"{name} {value}" for name, value in device.isolation.items())
        lines += [
            f"{device.slug}  {device.name} ({device.arch}), {device.cores} "
            f"{'cores' if device.kind == 'cpu' else 'multiprocessors'}, "
            f"{device.memory_bytes / 2**30:.0f} GiB",
            f"  queue      {device.queue}",
            *(
                [f"  contestants run on {device.threads} of its cores"]
                if device.kind == "cpu"
                else []
            ),
            *(
                f"  {level.name:<10} {_size(level.bytes):>9}  {level.gbps:8.1f} GB/s"
                for level in device.levels
            ),
            *(
                f"  {name.removesuffix('_tflops'):<10} {rate * 1e3:19.1f} GFLOP/s"
                for name, rate in device.peaks.items()
                if name.endswith("_tflops")
            ),
            f"  isolation  {walls}",
        ]
    return "\n".join(lines)


def _size(count: int) -> str:
    if count == 0:
        return ""
    return f"{count >> 20} MiB" if count >= 1 << 20 else f"{count >> 10} KiB"
