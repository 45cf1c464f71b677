"""PyTorch's profiler: CUPTI records of each launch, without hardware counters."""

from __future__ import annotations

import importlib.metadata
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from evaluation.bench.profiling.kernels import dimensions, kernel_name, number
from evaluation.types import KernelProfile

ORDER, LAUNCHES = 20, 8
MAX_CALLS = 512
_REPORTED = ("grid", "block", "registers per thread", "shared memory", "est. achieved occupancy %")


def absent() -> str:
    return ""


def title() -> str:
    return f"torch {importlib.metadata.version('torch')} profiler (CUPTI)"


def command() -> Sequence[str]:
    return ()


def readable() -> Sequence[str]:
    return ()


def watch(launches: Callable[[], None]) -> Mapping[str, Any]:
    """Return every kernel of PyTorch's trace: name, microseconds and configuration."""
    import torch

    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
        launches()
        torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(path))
        events = json.loads(path.read_bytes())["traceEvents"]
    kernels = [event for event in events if event.get("cat") == "kernel"][:MAX_CALLS]
    return {
        "kernels": [
            {
                "name": event["name"][:400],
                "us": event["dur"],
                **{name: event["args"].get(name) for name in _REPORTED},
            }
            for event in kernels
        ]
    }


def read(output: str, answer: Mapping[str, Any]) -> list[KernelProfile]:
    return list(_calls(answer.get("kernels")))


def _calls(kernels: Any) -> Iterator[KernelProfile]:
    for kernel in kernels[:MAX_CALLS] if isinstance(kernels, list) else ():
        if not isinstance(kernel, dict) or (duration := number(kernel.get("us"))) is None:
            continue
        occupancy = number(kernel.get("est. achieved occupancy %"))
        yield KernelProfile(
            name=kernel_name(_short(str(kernel.get("name", "")))),
            duration_us=duration,
            occupancy=None if occupancy is None else occupancy / 100,
            registers=number(kernel.get("registers per thread")),
            shared_bytes=number(kernel.get("shared memory")),
            grid=_extent(kernel.get("grid")),
            block=_extent(kernel.get("block")),
        )


def _short(name: str) -> str:
    """Shorten `void at::native::fill<float>(float*, int)` to `at::native::fill`."""
    name = name.removeprefix("void ").replace("(anonymous namespace)::", "")
    return name.partition("<")[0].partition("(")[0] or name


def _extent(sizes: Any) -> str:
    """Format `[132, 1, 1]` as `132`, without trailing ones."""
    if not isinstance(sizes, list):
        return ""
    return dimensions([str(int(size)) for size in map(number, sizes[:3]) if size is not None])
