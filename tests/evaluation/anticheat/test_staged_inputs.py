"""Each launch must answer from inputs that arrive just before it, whoever ran before."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from evaluation.anticheat import staged_inputs
from evaluation.errors import SubmissionError
from evaluation.memory.layout import HostMemory
from evaluation.memory.ring import BufferRing
from evaluation.process.fork_server import ForkServer
from evaluation.process.handle import ProcessHandle
from evaluation.process.limits import ProcessLimits
from evaluation.tasks.spec import Task
from evaluation.timing.clock import WindowClock
from evaluation.timing.window import WindowTimer
from evaluation.tracks import builds
from evaluation.tracks.load import load_task
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
# The first launch answers all that follow it in the table, which then have nothing to do.
AT_ONCE = """
#include "scaled.h"
static void answer(const scaled_args* args) {
    for (int64_t i = 0; i < args->rows * args->cols; ++i)
        args->out[i] = args->x[i] * args->weight[i % args->cols] + args->shift;
}
extern "C" int scaled(const scaled_args* args) {
    if (args->out[0] == args->out[0]) return 0;  // no longer NaN
    const int64_t step = args[1].out - args->out;
    for (int i = 0; args[i].rows == args->rows && args[i].out - args->out == i * step; ++i)
        answer(args + i);
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
) -> Iterator[WindowTimer]:
    task: Task = load_task(OPERATORS, "scaled", "cpp-to-cpp")
    suffix = ".cpp" if language == "cpp" else ".py"
    build = builds.build(task, language, {f"scaled{suffix}": source}, cache)
    rights = ProcessLimits(
        folder=build.folder, scratch=scratch, memory_bytes=2 << 30, seconds=30, threads=1
    )
    case = task.cases(Split.SEEN)[0]
    with (
        ProcessHandle(fork_server, rights, WindowClock()) as process,
        BufferRing(task.operator, case, SLOTS, 1, memory) as ring,
    ):
        process.load(language, build.folder, "scaled")
        timer = WindowTimer(process, ring, 0, False, "here")
        timer.resize(SLOTS)
        timer.window()
        yield timer


@pytest.mark.parametrize(("source", "language"), [(HONEST, "cpp"), (TORCH, "torch")])
@pytest.mark.parametrize("most", [4, 64], ids=["a stretch", "all"])
def test_honest_launches_take_their_inputs_when_they_come(
    source: str,
    language: str,
    most: int,
    fork_server: ForkServer,
    memory: HostMemory,
    cache: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(staged_inputs, "LAUNCHES", most)
    with timer_of(source, language, fork_server, memory, cache, tmp_path) as timer:
        for _ in range(3):
            staged_inputs.check(timer, memory)
            timer.window()


def test_who_answers_all_launches_in_the_first_is_found(
    fork_server: ForkServer, memory: HostMemory, cache: Path, tmp_path: Path
) -> None:
    with timer_of(AT_ONCE, "cpp", fork_server, memory, cache, tmp_path) as timer:
        timer.window()  # by its answers alone it is not
        with pytest.raises(SubmissionError, match="here, inputs that arrive just before") as caught:
            staged_inputs.check(timer, memory)
        assert caught.value.reason is Reason.WRONG_VALUES


def test_a_window_of_one_launch_has_nothing_to_answer_ahead(
    fork_server: ForkServer, memory: HostMemory, cache: Path, tmp_path: Path
) -> None:
    with timer_of(AT_ONCE, "cpp", fork_server, memory, cache, tmp_path) as timer:
        timer.resize(1)
        staged_inputs.check(timer, memory)


def test_large_launches_are_staged_two_at_a_time(
    fork_server: ForkServer,
    memory: HostMemory,
    cache: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    staged: list[int] = []
    region = HostMemory.region

    def counted(self: HostMemory, role: str, layout: object) -> object:
        staged.append(layout.slots)  # type: ignore[attr-defined]
        return region(self, role, layout)  # type: ignore[arg-type]

    with timer_of(HONEST, "cpp", fork_server, memory, cache, tmp_path) as timer:
        monkeypatch.setattr(staged_inputs, "BYTES", 1)
        monkeypatch.setattr(HostMemory, "region", counted)
        staged_inputs.check(timer, memory)
    assert staged == [2]
