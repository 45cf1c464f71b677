"""PyTorch's profiler: what CUPTI tells of each launch without a hardware counter being read."""

from __future__ import annotations

import importlib.metadata
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from evaluation.profiling.facts import KernelProfile, extent, named, number

ORDER, LAUNCHES = 20, 8
MOST_CALLS = 512
_TOLD = ("grid", "block", "registers per thread", "shared memory", "est. achieved occupancy %")


def absent() -> str:
    return ""


def title() -> str:
    return f"torch {importlib.metadata.version('torch')} profiler (CUPTI)"


def command() -> Sequence[str]:
    return ()


def readable() -> Sequence[str]:
    return ()


def watch(launches: Callable[[], None]) -> Mapping[str, Any]:
    """Every kernel of the trace that PyTorch writes: its name, microseconds and configuration."""
    import torch

    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
        launches()
        torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(path))
        events = json.loads(path.read_bytes())["traceEvents"]
    kernels = [event for event in events if event.get("cat") == "kernel"][:MOST_CALLS]
    return {
        "kernels": [
            {
                "name": event["name"][:400],
                "us": event["dur"],
                **{name: event["args"].get(name) for name in _TOLD},
            }
            for event in kernels
        ]
    }


def read(said: str, answer: Mapping[str, Any]) -> list[KernelProfile]:
    return list(_calls(answer.get("kernels")))


def _calls(told: Any) -> Iterator[KernelProfile]:
    for kernel in told[:MOST_CALLS] if isinstance(told, list) else ():
        if not isinstance(kernel, dict) or (duration := number(kernel.get("us"))) is None:
            continue
        occupancy = number(kernel.get("est. achieved occupancy %"))
        yield KernelProfile(
            name=named(_short(str(kernel.get("name", "")))),
            duration_us=duration,
            occupancy=None if occupancy is None else occupancy / 100,
            registers=number(kernel.get("registers per thread")),
            shared_bytes=number(kernel.get("shared memory")),
            grid=_extent(kernel.get("grid")),
            block=_extent(kernel.get("block")),
        )


def _short(name: str) -> str:
    """`void at::native::fill<float>(float*, int)` -> `at::native::fill`."""
    name = name.removeprefix("void ").replace("(anonymous namespace)::", "")
    return name.partition("<")[0].partition("(")[0] or name


def _extent(sizes: Any) -> str:
    """`[132, 1, 1]` -> `132`, with what is 1 at the end left out."""
    if not isinstance(sizes, list):
        return ""
    return extent([str(int(size)) for size in map(number, sizes[:3]) if size is not None])
