"""NVIDIA GPUs: what the driver says of them (NVML), and the peaks that PyTorch reaches on them."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evaluation import gpu_peaks, place
from evaluation.hardware import Device, slug_of

KIND = place.GPU
VENDOR = "NVIDIA"
ISA = {"7.5": "Turing", "8.0": "Ampere", "8.6": "Ampere", "8.9": "Ada Lovelace", "9.0": "Hopper"}
ISA |= {"10.0": "Blackwell", "10.3": "Blackwell", "12.0": "Blackwell"}


def devices(cache: Path, again: bool = False) -> Sequence[Device]:
    """The GPUs that this process sees, in CUDA's order; of each model the first is measured."""
    if place.gpu_vendor() != "nvidia":
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
        peaks = gpu_peaks.measured(cache, model, index, again and first)
        found.append(
            gpu_peaks.device(
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
    with contextlib.suppress(pynvml.NVMLError):
        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}")
        reasons = pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)
        names = (
            (name.removeprefix("nvmlClocksThrottleReason"), getattr(pynvml, name))
            for name in dir(pynvml)
            if name.startswith("nvmlClocksThrottleReason") and not name.endswith(("All", "None"))
        )
        return {
            "driver": pynvml.nvmlSystemGetDriverVersion(),
            "sm_mhz": pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM),
            "memory_mhz": pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_MEM),
            "celsius": pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU),
            "watts": pynvml.nvmlDeviceGetPowerUsage(handle) / 1e3,
            "throttled": sorted(name for name, bit in names if reasons & bit),
        }
    return {}
