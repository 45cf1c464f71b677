"""A window is clocked by when its first and its last output are seen to be written."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from evaluation.anticheat import late_inputs
from evaluation.memory.layout import HostMemory, Layout, TensorSpec, poison
from evaluation.memory.ring import BufferRing
from evaluation.tasks.spec import Task
from evaluation.timing import gpu_clock
from evaluation.timing.gpu_clock import MAX_SECONDS, GpuClock
from evaluation.timing.window import WindowTimer
from evaluation.types import Split, Verdict
from tests.evaluation.conftest import judged

SLOTS, LAUNCH, BEGIN, STEP = 24, 100_000, 500_000, 1_000
"""Nanoseconds: of a launch, before the first of them begins, between two looks at the time."""


Write = tuple[float, int, float]
"""When, in launches from the first one's beginning; into which slot; what."""


class World:
    """Time goes by whenever it is asked for, and outputs are written as it does."""

    def __init__(self, ring: BufferRing) -> None:
        self.ring, self.now, self.ends = ring, 0, BEGIN + SLOTS * LAUNCH
        self.writes = honest(0.5)

    def perf_counter_ns(self) -> int:
        self.now += STEP
        for write in [write for write in self.writes if BEGIN + write[0] * LAUNCH <= self.now]:
            self.writes.remove(write)
            self.ring.outputs[0].slot(write[1])["out"].fill_(write[2])
        return self.now

    def answered(self) -> bool:
        return self.now > self.ends


def honest(share: float) -> list[Write]:
    """Every launch writes when so much of it has gone by."""
    return [(slot + share, slot, 1.0 + slot) for slot in range(SLOTS)]


@pytest.fixture
def ring(task: Task) -> Iterator[BufferRing]:
    seen = task.cases(Split.SEEN)[0]
    case = dataclasses.replace(seen, symbols={"rows": 4, "cols": 32, "shift": 0.5})
    with BufferRing(task.operator, case, SLOTS, processes=1) as ring:
        ring.refill(0, 0, SLOTS)
        yield ring


@pytest.fixture
def world(ring: BufferRing, monkeypatch: pytest.MonkeyPatch) -> World:
    world = World(ring)
    monkeypatch.setattr(gpu_clock, "time", world)
    return world


def looked(ring: BufferRing, world: World) -> float | None:
    """Nanoseconds of a launch."""
    found = GpuClock(ring.outputs[0], ring.secret, 0, SLOTS)
    found(world.answered)
    return found.launch_ns()


@pytest.mark.parametrize("share", [0.1, 0.5, 0.99])
def test_all_launches_but_one_lie_between_the_two(
    ring: BufferRing, world: World, share: float
) -> None:
    world.writes = honest(share)
    assert looked(ring, world) == pytest.approx(LAUNCH, abs=4 * STEP / SLOTS)


def test_looks_take_time_and_favour_neither_place(
    ring: BufferRing, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_once = gpu_clock.place_reader

    def slow(place: torch.Tensor) -> Callable[[], bytes]:
        poll = at_once(place)

        def late() -> bytes:
            for _ in range(20):
                world.perf_counter_ns()
            return poll()

        return late

    monkeypatch.setattr(gpu_clock, "place_reader", slow)
    found = []
    for share in range(1, 40):
        ring.refill(0, 0, SLOTS)
        world.now, world.writes = 0, honest(share / 40)
        found.append(looked(ring, world))
    assert statistics.fmean(filter(None, found)) == pytest.approx(LAUNCH, abs=6 * STEP / SLOTS)


@pytest.mark.parametrize(("kept", "blurred"), [(0.01, False), (0.5, True), (1.0, True)])
def test_who_is_kept_from_looking_says_nothing_of_a_window(
    ring: BufferRing, world: World, kept: float, blurred: bool
) -> None:
    """For a share of the window, from just before its first output is written."""
    found = GpuClock(ring.outputs[0], ring.secret, 0, SLOTS)
    stalled = False

    def answered() -> bool:
        nonlocal stalled
        if not stalled and world.now > BEGIN + LAUNCH / 3:
            world.now += int(kept * SLOTS * LAUNCH)
            stalled = True
        return world.answered()

    found(answered)
    each = found.launch_ns()
    assert (each is None, found.blurred) == (blurred, blurred)


def test_who_is_kept_from_the_first_look_says_nothing_of_a_window(
    ring: BufferRing, world: World
) -> None:
    found = GpuClock(ring.outputs[0], ring.secret, 0, SLOTS)
    world.now = world.ends
    found(world.answered)
    assert found.launch_ns() is None and found.blurred


def test_what_is_written_in_steps_is_clocked_by_the_last_of_them(
    ring: BufferRing, world: World
) -> None:
    zeroed = [(slot + 0.05, slot, 0.0) for slot in range(SLOTS)]
    world.writes = sorted([*honest(0.9), *zeroed])
    assert looked(ring, world) == pytest.approx(LAUNCH, abs=4 * STEP / SLOTS)


def test_to_write_something_early_moves_nothing(ring: BufferRing, world: World) -> None:
    world.writes = sorted([*honest(0.5), *((2.0, slot, 7.0) for slot in range(2, SLOTS))])
    assert looked(ring, world) == pytest.approx(LAUNCH, abs=4 * STEP / SLOTS)


def test_to_write_the_first_answer_late_moves_no_more_than_a_launch(
    ring: BufferRing, world: World
) -> None:
    for late, charged in ((0.9, SLOTS - 1.9), (8.0, SLOTS - 1)):
        ring.refill(0, 0, SLOTS)
        world.now, world.writes = 0, sorted([*honest(0.5), (0.5 + late, 0, 7.0)])
        each = LAUNCH * charged / (SLOTS - 1)
        assert looked(ring, world) == pytest.approx(each, abs=8 * STEP / SLOTS)


def test_a_window_that_is_answered_unwritten_is_not_clocked(ring: BufferRing, world: World) -> None:
    del world.writes[-1]
    assert looked(ring, world) is None


def test_what_changes_after_the_answer_is_not_clocked(ring: BufferRing, world: World) -> None:
    found = GpuClock(ring.outputs[0], ring.secret, 0, SLOTS)
    found(world.answered)
    ring.outputs[0].slot(SLOTS - 1)["out"].fill_(9.0)
    assert found.launch_ns() is None


def test_one_that_never_ends_is_left(
    ring: BufferRing, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.writes.clear()
    monkeypatch.setattr(world, "answered", lambda: False)
    assert looked(ring, world) is None
    assert world.now == pytest.approx(MAX_SECONDS * 1e9, rel=0.01)


def test_the_place_is_a_secret_unless_it_is_marked(ring: BufferRing) -> None:
    for slot in (0, 1):
        ring.outputs[0].slot(slot)["out"].view(-1)[:1].zero_()
    seen = [GpuClock(ring.outputs[0], ring.secret, 0, 2) for _ in range(400)]
    for each in seen:
        each(lambda: True)
    assert 0 < sum(len(each._seen[0]) > 1 for each in seen) < 100, "of 32 places"


def writing(rows: list[torch.Tensor]) -> Callable[[], bool]:
    """Answers once it has written all of them, one before each look."""

    def answered() -> bool:
        if rows:
            rows.pop(0).zero_()
        return not rows

    return answered


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "int8", "int64"])
def test_every_dtype_is_seen_unwritten_and_written(
    dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_clock, "BLUR_NS", 1e9)  # whoever else is at work here
    layout = Layout.of([TensorSpec("out", (3, 5), dtype)], 2)
    region = HostMemory().region("outputs", layout)
    poison(region.column("out"), secret=77)
    unseen = GpuClock(region, 77, 0, 2, "out")
    unseen(lambda: True)
    assert unseen.launch_ns() is None
    seen = GpuClock(region, 77, 0, 2, "out")
    seen(writing(list(region.column("out"))))
    assert seen.launch_ns() is not None
    region.close()


SLOWLY = """
#include "scaled.h"
extern "C" int scaled(const scaled_args* args) {
    for (volatile int i = 0; i < 300000; i = i + 1) {}
    for (int64_t i = 0; i < args->rows * args->cols; ++i)
        args->out[i] = args->x[i] * args->weight[i % args->cols] + args->shift;
    return 0;
}
"""


@pytest.mark.serial
def test_the_windows_of_a_real_contestant_are_seen(
    task: Task, cache: Path, in_a_hurry: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    last: list[float | None] = []
    seen: dict[str, list[float]] = {}

    class Noted(GpuClock):
        def launch_ns(self) -> float | None:
            last[:] = [super().launch_ns()]
            return last[0]

    begin = WindowTimer.__init__

    def gpu_clocked(timer: WindowTimer, *given: Any) -> None:
        begin(timer, *given)
        timer.gpu_clocked = True

    own = WindowTimer._own

    def noted(timer: WindowTimer, launches: int, filled: int, replay: bool) -> float:
        last[:] = [None]
        took = own(timer, launches, filled, replay)
        if last[0] and not timer.trusted:
            seen.setdefault(timer.where, []).append(last[0])
        return took

    monkeypatch.setattr("evaluation.timing.window.GpuClock", Noted)
    monkeypatch.setattr(WindowTimer, "_own", noted)
    monkeypatch.setattr("evaluation.timing.window.MIN_CHECKED", 0.5)
    monkeypatch.setattr("evaluation.timing.window.CHECK_SECONDS", {"cpu": 1e-9})
    monkeypatch.setattr(WindowTimer, "__init__", gpu_clocked)
    monkeypatch.setattr(late_inputs, "checks_of", lambda timer, watch: (late_inputs.check,))
    for _ in range(3):  # whoever else is at work here keeps the judge from looking
        report = judged(task, SLOWLY, cache)
        assert report.verdict is Verdict.PASSED, report.message
        timed = [m for gate in report.gates for m in gate.measurements]
        told = {f"case {m.case}": m.candidate_us * 1e3 for m in timed}
        ratios = [statistics.median(seen[case]) / ns for case, ns in told.items() if case in seen]
        if any(0.7 < ratio < 1.4 for ratio in ratios):
            return
        seen.clear()
    pytest.fail(f"no window of {told} was seen to take its time: {ratios}")
