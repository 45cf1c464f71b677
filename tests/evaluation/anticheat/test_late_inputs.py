"""Inputs that arrive while a window is under way are answered by the launches that come later."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any, cast

import pytest
import torch

from evaluation.anticheat import launch_order
from evaluation.anticheat.late_inputs import LateInputs, check, window_with_checks
from evaluation.errors import Broken, SubmissionError
from evaluation.memory.input_slices import _behind
from evaluation.memory.layout import HostMemory
from evaluation.memory.ring import BufferRing
from evaluation.process.fork_server import ForkServer
from evaluation.timing.window import WindowTimer
from evaluation.types import Reason
from tests.evaluation.anticheat.test_launch_order import SLOTS, Window, ring, timed
from tests.evaluation.anticheat.test_staged_inputs import timer_of

__all__ = ["ring"]

SLOWLY = """
#include "scaled.h"
static void answer(const scaled_args* args, float* out) {
    for (int64_t i = 0; i < args->rows * args->cols; ++i)
        out[i] = args->x[i] * args->weight[i % args->cols] + args->shift;
}
static void wait() { for (volatile int i = 0; i < 300000; i = i + 1) {} }
"""
HONEST = """
extern "C" int scaled(const scaled_args* args) {
    wait();
    answer(args, args->out);
    return 0;
}
"""
# For some windows the first launch answers all of them, and each hands out its own in turn.
AHEAD = """
#include <algorithm>
#include <cstring>
#include <vector>
extern "C" int scaled(const scaled_args* args) {
    static std::vector<float> answers[24];
    static const scaled_args* base = args;
    static int calls = 0;
    base = std::min(base, args);
    const int call = calls++ - 1, window = call / 24;  // one call by itself came before
    if (window < 1 || window > 40) return answer(args, args->out), 0;
    const int64_t size = args->rows * args->cols;
    for (int i = 0; i < 24 && call % 24 == 0; ++i) {
        answers[i].resize(size);
        answer(base + i, answers[i].data());
    }
    wait();
    std::memcpy(args->out, answers[args - base].data(), sizeof(float) * size);
    return 0;
}
"""


class Ahead(Window):
    """Answers all launches when the first begins, and writes each answer in its turn."""

    def write(self, count: int) -> None:
        self.kept = [
            {name: tensor.clone() for name, tensor in self.ring.inputs.slot(slot).items()}
            for slot in range(count)
        ]
        super().write(count)

    def given(self, slot: int) -> dict[str, torch.Tensor]:
        return self.kept[slot]


class Blind:
    """Glances go through memory bit by bit: a busy processor sees honest work out of order."""

    def check(self, timer: WindowTimer) -> None:
        timer.window()


class Garbage(Ahead):
    """Besides, writes something into all outputs first, for its launches to look begun."""

    def write(self, count: int) -> None:
        for slot in range(count):
            self.ring.outputs[0].slot(slot)["out"].fill_(7.0)
        super().write(count)


def test_honest_launches_answer_what_they_are_given(ring: BufferRing) -> None:
    for _ in range(10):
        check(timed(ring, side_by_side=1))


@pytest.mark.parametrize("cheat", [Ahead, Garbage])
def test_who_answers_ahead_and_writes_in_turn_is_found(
    ring: BufferRing, cheat: type[Window]
) -> None:
    timer: Any = timed(ring, side_by_side=1)
    timer.process = cheat(ring, 1)
    launch_order.OverlapDetector().check(timer, 3)  # it is in order
    with pytest.raises(SubmissionError, match="inputs that arrive before") as caught:
        _ = [check(timer) for _ in range(20)]
    assert caught.value.reason is Reason.WRONG_VALUES


def test_what_comes_too_late_is_asked_of_nobody_and_comes_right(ring: BufferRing) -> None:
    late = LateInputs(timed(ring, 1), 0, SLOTS)
    late.write_decoys()
    ring.outputs[0].column("out").zero_()
    late(lambda: True)
    assert late.in_time() == []
    ring.verify_launches(0, 0, [], "here")
    ring.outputs[0].column("out").copy_(answers(ring))
    ring.verify_launches(0, 0, range(SLOTS), "here")  # inputs that were changed would be told


def answers(ring: BufferRing) -> torch.Tensor:
    given = [ring.inputs.slot(slot) for slot in range(SLOTS)]
    return torch.stack([(g["x"] * g["weight"] + ring.values["shift"]).flatten() for g in given])


def test_until_they_come_no_inputs_are_those_of_another_launch(ring: BufferRing) -> None:
    """A kernel that compared some of them would know such a window."""
    for _ in range(20):
        LateInputs(timed(ring, 1), 0, SLOTS).write_decoys()
        column = ring.inputs.column("x")[:, ::97]
        alike = [int((column == row).any(1).sum()) for row in column]
        assert alike == [1] * SLOTS


def test_when_it_is_announced_a_window_is_as_the_one_before_left_it(ring: BufferRing) -> None:
    """Whether it will be clocked or looked at is not to be seen by its inputs or its outputs."""

    class Announced(Window):
        def prepare(self, first: int, count: int) -> int:
            seen.append(memory())
            return 0

        def run(self, *given: Any, **named: Any) -> int:
            took = super().run(*given, **named)
            left.append(memory())
            return took

    def memory() -> bytes:
        return b"".join(each.bytes.numpy().tobytes() for each in (ring.inputs, ring.outputs[0]))

    seen: list[bytes] = []
    left: list[bytes] = []
    timer: Any = timed(ring, side_by_side=1)
    timer.process = Announced(ring, 1)
    for _ in range(4):
        check(timer)
    assert len(seen) == 4 and seen[1:] == left[:-1]


@pytest.mark.parametrize("launches", [3, 12, 4096])
def test_targets_are_near_and_far_and_never_the_next(launches: int) -> None:
    fronts = [0, launches - 3]
    for front in fronts:
        seen = {target for _ in range(3000) for target in _behind(front, launches)}
        assert min(seen) == front + 2 and max(seen) > 0.98 * launches - 2
        assert max(seen) <= launches - 1


@pytest.mark.parametrize("launches", [1, 2])
def test_a_short_window_has_none(ring: BufferRing, launches: int) -> None:
    timer: Any = timed(ring, side_by_side=1)
    timer.launches = launches
    timer.process.run = None
    check(timer)


@pytest.mark.parametrize(("source", "refused"), [(HONEST, False), (AHEAD, True)])
def test_windows_that_are_clocked_have_others_between_them(
    source: str, refused: bool, fork_server: ForkServer, cache: Path, tmp_path: Path
) -> None:
    """So who answers ahead for as long as it is clocked is found."""
    with (
        timer_of(SLOWLY + source, "cpp", fork_server, HostMemory(), cache, tmp_path) as timer,
        pytest.raises(SubmissionError, match="inputs that arrive before")
        if refused
        else nullcontext(),
    ):
        windows = window_with_checks(timer, 1.0, cast(launch_order.OverlapDetector, Blind()))
        assert all(windows() > 0 for _ in range(20))


def test_a_baseline_that_fails_is_our_fault(ring: BufferRing) -> None:
    class Failing(Window):
        def run(self, *given: Any, **named: Any) -> int:
            raise SubmissionError(Reason.CRASH, "gone")

    timer: Any = timed(ring, side_by_side=1)
    timer.process, timer.trusted = Failing(ring, 1), True
    with pytest.raises(Broken, match="the baseline failed: gone"):
        window_with_checks(timer, 1.0, launch_order.OverlapDetector())()
