"""NVIDIA GPUs: state from the driver (NVML), peaks from PyTorch."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from evaluation import device_kind
from evaluation.bench.devices import peaks_gpu
from evaluation.bench.devices.device import Device

KIND = device_kind.GPU
VENDOR = "NVIDIA"
ISA = {"7.5": "Turing", "8.0": "Ampere", "8.6": "Ampere", "8.9": "Ada Lovelace", "9.0": "Hopper"}
ISA |= {"10.0": "Blackwell", "10.3": "Blackwell", "12.0": "Blackwell"}


def devices(cache: Path, again: bool = False) -> Sequence[Device]:
    """Return the GPUs that this process sees, in CUDA's order."""
    if device_kind.gpu_vendor() != "nvidia":
        return []
    import torch  # takes a second to import

    return peaks_gpu.devices(
        [_gpu(torch, index) for index in range(torch.cuda.device_count())], VENDOR, cache, again
    )


def _gpu(torch: Any, index: int) -> peaks_gpu.Gpu:
    properties = torch.cuda.get_device_properties(index)
    uuid = str(properties.uuid)
    capability = f"{properties.major}.{properties.minor}"
    return peaks_gpu.Gpu(
        model={
            "name": properties.name,
            "capability": capability,
            "multiprocessors": properties.multi_processor_count,
            "memory_bytes": properties.total_memory,
            "l2_bytes": properties.L2_cache_size,
            "cuda": torch.version.cuda,
            "driver": nvml_state(uuid).get("driver", ""),
        },
        arch=f"sm_{capability.replace('.', '')} {ISA.get(capability, '')}".strip(),
        uuid=uuid,
        # Not for a part of a GPU (MIG), whose name has another form.
        environment={"CUDA_VISIBLE_DEVICES": f"GPU-{uuid}"},
    )


def state(device: Device) -> dict[str, Any]:
    """Return a GPU's state; empty for another vendor's device."""
    return nvml_state(device.uuid) if device.vendor == VENDOR else {}


def nvml_state(uuid: str) -> dict[str, Any]:
    """Return a GPU's state from NVML; empty without NVML.

    Units: clocks in MHz, degrees Celsius, watts.
    """
    try:
        import pynvml  # optional
    except ImportError:
        return {}
    try:
        pynvml.nvmlInit()
        gpu = pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}")
    except pynvml.NVMLError:
        return {}
    clock, sensor = pynvml.nvmlDeviceGetClockInfo, pynvml.NVML_TEMPERATURE_GPU
    queries: dict[str, Callable[[], Any]] = {
        "driver": pynvml.nvmlSystemGetDriverVersion,
        "sm_mhz": lambda: clock(gpu, pynvml.NVML_CLOCK_SM),
        "memory_mhz": lambda: clock(gpu, pynvml.NVML_CLOCK_MEM),
        "celsius": lambda: pynvml.nvmlDeviceGetTemperature(gpu, sensor),
        "watts": lambda: pynvml.nvmlDeviceGetPowerUsage(gpu) / 1e3,
        "throttled": lambda: _throttled(pynvml, gpu),
    }
    values = {}
    for name, query in queries.items():
        with contextlib.suppress(pynvml.NVMLError):  # a value that this card does not support
            values[name] = query()
    return values


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
