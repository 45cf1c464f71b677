"""Samples of a window show whether its launches run one after the other."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable, Iterator
from typing import cast

import pytest
import torch

from evaluation.anticheat import launch_order
from evaluation.anticheat.launch_order import LaunchOrderSamples, OverlapDetector, in_order
from evaluation.errors import SubmissionError
from evaluation.memory.host import HostMemory
from evaluation.memory.layout import Layout, TensorSpec
from evaluation.memory.poison import poison
from evaluation.memory.ring import BufferRing
from evaluation.tasks.spec import Task
from evaluation.timing.window import WindowTimer
from evaluation.types import Reason, Split

SLOTS = 12
STEP_SECONDS = 0.002
UNDISTURBED = threading.Lock()
"""Held during each write and each sample: a busy machine could interrupt a sample midway."""


class Window:
    """Stands in for a process that writes outputs in halves, of `concurrent` launches at a time."""

    def __init__(self, ring: BufferRing, concurrent: int) -> None:
        self.ring, self.concurrent = ring, concurrent
        self.windows_run = 0

    def steps(self, count: int) -> Iterator[tuple[int, int]]:
        for first in range(0, count, self.concurrent):
            launches = range(first, min(first + self.concurrent, count))
            yield from ((slot, half) for half in (0, 1) for slot in launches)

    def require_idle(self) -> None:
        """Leave nothing running."""

    def inputs_of(self, slot: int) -> dict[str, torch.Tensor]:
        return self.ring.inputs.slot(slot)

    def write(self, count: int) -> None:
        for slot, half in self.steps(count):
            inputs, out = self.inputs_of(slot), self.ring.outputs[0].slot(slot)["out"]
            values = inputs["x"] * inputs["weight"] + self.ring.values["shift"]
            rows = slice(None, len(out) // 2) if half == 0 else slice(len(out) // 2, None)
            with UNDISTURBED:
                out[rows] = values[rows]
            time.sleep(STEP_SECONDS)

    def prepare(self, first: int, count: int) -> int:
        return 0

    def run(
        self,
        first: int,
        count: int,
        observe: Callable[[], None],
        replay: bool,
        sampler: Callable[[Callable[[], bool]], None] = lambda completed: None,
    ) -> int:
        self.windows_run += 1
        started = time.perf_counter_ns()
        writer = threading.Thread(target=self.write, args=(count,))
        writer.start()
        sampler(lambda: not writer.is_alive())
        writer.join()
        return time.perf_counter_ns() - started


class Changing(Window):
    """Runs another number of concurrent launches in each window."""

    def __init__(self, ring: BufferRing, windows: list[int]) -> None:
        super().__init__(ring, 1)
        self.windows = windows

    def write(self, count: int) -> None:
        self.concurrent = self.windows.pop(0)
        super().write(count)


class FakeTimer:
    """Stands in for the timer of a window of SLOTS launches."""

    region, launches, captured, where, trusted = 0, SLOTS, True, "here", False
    checked, elapsed, gpu_clocked = True, int(2e9 * SLOTS * STEP_SECONDS), True

    def __init__(self, process: Window) -> None:
        self.ring, self.process = process.ring, process

    def first_slot(self) -> int:
        return 0

    def sample(self) -> int:
        return SLOTS


def timer_of(process: Window) -> WindowTimer:
    return cast(WindowTimer, FakeTimer(process))


@pytest.fixture(autouse=True)
def undisturbed_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    read = LaunchOrderSamples._read

    def undisturbed(self: LaunchOrderSamples) -> bytes:
        with UNDISTURBED:
            return read(self)

    monkeypatch.setattr(LaunchOrderSamples, "_read", undisturbed)


@pytest.fixture
def ring(task: Task, monkeypatch: pytest.MonkeyPatch) -> Iterator[BufferRing]:
    """A ring with its slots in order, as on a GPU."""
    monkeypatch.setattr(Layout, "shuffled", lambda self: self)
    seen = task.cases(Split.SEEN)[0]
    case = dataclasses.replace(seen, symbols={"rows": 64, "cols": 256, "shift": 0.5})
    with BufferRing(task.operator, case, SLOTS, processes=1) as ring:
        yield ring


def samples_of(ring: BufferRing) -> LaunchOrderSamples:
    ring.refill(0, 0, SLOTS)
    return LaunchOrderSamples(ring.outputs[0], ring.secret, SLOTS)


def test_sequential_launches_are_accepted(ring: BufferRing) -> None:
    detector = OverlapDetector()
    detector.check(timer_of(Window(ring, concurrent=1)), windows=3)
    assert detector.out_of_order == 0


def test_concurrent_launches_are_rejected(ring: BufferRing) -> None:
    with pytest.raises(SubmissionError, match="here: launches of a window ran beside") as caught:
        OverlapDetector().check(timer_of(Window(ring, concurrent=4)), windows=3)
    assert caught.value.reason is Reason.FORBIDDEN


def test_overlap_detector_needs_three_windows_of_a_verdict_as_proof(ring: BufferRing) -> None:
    detector = OverlapDetector()
    for windows in ([4, 1], [1], [4, 1], [1]):
        detector.check(timer_of(Changing(ring, windows)))
        assert not windows, "after a window out of order another one is sampled"
    OverlapDetector().check(timer_of(Changing(ring, [4, 4, 1])))  # another verdict starts anew
    with pytest.raises(SubmissionError):
        detector.check(timer_of(Changing(ring, [4])))


def test_concurrent_launches_of_a_baseline_are_accepted(ring: BufferRing) -> None:
    timer = timer_of(Window(ring, concurrent=4))
    timer.trusted = True
    detector = OverlapDetector()
    detector.check(timer, windows=launch_order.PROOF)
    assert detector.out_of_order == 0


def test_output_before_its_request_is_rejected(ring: BufferRing) -> None:
    class Early(Window):
        """Writes as soon as the inputs are there."""

        def require_idle(self) -> None:
            self.write(SLOTS)

    with pytest.raises(SubmissionError, match="here: wrote an output before") as caught:
        OverlapDetector().check(timer_of(Early(ring, 1)), windows=3)
    assert caught.value.reason is Reason.FORBIDDEN


def test_partial_samples_are_those_of_a_window_under_way(ring: BufferRing) -> None:
    samples = samples_of(ring)
    samples(lambda: True)
    assert not len(samples.partial()), "nothing is written yet"
    for slot in range(SLOTS):
        ring.outputs[0].slot(slot)["out"].fill_(1.0)
        samples(lambda: True)
        samples(lambda: True)
    assert [int(written.any(1).sum()) for written in samples.partial()] == list(range(1, SLOTS))
    assert in_order(samples.partial())


def test_sample_of_one_written_launch_shows_that_launch(ring: BufferRing) -> None:
    for _ in range(200):
        samples = samples_of(ring)
        ring.outputs[0].slot(3)["out"].flatten()[::2].fill_(1.0)
        samples(lambda: True)
        (written,) = samples.partial()
        assert written.any(1).tolist() == [slot == 3 for slot in range(SLOTS)]
        assert bool(written[3].all()) and 1 <= written.shape[1] <= launch_order.PLACES


def test_samples_read_secret_places(ring: BufferRing) -> None:
    """Of each eighth of an output ever more is written, until all places are."""
    found: set[int] = set()
    for _ in range(200):
        samples = samples_of(ring)
        eighths = ring.outputs[0].row(3).view(launch_order.PLACES, -1)
        for number, chunk in enumerate(eighths.split(256, dim=1)):
            chunk.fill_(1)
            if samples.once()[3].all():
                found.add(number)
                break
    assert len(found) > 10


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "int8", "int64"])
@pytest.mark.parametrize("elements", [4, 7, 100])
def test_sample_of_any_dtype_shows_what_is_written(dtype: str, elements: int) -> None:
    layout = Layout.of([TensorSpec("out", (elements,), dtype)], 4)
    region = HostMemory().region("outputs", layout)
    poison(region.column("out"), secret=77)
    samples = LaunchOrderSamples(region, 77, 4)
    region.slot(2)["out"].fill_(1)
    assert samples.once().any(1).tolist() == [False, False, True, False]
    region.close()


def test_samples_of_a_long_window_read_a_secret_stretch(
    ring: BufferRing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch_order, "MAX_SLOTS", 4)
    stretches = set()
    for _ in range(100):
        samples, inside = samples_of(ring), []
        for slot in range(SLOTS):
            before = samples.once().any(1).sum()
            ring.outputs[0].slot(slot)["out"].fill_(1.0)
            if samples.once().any(1).sum() > before:
                inside.append(slot)
        stretches.add(tuple(inside))
    assert stretches == {tuple(range(first, first + 4)) for first in range(SLOTS - 4 + 1)}


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (["11", "11", "00"], True),
        (["11", "10", "00"], True),
        (["00", "00", "00"], True),
        (["11", "11", "11"], True),
        (["11", "00", "10"], False),
        (["10", "10", "00"], False),
        (["00", "11", "11"], False),
    ],
)
def test_in_order_with_a_write_behind_an_unfinished_launch_is_false(
    rows: list[str], expected: bool
) -> None:
    written = torch.tensor([[mark == "1" for mark in row] for row in rows])
    nothing = torch.zeros_like(written)
    assert in_order(torch.stack([nothing, written, nothing])) is expected
    assert in_order(torch.stack([nothing])[:0]), "without samples"
