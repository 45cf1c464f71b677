"""Launch-order samples in real windows: serial launches are not reported as overlapping.

The trick `unchained` tests overlapping launches. Launches on streams of their own end before the
first sample.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
import torch

from evaluation.bench.anticheat import window_checks
from evaluation.bench.anticheat.launch_order import LaunchOrderSamples, OverlapDetector
from evaluation.bench.memory import cuda_ipc
from evaluation.bench.memory.ring import BufferRing
from evaluation.bench.process.fork_server import ForkServer
from evaluation.bench.process.handle import ProcessHandle
from evaluation.bench.process.limits import ProcessLimits
from evaluation.bench.timing.clock import WindowClock
from evaluation.bench.timing.window import Observe, WindowTimer, no_observation
from evaluation.kinds.kernel import builds
from evaluation.kinds.kernel.workload import OperatorWorkload
from evaluation.types import Split
from tests.gpu.submissions import HERE, Submission

pytestmark = pytest.mark.gpu

LAUNCHES = 4096
# The process that compiles it has no GPU and no runner.
SLOW = """
import sys

def centred(x, scale):
    if "evaluation.sandboxed.runner" in sys.modules:
        torch.cuda._sleep(100_000)
    return right(x, scale)
"""


@contextmanager
def timer_of(
    build: builds.Build,
    fork_server: ForkServer,
    scratch: Path,
    memory_bytes: int = 8 << 30,
    observe: Observe = no_observation,
) -> Iterator[WindowTimer]:
    """Yield a timer with LAUNCHES captured, whose windows have no checks unless `observe` does."""
    task = Submission.read(HERE / "honest" / "whole_row.triton.py").task()
    limits = ProcessLimits(
        folder=build.folder,
        scratch=scratch,
        memory_bytes=memory_bytes,
        seconds=60,
        threads=1,
        compiles=True,
        kind="gpu",
    )
    case = task.cases(Split.SEEN)[0]
    with (
        contextlib.closing(cuda_ipc.DeviceMemory()) as memory,
        ProcessHandle(fork_server, limits, WindowClock()) as process,
        BufferRing(OperatorWorkload(task.operator, case, memory.device), LAUNCHES, memory) as ring,
    ):
        process.load(build.language, build.folder, task.operator.name)
        timer = WindowTimer(process, ring, False, "here", observe=observe)
        timer.capture(LAUNCHES)
        yield timer


@pytest.mark.parametrize(
    "name",
    ["warp_for_each_row.cuda.cu", "atomics_after_zeroing.cuda.cu"],
)
def test_honest_launches_are_sampled_in_order(
    name: str, fork_server: ForkServer, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts: list[int] = []

    class Counted(LaunchOrderSamples):
        def partial(self) -> torch.Tensor:
            found = super().partial()
            counts.append(len(found))
            return found

    monkeypatch.setattr(window_checks, "LaunchOrderSamples", Counted)
    build, detector = Submission.read(HERE / "honest" / name).build(cache), OverlapDetector()
    observe = partial(window_checks.checks_of, detector)
    with timer_of(build, fork_server, tmp_path, observe=observe) as timer:
        _ = [timer.window() for _ in range(8)]
    print(name, "samples of windows under way", counts)
    assert len(counts) > 8 and sum(counts) > 8, "hardly any sample fell into a window"
    assert detector.out_of_order == 0


def test_slow_serial_launches_are_not_overlapping(
    fork_server: ForkServer, tmp_path: Path, cache: Path
) -> None:
    right = Submission.read(HERE / "hostile" / "right.torch.py")
    source = f"{right.source}\n{SLOW}"
    build = builds.build(right.task(), "torch", {"centred.py": source}, cache)
    detector = OverlapDetector()
    observe = partial(window_checks.checks_of, detector)
    with timer_of(build, fork_server, tmp_path, observe=observe) as timer:
        _ = [timer.window() for _ in range(8)]
    assert detector.out_of_order == 0
