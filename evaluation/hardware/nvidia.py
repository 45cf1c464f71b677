"""NVIDIA GPUs: what the driver says of them (NVML), and what PyTorch's kernels reach when they
read and write all of a tensor or multiply matrices.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from evaluation import place, sandbox
from evaluation.builds import replace_text
from evaluation.hardware import Device, Level

COPY_BYTES = 1 << 30
PRODUCTS = {"float32": 4096, "float16": 8192, "bfloat16": 8192, "int8": 8192}
"""The side of the square matrices whose product gives the peak of a dtype."""
RUNS, ROUNDS = 5, 4
"""The best of so many rounds of so many runs is the peak: other work only makes them slower."""
ISA = {"7.5": "Turing", "8.0": "Ampere", "8.6": "Ampere", "8.9": "Ada Lovelace", "9.0": "Hopper"}
ISA |= {"10.0": "Blackwell", "10.3": "Blackwell", "12.0": "Blackwell"}


def devices(cache: Path, again: bool = False) -> Sequence[Device]:
    """The GPU that contestants run on: the first, unless CUDA_VISIBLE_DEVICES names another."""
    if place.gpu_vendor() != "nvidia":
        return []
    import torch

    if not torch.cuda.is_available():
        return []
    properties = torch.cuda.get_device_properties(0)
    capability = f"{properties.major}.{properties.minor}"
    fingerprint = {
        "name": properties.name,
        "uuid": str(properties.uuid),
        "capability": capability,
        "multiprocessors": properties.multi_processor_count,
        "memory_bytes": properties.total_memory,
        "l2_bytes": properties.L2_cache_size,
        "cuda": torch.version.cuda,
        "driver": state(str(properties.uuid)).get("driver", ""),
    }
    peaks = _measured(cache, fingerprint, again)
    slug = re.sub(r"[^a-z0-9]+", "-", properties.name.lower()).strip("-")
    isolation = dataclasses.asdict(sandbox.walls())
    return [
        Device(
            slug=slug,
            kind=place.GPU,
            vendor="NVIDIA",
            name=properties.name,
            arch=f"sm_{capability.replace('.', '')} {ISA.get(capability, '')}".strip(),
            queue=f"hw.{slug}",
            cores=properties.multi_processor_count,
            threads=properties.multi_processor_count,
            memory_bytes=properties.total_memory,
            last_level_cache_bytes=properties.L2_cache_size,
            levels=(
                Level("L2", properties.L2_cache_size, peaks["l2_gbps"]),
                Level("memory", 0, peaks["memory_gbps"]),
            ),
            peaks=peaks,
            isolation=isolation,
            fingerprint=fingerprint,
        )
    ]


def state(uuid: str) -> dict[str, Any]:
    """What NVML says of a GPU now: driver, clocks in MHz, degrees Celsius, watts, throttle reasons;
    nothing where NVML cannot be asked.
    """
    try:
        import pynvml
    except ImportError:
        return {}
    with contextlib.suppress(pynvml.NVMLError):
        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByUUID(uuid if uuid[:3] == "GPU" else f"GPU-{uuid}")
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


def _measured(cache: Path, fingerprint: Mapping[str, Any], again: bool) -> dict[str, float]:
    """Peaks in GB/s and TFLOP/s, the best ever seen of one device, driver and runtime."""
    identity = json.dumps(fingerprint, sort_keys=True)
    kept = cache / "peaks" / f"nvidia-{hashlib.sha256(identity.encode()).hexdigest()[:20]}.json"
    known: dict[str, float] = json.loads(kept.read_text()) if kept.is_file() else {}
    if again or not known:
        found = dict(_measure(int(fingerprint["l2_bytes"])))
        known = {name: max(value, known.get(name, 0.0)) for name, value in found.items()}
        kept.parent.mkdir(parents=True, exist_ok=True)
        replace_text(kept, json.dumps(known))
    return known


def _measure(l2_bytes: int) -> Iterator[tuple[str, float]]:
    import torch

    def copied(size: int) -> float:
        source = torch.randn(size // 4, device="cuda")
        target = torch.empty_like(source)
        return 2 * size / _best_seconds(lambda: torch.neg(source, out=target)) / 1e9

    yield "memory_gbps", copied(COPY_BYTES)
    yield "l2_gbps", copied(max(1 << 20, l2_bytes // 8))
    precise = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = False
    for dtype, side in PRODUCTS.items():
        rate = 2 * side**3 / _best_seconds(_product(dtype, side)) / 1e12
        yield f"{dtype}_tflops", rate
    torch.backends.cuda.matmul.allow_tf32 = precise
    torch.cuda.empty_cache()


def _product(dtype: str, side: int) -> Callable[[], Any]:
    import torch

    if dtype == "int8":
        a = torch.randint(-128, 128, (side, side), dtype=torch.int8, device="cuda")
        b = torch.randint(-128, 128, (side, side), dtype=torch.int8, device="cuda").t()
        return lambda: torch._int_mm(a, b)
    a, b = (torch.randn(side, side, device="cuda").to(getattr(torch, dtype)) for _ in "ab")
    return lambda: torch.mm(a, b)


def _best_seconds(call: Callable[[], Any]) -> float:
    """Seconds of one call: the fastest of ROUNDS, each a CUDA graph of RUNS calls in a row."""
    import torch

    call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(RUNS):
            call()
    best = float("inf")
    for _ in range(ROUNDS):
        start = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        end = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        best = min(best, start.elapsed_time(end) / 1e3 / RUNS)
        time.sleep(0.01)
    return best
