"""A contestant in which CUPTI watches the very launches that the judge clocks from outside.

In a process of its own the same kernel takes another time: on an H200 launches that follow each
other in 3.0 us take 3.5 there. So whether the judge's clock is right is told by windows that both
of them see.
"""

from __future__ import annotations

import os
import re
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from evaluation.process.fork_server import ForkServer
from evaluation.process.handle import ProcessHandle
from evaluation.sandboxed import main, runner

SAID = re.compile(r"^watched ([\d.]+)$", re.MULTILINE)


class Watched(ForkServer):
    """Where contestants come from that are watched."""

    MODULE = __name__


def serve_forks(descriptor: int) -> None:
    runner.KernelRunner = _Watching  # type: ignore[misc]
    main.serve_forks(descriptor)


class _Watching(runner.KernelRunner):
    def do_load(self, request: dict[str, Any], descriptors: list[int]) -> None:
        super().do_load(request, descriptors)
        with profile(activities=[ProfilerActivity.CUDA]):  # the first one takes seconds to start
            torch.zeros(1, device="cuda").item()

    def do_run(self, request: dict[str, Any], descriptors: list[int]) -> None:
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
        of_a_launch = len(ends) // count
        each = (ends[-1] - ends[of_a_launch - 1]) / (count - 1)
        os.write(2, f"watched {each:.6f}\n".encode())


def last(arm: ProcessHandle) -> float:
    """Microseconds per launch of the window that an arm ran last, as CUPTI has them: from the end
    of its first launch to the end of its last.
    """
    return float(SAID.findall(arm.log())[-1])
