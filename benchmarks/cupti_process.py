"""Candidate process in which CUPTI records the launches that the judge times from outside.

The same kernel takes another time in another process: 3.0 us launches take 3.5 us on an H200. The
exactness of the judge's clock therefore needs windows that both clocks measure.
"""

from __future__ import annotations

import os
import re

import torch
from torch.profiler import ProfilerActivity, profile

from evaluation.bench.process.fork_server import ForkServer
from evaluation.bench.process.handle import ProcessHandle
from evaluation.sandbox.channel import Message
from evaluation.sandboxed import main, runner

LINE = re.compile(r"^CUPTI us per launch: ([\d.]+)$", re.MULTILINE)


class CuptiForkServer(ForkServer):
    """Fork server of processes that record their launches with CUPTI."""

    MODULE = __name__


def serve_forks(descriptor: int) -> None:
    """Serve as `evaluation.sandboxed.main` does, with a runner that records."""
    runner.KernelRunner = _RecordingRunner  # type: ignore[misc]
    main.serve_forks(descriptor)


class _RecordingRunner(runner.KernelRunner):
    def do_load(self, request: Message, descriptors: list[int]) -> None:
        super().do_load(request, descriptors)
        with profile(activities=[ProfilerActivity.CUDA]):  # the first one takes seconds to start
            torch.zeros(1, device="cuda").item()

    def do_run(self, request: Message, descriptors: list[int]) -> None:
        if not request.get("replay"):
            super().do_run(request, descriptors)
            return
        with profile(activities=[ProfilerActivity.CUDA]) as profiler:
            super().do_run(request, descriptors)
        ends = sorted(
            event.time_range.end
            for event in profiler.events()
            if event.device_type.name == "CUDA" and not event.name.startswith(("Mem", "Context"))
        )
        count = request["count"]
        kernels = len(ends) // count
        each = (ends[-1] - ends[kernels - 1]) / (count - 1)
        os.write(2, f"CUPTI us per launch: {each:.6f}\n".encode())


def last_window_us(process: ProcessHandle) -> float:
    """Return CUPTI's microseconds per launch of the last window.

    They run from the end of the window's first launch to the end of its last.
    """
    return float(LINE.findall(process.log())[-1])
