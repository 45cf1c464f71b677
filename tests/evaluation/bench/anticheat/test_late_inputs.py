"""Launches that begin after their inputs were injected must use them."""

from __future__ import annotations

import gc
import random
import weakref
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
import torch

from evaluation.bench.anticheat import late_inputs, window_checks
from evaluation.bench.anticheat.late_inputs import (
    LATE_LAUNCHES,
    LateInputs,
    launch_behind,
)
from evaluation.bench.anticheat.launch_order import LaunchOrderSamples, OverlapDetector
from evaluation.bench.anticheat.window_checks import WindowChecks, checks_of
from evaluation.bench.memory.host import HostMemory
from evaluation.bench.memory.ring import BufferRing
from evaluation.bench.process.fork_server import ForkServer
from evaluation.bench.process.handle import ProcessHandle
from evaluation.bench.timing.window import Observation, WindowTimer
from evaluation.errors import Broken, SubmissionError
from evaluation.types import Reason
from tests.evaluation.bench.anticheat import test_staged_inputs
from tests.evaluation.bench.anticheat.test_launch_order import (
    SLOTS,
    Window,
    ring,
    short_turns,
    timer_of,
    undisturbed_samples,
)

__all__ = ["ring", "short_turns", "undisturbed_samples"]

TASKS = Path(__file__).resolve().parents[4] / "tasks"
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
# The first launch of a window computes all outputs, and each launch copies its own.
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
    if (window < 1) return compute(args, args->out), 0;
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

    def write(self, first: int, count: int) -> None:
        self.copied = [
            {name: tensor.clone() for name, tensor in self.ring.inputs.slot(slot).items()}
            for slot in range(SLOTS)
        ]
        super().write(first, count)

    def inputs_of(self, slot: int) -> dict[str, torch.Tensor]:
        return self.copied[slot]


class AheadWithGarbage(Ahead):
    """Also writes into all outputs first, so that its launches look begun."""

    def write(self, first: int, count: int) -> None:
        for launch in range(count):
            self.ring.outputs.slot((first + launch) % SLOTS)["out"].fill_(7.0)
        super().write(first, count)


class Failing(Window):
    """Fails in its windows of several launches, before any moment of them."""

    def run(self, first: int, count: int, *given: Any, **named: Any) -> int:
        if count > 1:
            raise SubmissionError(Reason.CRASH, "gone")
        return super().run(first, count, *given, **named)


class Hasty(Window):
    """Completes a window before any moment of it."""

    def run(self, first: int, count: int, *given: Any, **named: Any) -> int:
        for launch in range(count):
            slot = (first + launch) % SLOTS
            inputs, out = self.inputs_of(slot), self.ring.outputs.slot(slot)["out"]
            out.copy_(inputs["x"] * inputs["weight"] + self.ring.workload.values["shift"])
        return 1000 * count


def test_honest_launches_with_late_inputs_are_accepted(
    ring: BufferRing, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_time: list[int] = []

    class Counted(LateInputs):
        def in_time(self) -> list[int]:
            found = super().in_time()
            in_time.append(len(found))
            return found

    monkeypatch.setattr(window_checks, "LateInputs", Counted)
    process = Window(ring, concurrent=1)
    timer = timer_of(process)
    for _ in range(10):
        timer.window()
    assert process.windows_run == len(in_time) >= 10
    assert sum(in_time) > 5, "hardly any input was in time"


@pytest.mark.parametrize("cheat", [Ahead, AheadWithGarbage])
def test_launches_computed_ahead_are_rejected(ring: BufferRing, cheat: type[Window]) -> None:
    """A launch that began after its inputs arrived used the decoys."""
    detector = OverlapDetector()
    timer = timer_of(cheat(ring, 1), detector)
    timer.min_checked = 1.0  # also where a busy machine makes checks slow
    with pytest.raises(SubmissionError, match="inputs that arrive before") as caught:
        _ = [timer.window() for _ in range(20)]
    assert caught.value.reason is Reason.WRONG_VALUES
    assert detector.out_of_order == 0, "its launches are in order"


@pytest.mark.parametrize("gpu_clocked", [True, False])
@pytest.mark.parametrize("trusted", [False, True], ids=["candidate", "baseline"])
def test_late_inputs_are_injected_in_every_window(
    gpu_clocked: bool, trusted: bool, ring: BufferRing, monkeypatch: pytest.MonkeyPatch
) -> None:
    injected: list[int] = []
    changed: list[bool] = []

    class Counted(LateInputs):
        def write_decoys(self) -> None:
            before = ring.inputs.bytes.clone()
            super().write_decoys()
            changed.append(not ring.inputs.bytes.equal(before))

        def inject(self, number: int) -> None:
            injected.append(number)
            super().inject(number)

    monkeypatch.setattr(window_checks, "LateInputs", Counted)
    timer = timer_of(Window(ring, concurrent=1), trusted=trusted)
    timer.gpu_clocked = gpu_clocked
    for _ in range(5):
        injected.clear()
        changed.clear()
        timer.window()
        assert changed and all(changed), "decoys stood there"
        assert len(changed) <= len(injected) <= (LATE_LAUNCHES + 1) * len(changed)
        ring.check_inputs("here")


@pytest.mark.parametrize("trusted", [False, True], ids=["candidate", "baseline"])
def test_window_that_ends_early_still_gets_its_inputs(ring: BufferRing, trusted: bool) -> None:
    timer = timer_of(Hasty(ring, 1), trusted=trusted)
    timer.checked = False  # its launches used the decoys
    for _ in range(10):
        timer.window()
        ring.check_inputs("here")


def test_window_that_fails_still_gets_its_inputs(ring: BufferRing) -> None:
    timer = timer_of(Failing(ring, 1))
    with pytest.raises(SubmissionError, match="gone"):
        timer.window()
    ring.check_inputs("here")


def test_failing_baseline_with_decoys_pending_is_the_arenas_fault(ring: BufferRing) -> None:
    timer = timer_of(Failing(ring, 1), trusted=True)
    with pytest.raises(Broken, match="the baseline failed: gone"):
        timer.window()


def test_failing_baseline_with_inputs_changed_beside_decoys_is_the_candidates_fault(
    ring: BufferRing,
) -> None:
    class Changed(Failing):
        def run(self, *given: Any, **named: Any) -> int:
            for slot in range(SLOTS):
                self.ring.inputs.slot(slot)["x"][:, 0] += 1
            return super().run(*given, **named)

    timer = timer_of(Changed(ring, 1), trusted=True)
    with pytest.raises(SubmissionError, match="in the baseline's turn: input x was changed"):
        timer.window()


def test_inputs_after_the_last_launch_are_not_in_time(ring: BufferRing) -> None:
    ring.refill(0, SLOTS)
    late = LateInputs(ring, 0, SLOTS)
    late.write_decoys()
    ring.outputs.column("out").zero_()
    late.inject_missing()
    assert late.in_time() == []
    ring.check_inputs("here")
    for slot in range(SLOTS):
        inputs = ring.inputs.slot(slot)
        ring.outputs.slot(slot)["out"].copy_(
            inputs["x"] * inputs["weight"] + ring.workload.values["shift"]
        )
    ring.verify_launches(0, range(SLOTS), "here")


def test_launch_is_in_time_if_the_output_before_it_changes_after_the_injection(
    ring: BufferRing,
) -> None:
    for first in (0, 7):
        ring.refill(0, SLOTS)
        late = LateInputs(ring, first, SLOTS)
        late.write_decoys()
        late.inject_missing()
        for launch in late.launches:
            ring.outputs.slot((first + launch - 1) % SLOTS)["out"].fill_(3.0)
            assert launch in late.in_time()
        assert late.in_time() == late.launches


def test_decoys_are_the_inputs_of_other_launches(ring: BufferRing) -> None:
    """A launch cannot recognise a decoy by values that no launch has."""
    for _ in range(20):
        ring.refill(0, SLOTS)
        before = ring.inputs.bytes.clone()
        rows = ring.inputs.layout.rows(before)
        late = LateInputs(ring, 5, SLOTS)
        late.write_decoys()
        found = ring.inputs.layout.rows(ring.inputs.bytes)
        changed = (found != rows).any(1).nonzero().flatten().tolist()
        slots = [(5 + launch) % SLOTS for launch in late.launches]
        assert set(changed) <= {ring.inputs.layout.row_of(slot) for slot in slots}
        assert changed
        for row in changed:
            differs = found[row] != rows[row]
            values = rows[:, differs] == found[row, differs]
            assert values.any(0).all(), "each byte is that of some launch"
        ring.inputs.bytes.copy_(before)


def test_decoys_are_inputs_that_were_written_for_the_window(ring: BufferRing) -> None:
    """Values of another case in the other slots may be no index that a launch can use."""
    for _ in range(20):
        ring.inputs.bytes.fill_(0x7F)
        ring.refill(5, 4)
        late = LateInputs(ring, 5, 4)
        late.write_decoys()
        for slot in range(5, 9):
            assert float(ring.inputs.slot(slot)["x"].abs().max()) < 1e6


def test_window_is_prepared_as_the_previous_one_left_it(ring: BufferRing) -> None:
    """No input shows a process, before its request, which launches get late inputs."""

    class Recorded(Window):
        def prepare(self, first: int, count: int) -> int:
            seen.append(memory())
            return 0

    def memory() -> bytes:
        return b"".join(region.bytes.numpy().tobytes() for region in ring.regions)

    seen: list[bytes] = []
    timer = timer_of(Recorded(ring, 1))
    for _ in range(4):
        seen.clear()
        left = memory()
        timer.window()
        assert seen[0] == left


@pytest.mark.parametrize("launches", [3, 12, 4096])
def test_launch_behind_is_any_later_launch_and_often_the_next(launches: int) -> None:
    for front in (0, launches - 3, launches - 1):
        chosen = [launch_behind(front, launches) for _ in range(9000)]
        following = min(front, launches - 2) + 1
        assert min(chosen) == following and chosen.count(following) > 9000 / 20
        assert max(chosen) > 0.98 * launches - 2 and max(chosen) <= launches - 1


@pytest.mark.parametrize("gpu_clocked", [True, False])
def test_late_inputs_of_a_window_are_those_of_any_launch_but_the_first(
    ring: BufferRing, gpu_clocked: bool
) -> None:
    ring.refill(0, SLOTS)
    chosen: Counter[int] = Counter()
    for _ in range(1000):
        late = LateInputs(ring, 0, SLOTS, gpu_clocked)
        chosen.update(late.launches)
        shares = [share for share, _ in late.moments]
        assert all(-1 <= share < 0.75 for share in shares)
        early = dict(zip(late.launches, shares, strict=True)).get(1, 0.0)
        assert early < 2 / SLOTS, "while the first launch runs"
    assert chosen.keys() == set(range(1, SLOTS))
    assert chosen[1] > 1000 / 5


class OneAhead(Window):
    """Computes one launch of each window while the one before it runs, and hands it out."""

    ahead = 1

    def write(self, first: int, count: int) -> None:
        self.first = first
        self.kept: dict[str, torch.Tensor] = {}
        super().write(first, count)

    def inputs_of(self, slot: int) -> dict[str, torch.Tensor]:
        launch = (slot - self.first) % SLOTS
        if launch == self.ahead - 1 and not self.kept:
            following = self.ring.inputs.slot((slot + 1) % SLOTS)
            self.kept = {name: tensor.clone() for name, tensor in following.items()}
        if launch == self.ahead and self.kept:
            return self.kept
        return super().inputs_of(slot)


class SecondAhead(OneAhead):
    ahead = 1


class ThirdAhead(OneAhead):
    ahead = 2


class MiddleAhead(OneAhead):
    ahead = SLOTS // 2


@pytest.mark.parametrize("cheat", [SecondAhead, ThirdAhead, MiddleAhead])
def test_one_launch_of_each_window_computed_ahead_is_rejected(
    ring: BufferRing, cheat: type[OneAhead], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its inputs arrive while the launch before it runs; a draw that another test checks."""

    def draw(launches: int, least: int) -> dict[int, float]:
        return {cheat.ahead: cheat.ahead - random.random()}

    monkeypatch.setattr(late_inputs, "chosen_launches", draw)
    timer = timer_of(cheat(ring, 1))
    timer.min_checked = 1.0
    with pytest.raises(SubmissionError, match="inputs that arrive before") as caught:
        _ = [timer.window() for _ in range(200)]
    assert caught.value.reason is Reason.WRONG_VALUES


@pytest.mark.parametrize("launches", [1, 2, 3])
def test_window_of_one_or_two_launches_has_no_late_inputs(ring: BufferRing, launches: int) -> None:
    observation = checks_of(OverlapDetector(), timer_of(Window(ring, 1)), 0, launches)
    assert isinstance(observation, WindowChecks) is (launches > 2)
    assert bool(observation.moments) is bool(observation.undecided) is (launches > 2)
    assert isinstance(observation, Observation)


MANY = 1000
"""Windows within which a process that computes ahead is rejected, however busy the machine is."""


@pytest.mark.parametrize(("source", "rejected"), [(HONEST, False), (AHEAD, True)])
def test_windows_of_a_real_process_reject_launches_computed_ahead(
    source: str, rejected: bool, fork_server: ForkServer, cache: Path, tmp_path: Path
) -> None:
    observe = partial(checks_of, OverlapDetector())
    with (
        pytest.raises(SubmissionError, match="inputs that arrive before")
        if rejected
        else nullcontext(),
        test_staged_inputs.timer_of(
            SLOWLY + source, "cpp", fork_server, HostMemory(), cache, tmp_path, observe
        ) as timer,
    ):
        # On a busy machine few late inputs come in time, and the others decide nothing.
        assert all(timer.window() > 0 for _ in range(MANY if rejected else 20))


@contextmanager
def without_collections() -> Iterator[None]:
    """Let nothing but reference counts free memory."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def test_checks_of_a_window_are_freed_without_a_collection(ring: BufferRing) -> None:
    """A cycle would keep the memory of a ring, gigabytes on a GPU, until Python collects it."""
    timer = timer_of(Window(ring, concurrent=1))
    gone: list[weakref.ref[Any]] = []
    with without_collections():
        for _ in range(2):
            ring.refill(0, ring.slots)
            late = LateInputs(ring, 0, ring.slots, gpu_clocked=True)
            samples = LaunchOrderSamples(ring.outputs, ring.secret, ring.slots)
            checks = WindowChecks(OverlapDetector(), timer, 0, ring.slots)
            assert late.moments and samples.moments and checks.moments
            gone += [weakref.ref(each) for each in (late, samples, checks)]
            del late, samples, checks
        assert [each() for each in gone] == [None] * 6


def test_windows_keep_no_memory_without_a_collection(ring: BufferRing) -> None:
    made: weakref.WeakSet[Any] = weakref.WeakSet()

    def observe(timer: WindowTimer, first: int, launches: int) -> Observation:
        observation = checks_of(OverlapDetector(), timer, first, launches)
        made.add(observation)
        counts.append(launches)
        return observation

    counts: list[int] = []
    process = cast(ProcessHandle, Window(ring, concurrent=1))
    with without_collections():
        timer = WindowTimer(process, ring, False, "here", observe=observe)
        timer.gpu_clocked = True
        timer.resize(SLOTS)
        for _ in range(3):
            timer.window()
            assert not made
    assert counts.count(SLOTS) >= 3
