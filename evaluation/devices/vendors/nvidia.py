"""NVIDIA GPUs: what the driver says of them (NVML), and the peaks that PyTorch reaches on them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from evaluation import device_kind
from evaluation.devices import peaks_gpu
from evaluation.devices.device import Device, slug_of

KIND = device_kind.GPU
VENDOR = "NVIDIA"
ISA = {"7.5": "Turing", "8.0": "Ampere", "8.6": "Ampere", "8.9": "Ada Lovelace", "9.0": "Hopper"}
ISA |= {"10.0": "Blackwell", "10.3": "Blackwell", "12.0": "Blackwell"}


def devices(cache: Path, again: bool = False) -> Sequence[Device]:
    """The GPUs that this process sees, in CUDA's order; of each model the first is measured."""
    if device_kind.gpu_vendor() != "nvidia":
        return []
    import torch

    found: list[Device] = []
    count = torch.cuda.device_count()
    for index in range(count):
        properties = torch.cuda.get_device_properties(index)
        uuid = str(properties.uuid)
        capability = f"{properties.major}.{properties.minor}"
        model = {
            "name": properties.name,
            "capability": capability,
            "multiprocessors": properties.multi_processor_count,
            "memory_bytes": properties.total_memory,
            "l2_bytes": properties.L2_cache_size,
            "cuda": torch.version.cuda,
            "driver": _told(uuid).get("driver", ""),
        }
        slug = slug_of(properties.name)
        first = all(other.slug != slug for other in found)
        peaks = peaks_gpu.measured(cache, model, index, again and first)
        found.append(
            peaks_gpu.device(
                model,
                peaks,
                vendor=VENDOR,
                arch=f"sm_{capability.replace('.', '')} {ISA.get(capability, '')}".strip(),
                uuid=uuid,
                # Alone already, it needs no name; a part of a GPU (MIG) has none of this form.
                environment={"CUDA_VISIBLE_DEVICES": f"GPU-{uuid}"} if count > 1 else {},
            )
        )
    return found


def state(device: Device) -> dict[str, Any]:
    return _told(device.uuid) if device.vendor == VENDOR else {}


def _told(uuid: str) -> dict[str, Any]:
    """What NVML says of a GPU now: driver, clocks in MHz, degrees Celsius, watts, throttle reasons;
    nothing where NVML cannot be asked.
    """
    try:
        import pynvml
    except ImportError:
        return {}
    try:
        pynvml.nvmlInit()
        gpu = pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}")
    except pynvml.NVMLError:
        return {}
    clock, sensor = pynvml.nvmlDeviceGetClockInfo, pynvml.NVML_TEMPERATURE_GPU
    asked: dict[str, Callable[[], Any]] = {
        "driver": pynvml.nvmlSystemGetDriverVersion,
        "sm_mhz": lambda: clock(gpu, pynvml.NVML_CLOCK_SM),
        "memory_mhz": lambda: clock(gpu, pynvml.NVML_CLOCK_MEM),
        "celsius": lambda: pynvml.nvmlDeviceGetTemperature(gpu, sensor),
        "watts": lambda: pynvml.nvmlDeviceGetPowerUsage(gpu) / 1e3,
        "throttled": lambda: _throttled(pynvml, gpu),
    }
    told = {}
    for name, ask in asked.items():
        with contextlib.suppress(pynvml.NVMLError):  # what this card does not tell
            told[name] = ask()
    return told


def _throttled(pynvml: Any, gpu: Any) -> list[str]:
    reasons = pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(gpu)
    prefix = "nvmlClocksThrottleReason"
    return sorted(
        name.removeprefix(prefix)
        for name in dir(pynvml)
        if name.startswith(prefix)
        and not name.endswith(("All", "None"))
        and reasons & getattr(pynvml, name)
    )
