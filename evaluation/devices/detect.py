"""Detection of this machine's devices, by asking every vendor."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Protocol, cast

from evaluation.building.cache_folder import default_cache
from evaluation.device_kind import CPU, GPU
from evaluation.devices import vendors
from evaluation.devices.device import Device
from evaluation.errors import Broken, RequestError


class Vendor(Protocol):
    """A module of this folder: one vendor, one file."""

    KIND: str
    """The kind of all its devices (see `evaluation.device_kind`)."""

    def devices(self, cache: Path, again: bool = False) -> Sequence[Device]:
        """The vendor's devices on this machine, measured now or earlier (kept in `cache`).

        `again` measures now in any case; the better of what was kept and what is found is kept.
        """

    def state(self, device: Device) -> dict[str, Any]:
        """What a device tells of itself now, such as clocks, temperature and power; nothing of
        one of another vendor's.
        """


def state(device: Device) -> dict[str, Any]:
    """Clocks, temperature and power now, of a device that tells."""
    return {name: now for vendor in _vendors() for name, now in vendor.state(device).items()}


def device_for(kind: str, cache_folder: Path) -> Device:
    """The first device of a kind that is judged on. Raises Broken where this machine has none."""
    for device in _devices(cache_folder, kind):
        if not device.unjudged:
            return device
    advice = "; PyTorch reaches none: mend its driver, or set ARENA_GPU=none" if kind == GPU else ""
    raise Broken(f"this machine has no {kind} that can be judged on{advice}")


def named(name: str, cache_folder: Path) -> Device:
    """The device of this number (as they are listed, from 0), slug or UUID; of several that are
    alike the first. Raises RequestError.
    """
    found = devices(cache_folder)
    for number, device in enumerate(found):
        if name in (str(number), device.slug, device.uuid):
            return device
    known = ", ".join(f"{number} {device.slug}" for number, device in enumerate(found))
    raise RequestError(f"there is no device {name} here; there are: {known}")


def devices(
    cache_folder: Path | None = None, kinds: Sequence[str] = (GPU, CPU)
) -> tuple[Device, ...]:
    """Every device of this machine that is of these kinds, GPUs before CPUs."""
    folder = cache_folder or default_cache()
    return tuple(device for kind in kinds for device in _devices(folder, kind))


def measured_again(device: Device, cache_folder: Path) -> Device:
    """The same device with its peaks measured once more; they can only rise.

    Peaks that were measured on a busy machine lie too low. That is ruled out before anything is
    called too fast.
    """
    _devices.cache_clear()
    found = _found(cache_folder, device.kind, again=True)
    return next(each for each in found if (each.slug, each.uuid) == (device.slug, device.uuid))


@cache
def _devices(cache_folder: Path, kind: str) -> tuple[Device, ...]:
    return tuple(_found(cache_folder, kind))


def _found(cache_folder: Path, kind: str, again: bool = False) -> Iterable[Device]:
    for vendor in _vendors():
        if kind == vendor.KIND:
            yield from vendor.devices(cache_folder, again)


@cache
def _vendors() -> tuple[Vendor, ...]:
    return tuple(
        cast(Vendor, importlib.import_module(f"{vendors.__name__}.{module.name}"))
        for module in pkgutil.iter_modules(vendors.__path__)
    )


def render(found: Sequence[Device]) -> str:
    """The devices as text for a terminal."""
    lines: list[str] = []
    for number, device in enumerate(found):
        walls = ", ".join(f"{name} {value}" for name, value in device.isolation.items())
        lines += [
            f"{number}  {device.slug}  {device.name} ({device.arch}), {device.cores} "
            f"{'cores' if device.kind == 'cpu' else 'multiprocessors'}, "
            f"{device.memory_bytes / 2**30:.0f} GiB",
            f"  queue      {device.queue}",
            *([f"  uuid       {device.uuid}"] if device.uuid else []),
            *([f"  {device.unjudged}"] if device.unjudged else []),
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
