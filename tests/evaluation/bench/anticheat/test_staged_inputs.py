"""Each launch must compute its output from inputs that arrive just before it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from evaluation.bench.anticheat import staged_inputs
from evaluation.bench.memory.host import HostMemory
from evaluation.bench.memory.layout import Layout
from evaluation.bench.memory.region import Region
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


def test_stretch_of_staged_inputs_begins_at_the_first_launch_in_half_of_all_cases(
    fork_server: ForkServer, memory: HostMemory, cache: Path, tmp_path: Path
) -> None:
    begun: list[int] = []
    with timer_of(HONEST, "cpp", fork_server, memory, cache, tmp_path) as timer:
        prepare = timer.process.stage

        def stage(region: Region, first: int) -> None:
            begun.append(first)
            prepare(region, first)

        timer.process.stage = stage  # type: ignore[method-assign, assignment]
        for _ in range(40):
            staged_inputs.check(timer, memory, max_launches=4)
    assert 10 <= begun.count(0) <= 32 and max(begun) > SLOTS // 2


@pytest.mark.parametrize(("seconds", "checked"), [(None, 16), (1.0, 16), (0.001, 50), (1e-6, 64)])
def test_launches_of_a_stretch_are_checked_as_far_as_time_allows(
    seconds: float | None, checked: int
) -> None:
    for count in (2, 8, 64):
        chosen = [staged_inputs.checked_launches(count, seconds) for _ in range(50)]
        assert all(1 in some for some in chosen), "the first that could be computed ahead"
        assert all(len(set(some)) == len(some) == min(count, checked) for some in chosen)
        assert set().union(*chosen) == set(range(count))


# The second launch, or the last, is computed by the one before it.
ONE_AHEAD = """
#include <algorithm>
#include <cstring>
#include <vector>
#include "scaled.h"
static void compute(const scaled_args* args, float* out) {
    for (int64_t i = 0; i < args->rows * args->cols; ++i)
        out[i] = args->x[i] * args->weight[i % args->cols] + args->shift;
}
extern "C" int scaled(const scaled_args* args) {
    static std::vector<float> kept;
    static const scaled_args* base = args;
    base = std::min(base, args);
    const int64_t size = args->rows * args->cols;
    if (args - base == AHEAD && !kept.empty()) {
        std::memcpy(args->out, kept.data(), size * sizeof(float));
        kept.clear();
        return 0;
    }
    if (args - base == AHEAD - 1) kept.resize(size), compute(args + 1, kept.data());
    return compute(args, args->out), 0;
}
"""


@pytest.mark.parametrize("ahead", [1, 2, SLOTS - 1])
def test_one_launch_computed_by_the_one_before_it_is_rejected(
    ahead: int, fork_server: ForkServer, memory: HostMemory, cache: Path, tmp_path: Path
) -> None:
    source = f"#define AHEAD {ahead}\n{ONE_AHEAD}"
    with (
        pytest.raises(SubmissionError, match="inputs that arrive just before"),
        timer_of(source, "cpp", fork_server, memory, cache, tmp_path) as timer,
    ):
        check_often(timer, memory)


def check_often(timer: WindowTimer, memory: HostMemory) -> None:
    for _ in range(20):
        staged_inputs.check(timer, memory)
