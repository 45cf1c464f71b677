"""Detection of this machine's devices through every vendor."""

from __future__ import annotations

import hashlib
import importlib
import pkgutil
import socket
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Protocol, cast

from evaluation.bench.devices import vendors
from evaluation.bench.devices.device import Device
from evaluation.device_kind import CPU, GPU
from evaluation.errors import Broken, RequestError

MACHINE_ID = Path("/etc/machine-id")


class Vendor(Protocol):
    """A module of `vendors/`: one vendor, one file."""

    KIND: str
    """The kind of all its devices (see `evaluation.device_kind`)."""

    def devices(self, cache: Path, again: bool = False) -> Sequence[Device]:
        """Return the vendor's devices here, measured now or earlier (cached in `cache`).

        `again` measures in any case; the better value is kept.
        """

    def state(self, device: Device) -> dict[str, Any]:
        """Return clocks, temperature and power now; empty for another vendor's device."""


def state(device: Device) -> dict[str, Any]:
    """Return clocks, temperature and power now, where the device reports them."""
    return {name: now for vendor in _vendors() for name, now in vendor.state(device).items()}


def fingerprint(kind: str, cache_folder: Path) -> dict[str, Any]:
    """Return what identifies the device of a verdict, its machine, and its state now.

    It is empty without a device.
    """
    try:
        device = device_for(kind, cache_folder)
    except Broken:
        return {}
    now = state(device)
    return {**device.fingerprint, "machine": machine_name(), **({"now": now} if now else {})}


def machine_name(identity: Path = MACHINE_ID, host: Callable[[], str] = socket.gethostname) -> str:
    """Return a name by which machines of one device are told apart, and that tells no more.

    Source: machine-id(5), which asks that the identity itself is not shown. A container has none.
    """
    try:
        text = identity.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        text = ""
    return hashlib.sha256((text or host()).encode()).hexdigest()[:12]


def device_for(kind: str, cache_folder: Path) -> Device:
    """Return the first device of a kind on which kernels are judged.

    Raises: Broken where this machine has none.
    """
    for device in _devices(cache_folder, kind):
        if not device.unjudged:
            return device
    advice = "; PyTorch reaches none: mend its driver, or set ARENA_GPU=none" if kind == GPU else ""
    raise Broken(f"this machine has no {kind} that can be judged on{advice}")


def find(name: str, cache_folder: Path) -> Device:
    """Return the device with this number (from 0, as listed), slug or UUID.

    Raises: RequestError.
    """
    found = devices(cache_folder)
    for number, device in enumerate(found):
        if name in (str(number), device.slug, device.uuid):
            return device
    known = ", ".join(f"{number} {device.slug}" for number, device in enumerate(found))
    raise RequestError(f"there is no device {name} here; there are: {known}")


def devices(cache_folder: Path, kinds: Sequence[str] = (GPU, CPU)) -> tuple[Device, ...]:
    """Return every device of these kinds, GPUs before CPUs."""
    return tuple(device for kind in kinds for device in _devices(cache_folder, kind))


def measure_again(device: Device, cache_folder: Path) -> Device:
    """Return the device with its peaks measured once more; they can only rise.

    Peaks measured on a busy machine are too low, which must be excluded before a time is disputed.
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
