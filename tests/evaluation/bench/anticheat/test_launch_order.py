"""Samples of a window show whether its launches run one after the other."""

from __future__ import annotations

import dataclasses
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator
from functools import partial
from types import SimpleNamespace
from typing import cast

import pytest
import torch

from evaluation.bench.anticheat import launch_order, window_checks
from evaluation.bench.anticheat.launch_order import LaunchOrderSamples, OverlapDetector, in_order
from evaluation.bench.anticheat.window_checks import checks_of
from evaluation.bench.memory.host import HostMemory
from evaluation.bench.memory.layout import Layout, TensorSpec
from evaluation.bench.memory.poison import poison
from evaluation.bench.memory.ring import BufferRing
from evaluation.bench.process.handle import ProcessHandle
from evaluation.bench.timing import gpu_clock
from evaluation.bench.timing.window import WindowTimer
from evaluation.errors import SubmissionError
from evaluation.kinds.kernel.workload import OperatorWorkload
from evaluation.tasks.spec import Task
from evaluation.types import Reason, Split

SLOTS = 12
STEP_SECONDS = 0.002
UNDISTURBED = threading.Lock()
"""Held during each write and each sample: a busy machine could interrupt a sample midway."""


class Window:
    """Stands in for a process that writes outputs in halves, of `concurrent` launches at a time."""

    waited_ns = judge_waited_ns = 0
    peak_gpu_bytes = None

    def __init__(self, ring: BufferRing, concurrent: int) -> None:
        self.ring, self.concurrent = ring, concurrent
        self.windows_run = 0

    def bind(self, *given: object) -> None:
        """Accept any memory."""

    def steps(self, first: int, count: int) -> Iterator[tuple[int, int]]:
        """Yield slots and their halves, in the order in which they are written."""
        for begin in range(0, count, self.concurrent):
            launches = range(begin, min(begin + self.concurrent, count))
            slots = [(first + launch) % self.ring.slots for launch in launches]
            yield from ((slot, half) for half in (0, 1) for slot in slots)

    def require_idle(self) -> None:
        """Leave nothing running."""

    def inputs_of(self, slot: int) -> dict[str, torch.Tensor]:
        return self.ring.inputs.slot(slot)

    def write(self, first: int, count: int) -> None:
        for slot, half in self.steps(first, count):
            inputs, out = self.inputs_of(slot), self.ring.outputs.slot(slot)["out"]
            values = inputs["x"] * inputs["weight"] + self.ring.workload.values["shift"]
            rows = slice(None, len(out) // 2) if half == 0 else slice(len(out) // 2, None)
            with UNDISTURBED:
                out[rows] = values[rows]
            time.sleep(STEP_SECONDS)  # waits: launches that last; longer ones pass too

    def prepare(self, first: int, count: int) -> int:
        return 0

    def run(
        self,
        first: int,
        count: int,
        observe: Callable[[], None],
        replay: bool = False,
        sampler: Callable[[Callable[[], bool]], None] = lambda completed: None,
    ) -> int:
        self.windows_run += count > 1
        started = time.perf_counter_ns()  # waits: the time that a window returns
        writer = threading.Thread(target=self.write, args=(first, count))
        writer.start()
        sampler(lambda: not writer.is_alive())
        writer.join()
        return time.perf_counter_ns() - started  # waits: as above


class NoLateInputs:
    """Stands in for late inputs, which launches that begin too early would not use."""

    launches: Collection[int] = ()
    moments = ()

    def __init__(self, *given: object) -> None:
        """Choose no launch."""

    def write_decoys(self) -> None:
        """Write nothing."""

    inject_missing = write_decoys

    def in_time(self) -> list[int]:
        return []


def timer_of(
    process: Window, detector: OverlapDetector | None = None, trusted: bool = False
) -> WindowTimer:
    """Return a timer of windows of SLOTS launches, observed as on a GPU."""
    observe = partial(checks_of, detector or OverlapDetector())
    timer = WindowTimer(
        cast(ProcessHandle, process), process.ring, trusted, "here", observe=observe
    )
    timer.gpu_clocked = timer.checked = True
    timer.resize(SLOTS)
    return timer


@pytest.fixture
def no_late_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window_checks, "LateInputs", NoLateInputs)


@pytest.fixture(autouse=True)
def undisturbed_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    read = LaunchOrderSamples._read

    def undisturbed(self: LaunchOrderSamples) -> bytes:
        with UNDISTURBED:
            return read(self)

    monkeypatch.setattr(LaunchOrderSamples, "_read", undisturbed)
    monkeypatch.setattr(gpu_clock, "BLUR_NS", 1e9)  # however busy this machine is


@pytest.fixture(autouse=True)
def short_turns() -> Iterator[None]:
    """Let the threads of judge and process take turns faster than launches."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    yield
    sys.setswitchinterval(before)


@pytest.fixture
def ring(task: Task, monkeypatch: pytest.MonkeyPatch) -> Iterator[BufferRing]:
    """A ring with its outputs in order and its inputs not, as on a GPU."""
    shuffled = Layout.shuffled

    def inputs_shuffled(layout: Layout) -> Layout:
        return layout if layout.specs[0].name == "out" else shuffled(layout)

    monkeypatch.setattr(Layout, "shuffled", inputs_shuffled)
    seen = task.cases(Split.SEEN)[0]
    case = dataclasses.replace(seen, symbols={"rows": 64, "cols": 256, "shift": 0.5})
    with BufferRing(OperatorWorkload(task.operator, case), SLOTS) as ring:
        yield ring


def samples_of(ring: BufferRing, count: int = SLOTS) -> LaunchOrderSamples:
    ring.refill(0, SLOTS)
    return LaunchOrderSamples(ring.outputs, ring.secret, count)


@pytest.mark.usefixtures("no_late_inputs")
def test_sequential_launches_are_accepted(ring: BufferRing) -> None:
    detector, process = OverlapDetector(), Window(ring, concurrent=1)
    timer = timer_of(process, detector)
    _ = [timer.window() for _ in range(6)]
    assert detector.out_of_order == 0 and process.windows_run >= 6


@pytest.mark.usefixtures("no_late_inputs")
def test_concurrent_launches_are_rejected(ring: BufferRing) -> None:
    timer = timer_of(Window(ring, concurrent=4))
    with pytest.raises(SubmissionError, match="here: launches of a window ran beside") as caught:
        _ = [timer.window() for _ in range(12)]
    assert caught.value.reason is Reason.FORBIDDEN


def samples_in_order(right: bool) -> LaunchOrderSamples:
    """Return samples of three launches, of which the last is written or not begun."""
    written = torch.tensor([[[True, True], [False, False], [not right] * 2]])
    return cast(LaunchOrderSamples, SimpleNamespace(partial=lambda: written))


def test_two_windows_of_a_verdict_out_of_order_are_proof() -> None:
    detector, other = OverlapDetector(), OverlapDetector()
    for right in (True, False, True, True):
        detector.add(samples_in_order(right), "here")
    assert detector.out_of_order == launch_order.PROOF - 1 == 1
    other.add(samples_in_order(False), "here")  # another verdict starts anew
    with pytest.raises(SubmissionError, match="here: launches of a window ran beside") as caught:
        detector.add(samples_in_order(False), "here")
    assert caught.value.reason is Reason.FORBIDDEN


@pytest.mark.usefixtures("no_late_inputs")
def test_concurrent_launches_of_a_baseline_are_accepted(ring: BufferRing) -> None:
    detector = OverlapDetector()
    timer = timer_of(Window(ring, concurrent=4), detector, trusted=True)
    _ = [timer.window() for _ in range(2 * launch_order.PROOF)]
    assert detector.out_of_order == 0


@pytest.mark.parametrize("trusted", [False, True], ids=["candidate", "baseline"])
def test_output_of_a_candidate_before_its_request_is_rejected(
    trusted: bool, ring: BufferRing, monkeypatch: pytest.MonkeyPatch
) -> None:
    timer = timer_of(Window(ring, 1), trusted=trusted)
    refill = ring.refill

    def refill_and_write(first: int, count: int) -> None:
        refill(first, count)
        for slot in range(SLOTS):
            ring.outputs.slot(slot)["out"].fill_(1.0)

    monkeypatch.setattr(ring, "refill", refill_and_write)
    if trusted:
        assert timer.window() > 0
        return
    with pytest.raises(SubmissionError, match="here: wrote an output before") as caught:
        timer.window()
    assert caught.value.reason is Reason.FORBIDDEN


def test_partial_samples_are_those_of_a_window_under_way(ring: BufferRing) -> None:
    samples = samples_of(ring)
    samples.sample()
    assert not len(samples.partial()), "nothing is written yet"
    for launch in range(SLOTS):
        ring.outputs.slot(launch)["out"].fill_(1.0)
        samples.sample()
    assert [int(written.any(1).sum()) for written in samples.partial()] == list(range(1, SLOTS))
    assert in_order(samples.partial())


def test_launches_written_backwards_are_not_in_order(ring: BufferRing) -> None:
    samples = samples_of(ring)
    for launch in reversed(range(SLOTS)):
        ring.outputs.slot(launch)["out"].fill_(1.0)
        samples.sample()
    assert not in_order(samples.partial())


@pytest.mark.parametrize("launch", [0, 3, SLOTS - 1])
def test_sample_of_one_written_launch_shows_that_launch(ring: BufferRing, launch: int) -> None:
    for _ in range(100):
        samples = samples_of(ring)
        ring.outputs.slot(launch)["out"].flatten()[::2].fill_(1.0)
        samples.sample()
        (written,) = samples.partial()
        assert written.any(1).tolist() == [number == launch for number in range(SLOTS)]
        assert bool(written[launch].all()) and 1 <= written.shape[1] <= launch_order.PLACES


def test_samples_of_a_short_window_show_its_launches_alone(ring: BufferRing) -> None:
    samples = samples_of(ring, count=4)
    for slot in range(4, SLOTS):
        ring.outputs.slot(slot)["out"].fill_(1.0)
    assert samples.written().shape[0] == 4 and not samples.written().any()
    ring.outputs.slot(2)["out"].fill_(1.0)
    assert samples.written().all(1).tolist() == [False, False, True, False]


def test_moments_of_samples_are_secret_and_before_the_end(ring: BufferRing) -> None:
    shares = [[share for share, _ in samples_of(ring).moments] for _ in range(100)]
    assert all(sorted(each) == each and len(each) == launch_order.SAMPLES for each in shares)
    flat = [share for each in shares for share in each]
    assert len(set(flat)) == len(flat)
    assert 0 <= min(flat) < 0.05
    assert launch_order.LATEST - 0.05 < max(flat) <= launch_order.LATEST


def test_samples_read_secret_places(ring: BufferRing) -> None:
    """Of each part of an output ever more is written, until all places are."""
    found: set[int] = set()
    for _ in range(200):
        samples = samples_of(ring)
        parts = ring.outputs.row(3).view(launch_order.PLACES, -1)
        for number, chunk in enumerate(parts.split(256, dim=1)):
            chunk.fill_(1)
            if samples.written()[3].all():
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
    assert samples.written().any(1).tolist() == [False, False, True, False]
    region.close()


def test_samples_of_a_long_window_are_of_a_secret_stretch_while_it_is_written(
    ring: BufferRing,
) -> None:
    stretches = set()
    for _ in range(200):
        ring.refill(0, SLOTS)
        samples = LaunchOrderSamples(ring.outputs, ring.secret, SLOTS, max_launches=4)
        for slot in range(8):
            ring.outputs.slot(slot)["out"].fill_(slot + 1.0)
            if samples.written().all(1).sum() == 1:
                first = slot
                break
        stretches.add(first)
        shares = [share for share, _ in samples.moments]
        assert all(first <= SLOTS * share <= first + 4 for share in shares), (first, shares)
    assert stretches == {0, 1, 2, 3, 4}, "it ends by LATEST"


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
