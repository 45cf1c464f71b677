"""Device files of the GPUs that are measured. Processes of a verdict can open those of no other.

NVIDIA's driver lets a process use a GPU whose `/dev/nvidia<minor>` it has open. A part of a GPU
(MIG) also needs the capabilities of its GPU instance and compute instance.

Source: NVIDIA Multi-Instance GPU User Guide, "Device Nodes and Capabilities".
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evaluation import device_kind
from evaluation.errors import Broken

CONTROL_FILES = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools")
"""Files that every process with an NVIDIA GPU opens."""
AMD_FILES = ("kfd", "dri")
CAPABILITIES = Path("/proc/driver/nvidia/capabilities")
PARTS = "gpu*/mig/gi*"
"""Folders of GPU instances in `CAPABILITIES`."""
_UUID = re.compile(r"(?:GPU|MIG)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""A whole name. CUDA also accepts the beginning of one, and numbers in an order of its own."""


@dataclass(frozen=True)
class Gpus:
    """GPUs by their names for `CUDA_VISIBLE_DEVICES`, and the files to open them."""

    names: tuple[str, ...]
    files: tuple[str, ...]


def measured(count: int = 1) -> Gpus:
    """Return the GPUs that the judge measures on: the first ones that it sees.

    They are named by UUID where there are others. A process that cannot open those counts its GPUs
    in another order.

    Raises: Broken where the driver does not know them.
    """
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", ",".join(map(str, range(count))))
    names = tuple(name.strip() for name in visible.split(","))[:count]
    if not _several():
        return Gpus(names, _files_of_all())
    known = all(map(_UUID.fullmatch, names))
    return _named(names if known else tuple(_uuid(position) for position in range(len(names))))


def of_uuid(uuid: str) -> Gpus:
    """Return a GPU by its UUID as CUDA prints it. Raises Broken where the driver has none."""
    return _named((uuid,)) if _several() else Gpus((f"GPU-{uuid}",), _files_of_all())


def _several() -> bool:
    """Return whether there are several GPUs, or parts of one."""
    return len(_minor_files()) > 1 or any(CAPABILITIES.glob(PARTS))


def _minor_files() -> list[str]:
    return sorted(str(path) for path in device_kind.DEVICES.glob("nvidia[0-9]*"))


def _files_of_all() -> tuple[str, ...]:
    nvidia = _minor_files()
    return _existing(CONTROL_FILES if nvidia else AMD_FILES) + tuple(nvidia)


def _existing(names: Sequence[str]) -> tuple[str, ...]:
    paths = (device_kind.DEVICES / name for name in names)
    return tuple(str(path) for path in paths if path.exists())


def _uuid(position: int) -> str:
    """Return the UUID of a visible GPU by its position, whose order CUDA alone knows."""
    import torch

    return str(torch.cuda.get_device_properties(position).uuid)


@functools.cache
def _named(uuids: tuple[str, ...]) -> Gpus:
    try:
        import pynvml
    except ImportError:
        raise Broken("install nvidia-ml-py: with it a candidate gets one GPU of several") from None
    try:
        pynvml.nvmlInit()
        found = [_find(pynvml, uuid) for uuid in uuids]
        files = [file for name, handle in found for file in _files(pynvml, name, handle)]
    except (pynvml.NVMLError, OSError, ValueError) as error:
        raise Broken(f"the device file of {', '.join(uuids)} is unknown: {error}") from error
    names = tuple(name for name, _ in found)
    return Gpus(names, tuple(dict.fromkeys((*_existing(CONTROL_FILES), *files))))


def _find(pynvml: Any, uuid: str) -> tuple[str, Any]:
    """Return the name and the handle of a GPU, or of a part of one."""
    bare = uuid.removeprefix("GPU-").removeprefix("MIG-")
    try:
        return f"GPU-{bare}", pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{bare}")
    except pynvml.NVMLError:
        return f"MIG-{bare}", pynvml.nvmlDeviceGetHandleByUUID(f"MIG-{bare}")


def _files(pynvml: Any, name: str, handle: Any) -> list[str]:
    """Return the device file of a GPU; for a part, also those of its capabilities."""
    if name.startswith("GPU-"):
        return [_minor_file(pynvml.nvmlDeviceGetMinorNumber(handle))]
    gpu = pynvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(handle)
    minor = pynvml.nvmlDeviceGetMinorNumber(gpu)
    of_gpu, of_part = (
        f"gi{pynvml.nvmlDeviceGetGpuInstanceId(handle)}",
        f"ci{pynvml.nvmlDeviceGetComputeInstanceId(handle)}",
    )
    instance = CAPABILITIES / f"gpu{minor}" / "mig" / of_gpu
    access = (instance / "access", instance / of_part / "access")
    return [_minor_file(minor), *map(_capability, access)]


def _minor_file(minor: int) -> str:
    return str(device_kind.DEVICES / f"nvidia{minor}")


def _capability(access: Path) -> str:
    """Return the device file of a capability."""
    found = re.search(r"^DeviceFileMinor: (\d+)$", access.read_text(), re.MULTILINE)
    if found is None:
        raise ValueError(f"{access} names no device file")
    return str(device_kind.DEVICES / "nvidia-caps" / f"nvidia-cap{found[1]}")
