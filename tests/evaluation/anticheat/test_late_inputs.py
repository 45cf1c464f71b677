"""Launches that begin after their inputs were injected must use them."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any, cast

import pytest
import torch

from evaluation.anticheat import launch_order
from evaluation.anticheat.late_inputs import LateInputs, check, window_with_checks
from evaluation.errors import Broken, SubmissionError
from evaluation.memory.host import HostMemory
from evaluation.memory.input_slices import launches_behind
from evaluation.memory.ring import BufferRing
from evaluation.process.fork_server import ForkServer
from evaluation.timing.window import WindowTimer
from evaluation.types import Reason
from tests.evaluation.anticheat import test_staged_inputs
from tests.evaluation.anticheat.test_launch_order import SLOTS, Window, ring, timer_of

__all__ = ["ring"]

SLOWLY = """
#include "scaled.h"
static void compute(const scaled_args* args, float* out) {
    for (int64_t i = 0; i < args->rows * args->cols; ++i)
        out[i] = args->x[i] * args->weight[i % args->cols] + args->shift;
}
static void wait() { for (volatile int i = 0; i < 300000; i = i + 1) {} }
"""
HONEST = """
extern "C" int scaled(const scaled_args* args) {
    wait();
    compute(args, args->out);
    return 0;
}
"""
# For some windows the first launch computes all outputs, and each launch copies its own.
AHEAD = """
#include <algorithm>
#include <cstring>
#include <vector>
extern "C" int scaled(const scaled_args* args) {
    static std::vector<float> outputs[24];
    static const scaled_args* base = args;
    static int calls = 0;
    base = std::min(base, args);
    const int call = calls++ - 1, window = call / 24;  // after one call by itself
    if (window < 1 || window > 40) return compute(args, args->out), 0;
    const int64_t size = args->rows * args->cols;
    for (int i = 0; i < 24 && call % 24 == 0; ++i) {
        outputs[i].resize(size);
        compute(base + i, outputs[i].data());
    }
    wait();
    std::memcpy(args->out, outputs[args - base].data(), sizeof(float) * size);
    return 0;
}
"""


class Ahead(Window):
    """Computes all launches when the first begins, and writes each output in its turn."""

    def write(self, count: int) -> None:
        self.copied = [
            {name: tensor.clone() for name, tensor in self.ring.inputs.slot(slot).items()}
            for slot in range(count)
        ]
        super().write(count)

    def inputs_of(self, slot: int) -> dict[str, torch.Tensor]:
        return self.copied[slot]


class AheadWithGarbage(Ahead):
    """Also writes into all outputs first, so that its launches look begun."""

    def write(self, count: int) -> None:
        for slot in range(count):
            self.ring.outputs[0].slot(slot)["out"].fill_(7.0)
        super().write(count)


class NoDetector:
    """Checks nothing: on a processor, honest launches look out of order to the other check."""

    def check(self, timer: WindowTimer) -> None:
        timer.window()


def test_honest_launches_with_late_inputs_are_accepted(ring: BufferRing) -> None:
    process = Window(ring, concurrent=1)
    for _ in range(10):
        check(timer_of(process))
    assert process.windows_run == 10


@pytest.mark.parametrize("cheat", [Ahead, AheadWithGarbage])
def test_launches_computed_ahead_are_rejected(ring: BufferRing, cheat: type[Window]) -> None:
    timer = timer_of(cheat(ring, 1))
    launch_order.OverlapDetector().check(timer, 3)  # it is in order
    with pytest.raises(SubmissionError, match="inputs that arrive before") as caught:
        _ = [check(timer) for _ in range(20)]
    assert caught.value.reason is Reason.WRONG_VALUES


def test_inputs_after_the_last_launch_are_not_in_time(ring: BufferRing) -> None:
    late = LateInputs(timer_of(Window(ring, 1)), 0, SLOTS)
    late.write_decoys()
    ring.outputs[0].column("out").zero_()
    late(lambda: True)
    assert late.in_time() == []
    ring.verify_launches(0, 0, [], "here")
    ring.outputs[0].column("out").copy_(outputs(ring))
    ring.verify_launches(0, 0, range(SLOTS), "here")  # fails for inputs that are not right again


def outputs(ring: BufferRing) -> torch.Tensor:
    inputs = [ring.inputs.slot(slot) for slot in range(SLOTS)]
    return torch.stack([(i["x"] * i["weight"] + ring.values["shift"]).flatten() for i in inputs])


def test_decoy_inputs_are_those_of_no_other_launch(ring: BufferRing) -> None:
    """A kernel that compared some of them would recognise such a window."""
    for _ in range(20):
        LateInputs(timer_of(Window(ring, 1)), 0, SLOTS).write_decoys()
        column = ring.inputs.column("x")[:, ::97]
        alike = [int((column == row).any(1).sum()) for row in column]
        assert alike == [1] * SLOTS


def test_window_with_late_inputs_is_prepared_as_the_previous_one_left_it(ring: BufferRing) -> None:
    """Neither inputs nor outputs show whether a window is timed or checked."""

    class Recorded(Window):
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
    timer = timer_of(Recorded(ring, 1))
    for _ in range(4):
        check(timer)
    assert len(seen) == 4 and seen[1:] == left[:-1]


@pytest.mark.parametrize("launches", [3, 12, 4096])
def test_chosen_launches_are_near_and_far_and_never_the_next(launches: int) -> None:
    for front in (0, launches - 3):
        chosen = {launch for _ in range(3000) for launch in launches_behind(front, launches)}
        assert min(chosen) == front + 2 and max(chosen) > 0.98 * launches - 2
        assert max(chosen) <= launches - 1


@pytest.mark.parametrize("launches", [1, 2])
def test_short_window_has_no_late_inputs(ring: BufferRing, launches: int) -> None:
    process = Window(ring, concurrent=1)
    timer = timer_of(process)
    check(timer)
    timer.launches = launches
    check(timer)
    assert process.windows_run == 1


@pytest.mark.parametrize(("source", "rejected"), [(HONEST, False), (AHEAD, True)])
def test_window_with_checks_rejects_launches_ahead_in_timed_windows(
    source: str, rejected: bool, fork_server: ForkServer, cache: Path, tmp_path: Path
) -> None:
    with (
        test_staged_inputs.timer_of(
            SLOWLY + source, "cpp", fork_server, HostMemory(), cache, tmp_path
        ) as timer,
        pytest.raises(SubmissionError, match="inputs that arrive before")
        if rejected
        else nullcontext(),
    ):
        window = window_with_checks(timer, 1.0, cast(launch_order.OverlapDetector, NoDetector()))
        assert all(window() > 0 for _ in range(20))


def test_failing_baseline_with_late_inputs_is_the_arenas_fault(ring: BufferRing) -> None:
    class Failing(Window):
        def run(self, *given: Any, **named: Any) -> int:
            raise SubmissionError(Reason.CRASH, "gone")

    timer = timer_of(Failing(ring, 1))
    timer.trusted = True
    with pytest.raises(Broken, match="the baseline failed: gone"):
        window_with_checks(timer, 1.0, launch_order.OverlapDetector())()
