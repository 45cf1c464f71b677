"""Each launch must compute its output from inputs that arrive just before it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from evaluation.bench.anticheat import staged_inputs
from evaluation.bench.memory.host import HostMemory
from evaluation.bench.memory.layout import Layout, Region
from evaluation.bench.memory.ring import BufferRing
from evaluation.bench.process.fork_server import ForkServer
from evaluation.bench.process.handle import ProcessHandle
from evaluation.bench.process.limits import ProcessLimits
from evaluation.bench.timing.clock import WindowClock
from evaluation.bench.timing.window import Observe, WindowTimer, no_observation
from evaluation.errors import SubmissionError
from evaluation.kinds.kernel import builds
from evaluation.kinds.kernel.load import load_task
from evaluation.kinds.kernel.workload import OperatorWorkload
from evaluation.tasks.spec import Task
from evaluation.types import Reason, Split
from tests.evaluation.conftest import OPERATORS

SLOTS = 24
HONEST = """
#include "scaled.h"
extern "C" int scaled(const scaled_args* args) {
    for (int64_t i = 0; i < args->rows * args->cols; ++i)
        args->out[i] = args->x[i] * args->weight[i % args->cols] + args->shift;
    return 0;
}
"""
# The first launch computes all that follow it in the table, which then have nothing to do.
AT_ONCE = """
#include "scaled.h"
static void compute(const scaled_args* args) {
    for (int64_t i = 0; i < args->rows * args->cols; ++i)
        args->out[i] = args->x[i] * args->weight[i % args->cols] + args->shift;
}
extern "C" int scaled(const scaled_args* args) {
    if (args->out[0] == args->out[0]) return 0;  // no longer NaN
    const int64_t step = args[1].out - args->out;
    for (int i = 0; args[i].rows == args->rows && args[i].out - args->out == i * step; ++i)
        compute(args + i);
    return 0;
}
"""
TORCH = """
def scaled(x, weight, shift):
    return x * weight + shift
"""


@pytest.fixture(scope="module")
def memory() -> HostMemory:
    return HostMemory()


@contextmanager
def timer_of(
    source: str,
    language: str,
    fork_server: ForkServer,
    memory: HostMemory,
    cache: Path,
    scratch: Path,
    observe: Observe = no_observation,
) -> Iterator[WindowTimer]:
    task: Task = load_task(OPERATORS, "scaled", "cpp-to-cpp")
    suffix = ".cpp" if language == "cpp" else ".py"
    build = builds.build(task, language, {f"scaled{suffix}": source}, cache)
    limits = ProcessLimits(
        folder=build.folder, scratch=scratch, memory_bytes=2 << 30, seconds=30, threads=1
    )
    case = task.cases(Split.SEEN)[0]
    with (
        ProcessHandle(fork_server, limits, WindowClock()) as process,
        BufferRing(OperatorWorkload(task.operator, case, memory.device), SLOTS, memory) as ring,
    ):
        process.load(language, build.folder, "scaled")
        timer = WindowTimer(process, ring, False, "here", observe=observe)
        timer.resize(SLOTS)
        timer.window()
        yield timer


@pytest.mark.parametrize(("source", "language"), [(HONEST, "cpp"), (TORCH, "torch")])
@pytest.mark.parametrize("max_launches", [4, 64], ids=["a stretch", "all"])
def test_honest_launches_of_staged_inputs_are_accepted(
    source: str,
    language: str,
    max_launches: int,
    fork_server: ForkServer,
    memory: HostMemory,
    cache: Path,
    tmp_path: Path,
) -> None:
    with timer_of(source, language, fork_server, memory, cache, tmp_path) as timer:
        for _ in range(3):
            staged_inputs.check(timer, memory, max_launches=max_launches)
            assert timer.window() > 0


def test_launches_computed_in_the_first_are_rejected(
    fork_server: ForkServer, memory: HostMemory, cache: Path, tmp_path: Path
) -> None:
    with timer_of(AT_ONCE, "cpp", fork_server, memory, cache, tmp_path) as timer:
        timer.window()  # its outputs alone are right
        with pytest.raises(SubmissionError, match="here, inputs that arrive just before") as caught:
            staged_inputs.check(timer, memory)
        assert caught.value.reason is Reason.WRONG_VALUES


class RecordedMemory(HostMemory):
    """Records the slots of each region."""

    def __init__(self) -> None:
        super().__init__()
        self.slots: list[int] = []

    def region(self, role: str, layout: Layout) -> Region:
        self.slots.append(layout.slots)
        return super().region(role, layout)


def test_window_of_one_launch_is_not_checked(
    fork_server: ForkServer, memory: HostMemory, cache: Path, tmp_path: Path
) -> None:
    recorded = RecordedMemory()
    with timer_of(AT_ONCE, "cpp", fork_server, memory, cache, tmp_path) as timer:
        timer.resize(1)
        staged_inputs.check(timer, recorded)
    assert recorded.slots == []


def test_large_launches_are_staged_in_pairs(
    fork_server: ForkServer, memory: HostMemory, cache: Path, tmp_path: Path
) -> None:
    recorded = RecordedMemory()
    with timer_of(HONEST, "cpp", fork_server, memory, cache, tmp_path) as timer:
        staged_inputs.check(timer, recorded, max_bytes=1)
    assert recorded.slots == [2]
