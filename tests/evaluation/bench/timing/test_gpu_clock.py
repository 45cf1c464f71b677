"""The GPU clock times a window by the writes of its first and its last output."""

from __future__ import annotations

import dataclasses
import functools
import secrets
import statistics
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch

from evaluation.bench import turns
from evaluation.bench.anticheat import arriving_inputs
from evaluation.bench.memory.host import HostMemory
from evaluation.bench.memory.layout import Layout, TensorSpec
from evaluation.bench.memory.poison import poison
from evaluation.bench.memory.ring import BufferRing
from evaluation.bench.timing import gpu_clock
from evaluation.bench.timing.gpu_clock import MAX_SECONDS, GpuClock
from evaluation.bench.timing.window import Observation, WindowTimer, no_observation
from evaluation.kinds.kernel.workload import OperatorWorkload
from evaluation.tasks.spec import Task
from evaluation.types import Split, Verdict
from tests.evaluation.conftest import judged

SLOTS, LAUNCH, BEGIN, STEP = 24, 100_000, 500_000, 1_000
"""Nanoseconds: of a launch, before the first one, and between two readings of the time."""

Write = tuple[float, int, float]
"""Launches since the first one began, slot, and value."""


class World:
    """A clock that advances with each reading, and outputs that are written meanwhile."""

    def __init__(self, ring: BufferRing) -> None:
        self.ring, self.now, self.ends = ring, 0, BEGIN + SLOTS * LAUNCH
        self.writes = honest(0.5)

    def perf_counter_ns(self) -> int:
        self.now += STEP
        for write in [write for write in self.writes if BEGIN + write[0] * LAUNCH <= self.now]:
            self.writes.remove(write)
            self.ring.outputs.slot(write[1])["out"].fill_(write[2])
        return self.now

    def completed(self) -> bool:
        return self.now > self.ends


def honest(share: float) -> list[Write]:
    """Return writes of launches that each write after this share of their time."""
    return [(slot + share, slot, 1.0 + slot) for slot in range(SLOTS)]


@pytest.fixture
def ring(task: Task) -> Iterator[BufferRing]:
    seen = task.cases(Split.SEEN)[0]
    case = dataclasses.replace(seen, symbols={"rows": 4, "cols": 32, "shift": 0.5})
    with BufferRing(OperatorWorkload(task.operator, case), SLOTS) as ring:
        ring.refill(0, SLOTS)
        yield ring


@pytest.fixture
def world(ring: BufferRing) -> World:
    return World(ring)


def clock_of(world: World, **more: Any) -> GpuClock:
    ring = world.ring
    return GpuClock(ring.outputs, ring.secret, 0, SLOTS, now_ns=world.perf_counter_ns, **more)


def timed(world: World) -> float | None:
    """Return the nanoseconds of a launch."""
    clock = clock_of(world)
    clock(world.completed)
    return clock.launch_ns()


@pytest.mark.parametrize("share", [0.1, 0.5, 0.99])
def test_honest_window_has_the_time_of_a_launch(
    ring: BufferRing, world: World, share: float
) -> None:
    world.writes = honest(share)
    assert timed(world) == pytest.approx(LAUNCH, abs=4 * STEP / SLOTS)


def test_slow_samples_favour_neither_place(
    ring: BufferRing, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    fast_reader = gpu_clock.place_reader

    def slow_reader(place: torch.Tensor) -> Callable[[], bytes]:
        read = fast_reader(place)

        def slow() -> bytes:
            for _ in range(20):
                world.perf_counter_ns()  # waits: the clock of a simulated machine
            return read()

        return slow

    monkeypatch.setattr(gpu_clock, "place_reader", slow_reader)
    found = []
    for share in range(1, 40):
        ring.refill(0, SLOTS)
        world.now, world.writes = 0, honest(share / 40)
        found.append(timed(world))
    assert statistics.fmean(filter(None, found)) == pytest.approx(LAUNCH, abs=6 * STEP / SLOTS)


@pytest.mark.parametrize(("share", "blurred"), [(0.01, False), (0.5, True), (1.0, True)])
def test_clock_that_is_interrupted_for_long_is_blurred(
    ring: BufferRing, world: World, share: float, blurred: bool
) -> None:
    """For a share of the window, from just before its first output is written."""
    clock = clock_of(world)
    interrupted = False

    def completed() -> bool:
        nonlocal interrupted
        if not interrupted and world.now > BEGIN + LAUNCH / 3:
            world.now += int(share * SLOTS * LAUNCH)
            interrupted = True
        return world.completed()

    clock(completed)
    each = clock.launch_ns()
    assert (each is None, clock.blurred) == (blurred, blurred)


def test_clock_that_is_interrupted_before_its_first_sample_is_blurred(
    ring: BufferRing, world: World
) -> None:
    clock = clock_of(world)
    world.now = world.ends
    clock(world.completed)
    assert clock.launch_ns() is None and clock.blurred


def test_output_written_in_steps_is_timed_by_the_last_one(ring: BufferRing, world: World) -> None:
    zeroed = [(slot + 0.05, slot, 0.0) for slot in range(SLOTS)]
    world.writes = sorted([*honest(0.9), *zeroed])
    assert timed(world) == pytest.approx(LAUNCH, abs=4 * STEP / SLOTS)


def test_outputs_written_early_gain_nothing(ring: BufferRing, world: World) -> None:
    world.writes = sorted([*honest(0.5), *((2.0, slot, 7.0) for slot in range(2, SLOTS))])
    assert timed(world) == pytest.approx(LAUNCH, abs=4 * STEP / SLOTS)


@pytest.mark.parametrize(("late", "launches"), [(0.9, SLOTS - 1.9), (8.0, SLOTS - 1)])
def test_first_output_written_late_gains_at_most_one_launch(
    ring: BufferRing, world: World, late: float, launches: float
) -> None:
    world.writes = sorted([*honest(0.5), (0.5 + late, 0, 7.0)])
    each = LAUNCH * launches / (SLOTS - 1)
    assert timed(world) == pytest.approx(each, abs=8 * STEP / SLOTS)


EXPECTED = SLOTS * LAUNCH


def test_moments_are_acted_on_in_order_after_the_first_write_until_the_completion(
    ring: BufferRing, world: World
) -> None:
    acted: list[tuple[str, int]] = []
    due = {"first": 0.1, "second": 0.1, "third": 0.4, "too late": 5.0}
    moments = [
        (share, functools.partial(lambda name: acted.append((name, world.now)), name))
        for name, share in due.items()
    ]
    clock = clock_of(world, moments=moments, expected_ns=float(EXPECTED))
    clock(world.completed)
    assert [name for name, _ in acted] == ["first", "second", "third"]
    for name, at in acted:
        expected = BEGIN + 0.5 * LAUNCH + due[name] * EXPECTED  # launches write after half
        assert 0 < at - expected < 20 * STEP, name
    assert clock.launch_ns() == pytest.approx(LAUNCH, abs=4 * STEP / SLOTS), "and it is timed"


def test_moments_of_a_window_without_a_write_are_due_after_half_of_its_time(
    ring: BufferRing, world: World
) -> None:
    world.writes.clear()
    acted: list[int] = []
    moments = [(0.1, lambda: acted.append(world.now))]
    clock = clock_of(world, moments=moments, expected_ns=float(EXPECTED))
    clock(world.completed)
    expected = gpu_clock.START_NS + 0.6 * EXPECTED
    assert all(0 < at - expected < 20 * STEP for at in acted)
    assert len(acted) == (expected < world.ends)
    assert clock.launch_ns() is None


def test_window_completed_unwritten_is_not_timed(ring: BufferRing, world: World) -> None:
    del world.writes[-1]
    assert timed(world) is None


def test_output_changed_after_the_completion_is_not_timed(ring: BufferRing, world: World) -> None:
    clock = clock_of(world)
    clock(world.completed)
    ring.outputs.slot(SLOTS - 1)["out"].fill_(9.0)
    assert clock.launch_ns() is None


def test_window_without_an_end_is_left_after_its_time(world: World) -> None:
    world.writes.clear()
    clock = clock_of(world)
    clock(lambda: False)
    assert clock.launch_ns() is None
    assert world.now == pytest.approx(MAX_SECONDS * 1e9, rel=0.01)


def test_sampled_place_is_a_secret(ring: BufferRing) -> None:
    """One of 32 places is written in both launches, which few clocks notice."""
    noticed = 0
    for _ in range(400):
        ring.refill(0, 2)
        clock = GpuClock(ring.outputs, ring.secret, 0, 2)
        clock(writing([ring.outputs.slot(slot)["out"].view(-1)[:1] for slot in (0, 1)]))
        noticed += clock.launch_ns() is not None or clock.blurred
    assert 0 < noticed < 100


def writing(rows: list[torch.Tensor]) -> Callable[[], bool]:
    """Return whether all rows are written, and write one with each call."""

    def completed() -> bool:
        if rows:
            rows.pop(0).zero_()
        return not rows

    return completed


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "int8", "int64"])
def test_output_of_any_dtype_is_timed_once_it_is_written(dtype: str) -> None:
    layout = Layout.of([TensorSpec("out", (3, 5), dtype)], 2)
    region = HostMemory().region("outputs", layout)
    poison(region.column("out"), secret=77)
    unwritten = GpuClock(region, 77, 0, 2, "out")
    unwritten(lambda: True)
    assert unwritten.launch_ns() is None
    written = GpuClock(region, 77, 0, 2, "out")
    written(writing(list(region.column("out"))))
    assert written.launch_ns(blur_ns=1e9) is not None, "however busy this machine is"
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


class GpuClockedTimer(WindowTimer):
    """Times a process on a processor by the GPU clock."""

    observed: ClassVar[dict[str, list[float]]] = {}
    """Nanoseconds per launch of the candidate's windows, by case."""
    clock: GpuClock | None = None

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._observe = no_observation  # on a processor, honest launches look out of order
        self.gpu_clocked = True

    def _gpu_clock(self, first: int, observation: Observation) -> GpuClock | None:
        self.clock = super()._gpu_clock(first, observation)
        return self.clock

    def sample(self) -> int:
        return secrets.randbelow(2)

    def window(self) -> float:
        self.clock = None
        took = super().window()
        if not self.trusted and self.clock and (launch_ns := self.clock.launch_ns()):
            self.observed.setdefault(self.where, []).append(launch_ns)
        return took


@pytest.mark.serial
def test_clock_of_a_real_process_agrees_with_its_verdict(
    task: Task, cache: Path, in_a_hurry: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "WindowTimer", GpuClockedTimer)
    # It empties a GPU's cache.
    monkeypatch.setattr(arriving_inputs.ArrivingInputs, "charged_ns", lambda self: 0.0)
    observed = GpuClockedTimer.observed
    for _ in range(3):  # a busy machine interrupts the judge's sampling
        observed.clear()
        report = judged(task, SLOWLY, cache)
        assert report.verdict is Verdict.PASSED, report.message
        measurements = [m for gate in report.gates for m in gate.measurements]
        reported = {f"case {m.case}": m.candidate_us * 1e3 for m in measurements}
        ratios = [
            statistics.median(observed[case]) / ns
            for case, ns in reported.items()
            if case in observed
        ]
        if any(0.7 < ratio < 1.4 for ratio in ratios):
            return
    pytest.fail(f"no observed window of {reported} took its time: {ratios}")
