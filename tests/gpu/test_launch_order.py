"""Launch-order samples in real windows: serial launches are not reported as overlapping.

The trick `unchained` tests overlapping launches. Launches on streams of their own end before the
first sample.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from evaluation.anticheat import launch_order
from evaluation.anticheat.launch_order import LaunchOrderSamples
from evaluation.memory import cuda_ipc
from evaluation.memory.ring import BufferRing
from evaluation.process.fork_server import ForkServer
from evaluation.process.handle import ProcessHandle
from evaluation.process.limits import ProcessLimits
from evaluation.timing.clock import WindowClock
from evaluation.timing.window import WindowTimer
from evaluation.tracks import builds
from evaluation.types import Split
from tests.gpu.submissions import HERE, Submission

pytestmark = pytest.mark.gpu

LAUNCHES = 4096
# The process that compiles it has no GPU and no runner.
SLOW = """
import sys

def centred(x, out, scale):
    if "evaluation.sandboxed.runner" in sys.modules:
        torch.cuda._sleep(100_000)
    right(x, out, scale)
"""


@contextmanager
def timer_of(
    build: builds.Build, fork_server: ForkServer, scratch: Path, memory_bytes: int = 8 << 30
) -> Iterator[WindowTimer]:
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
        BufferRing(task.operator, case, LAUNCHES, 1, memory) as ring,
    ):
        process.load(build.language, build.folder, task.operator.name)
        timer = WindowTimer(process, ring, 0, False, "here")
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
        def __call__(self, answered: Callable[[], bool]) -> None:
            super().__call__(answered)
            counts.append(len(self.partial()))

    monkeypatch.setattr(launch_order, "LaunchOrderSamples", Counted)
    build = Submission.read(HERE / "honest" / name).build(cache)
    with timer_of(build, fork_server, tmp_path) as timer:
        launch_order.OverlapDetector().check(timer, windows=8)
    assert sum(counts) > 0, "no sample fell into a window"


def test_slow_serial_launches_are_not_overlapping(
    fork_server: ForkServer, tmp_path: Path, cache: Path
) -> None:
    right = Submission.read(HERE / "hostile" / "right.triton.py")
    source = f"{right.source}\n{SLOW}"
    build = builds.build(right.task(), "triton", {"centred.py": source}, cache)
    with timer_of(build, fork_server, tmp_path) as timer:
        launch_order.OverlapDetector().check(timer, windows=8)
