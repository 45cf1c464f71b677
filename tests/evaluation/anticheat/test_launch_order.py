"""Glances into a window see whether its launches run one after the other."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest
import torch

from evaluation.anticheat import launch_order
from evaluation.anticheat.launch_order import LaunchOrderSamples, OverlapDetector, in_order
from evaluation.errors import SubmissionError
from evaluation.memory.layout import HostMemory, Layout, TensorSpec, poison
from evaluation.memory.ring import BufferRing
from evaluation.process.handle import ProcessHandle
from evaluation.tasks.spec import Task
from evaluation.timing.window import WindowTimer
from evaluation.types import Reason, Split

SLOTS = 12
STEP_SECONDS = 0.002
UNDISTURBED = threading.Lock()
"""Held by who writes and who glances: on a busy machine a glance would be held up midway."""


class Window:
    """A stand-in for an arm, which writes every output in halves: of one launch after the other,
    or of as many side by side as it is told.
    """

    def __init__(self, ring: BufferRing, side_by_side: int) -> None:
        self.ring, self.side_by_side = ring, side_by_side

    def steps(self, count: int) -> Iterator[tuple[int, int]]:
        for first in range(0, count, self.side_by_side):
            crowd = range(first, min(first + self.side_by_side, count))
            yield from ((slot, half) for half in (0, 1) for slot in crowd)

    def require_idle(self) -> None:
        """It leaves nothing running."""

    def given(self, slot: int) -> dict[str, torch.Tensor]:
        return self.ring.inputs.slot(slot)

    def write(self, count: int) -> None:
        for slot, half in self.steps(count):
            given, out = self.given(slot), self.ring.outputs[0].slot(slot)["out"]
            answer = given["x"] * given["weight"] + self.ring.values["shift"]
            rows = slice(None, len(out) // 2) if half == 0 else slice(len(out) // 2, None)
            with UNDISTURBED:
                out[rows] = answer[rows]
            time.sleep(STEP_SECONDS)

    def prepare(self, first: int, count: int) -> int:
        return 0

    def run(
        self,
        first: int,
        count: int,
        poll: Callable[[], None],
        replay: bool,
        during: Callable[[Callable[[], bool]], None] = lambda answered: None,
    ) -> int:
        started = time.perf_counter_ns()
        writer = threading.Thread(target=self.write, args=(count,))
        writer.start()
        during(lambda: not writer.is_alive())
        writer.join()
        return time.perf_counter_ns() - started


class Changing(Window):
    """Launches as many side by side as it is told for each window in turn."""

    def __init__(self, ring: BufferRing, crowds: list[int]) -> None:
        super().__init__(ring, 1)
        self.crowds = crowds

    def write(self, count: int) -> None:
        self.side_by_side = self.crowds.pop(0)
        super().write(count)


def timed(ring: BufferRing, side_by_side: int) -> WindowTimer:
    class Timed:
        region, launches, captured, where, trusted = 0, SLOTS, True, "here", False
        checked, elapsed, gpu_clocked = True, int(2e9 * SLOTS * STEP_SECONDS), True

        def first_slot(self) -> int:
            return 0

        def sample(self) -> int:
            return SLOTS

    timer: Any = Timed()
    timer.ring, timer.process = ring, Window(ring, side_by_side)
    return cast(WindowTimer, timer)


def changing(ring: BufferRing, crowds: list[int]) -> WindowTimer:
    timer: Any = timed(ring, 1)
    timer.process = Changing(ring, crowds)
    return cast(WindowTimer, timer)


@pytest.fixture(autouse=True)
def glances_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    poll = LaunchOrderSamples._read

    def at_once(self: LaunchOrderSamples) -> bytes:
        with UNDISTURBED:
            return poll(self)

    monkeypatch.setattr(LaunchOrderSamples, "_read", at_once)


@pytest.fixture
def ring(task: Task, monkeypatch: pytest.MonkeyPatch) -> Iterator[BufferRing]:
    """With its slots in order, as on a GPU, where glances go."""
    monkeypatch.setattr(Layout, "shuffled", lambda self: self)
    seen = task.cases(Split.SEEN)[0]
    case = dataclasses.replace(seen, symbols={"rows": 64, "cols": 256, "shift": 0.5})
    with BufferRing(task.operator, case, SLOTS, processes=1) as ring:
        yield ring


def test_launches_in_a_row_are_in_order(ring: BufferRing) -> None:
    OverlapDetector().check(timed(ring, side_by_side=1), windows=3)


def test_launches_side_by_side_are_refused(ring: BufferRing) -> None:
    with pytest.raises(SubmissionError, match="here: launches of a window ran beside") as caught:
        OverlapDetector().check(timed(ring, side_by_side=4), windows=3)
    assert caught.value.reason is Reason.FORBIDDEN


def test_a_glance_may_be_mistaken_so_three_windows_of_a_verdict_tell(ring: BufferRing) -> None:
    witness = OverlapDetector()
    for crowds in ([4, 1], [1], [4, 1], [1]):
        witness.check(changing(ring, crowds))
        assert not crowds, "after one that is out of order another one is glanced at"
    OverlapDetector().check(changing(ring, [4, 4, 1]))  # another verdict begins anew
    with pytest.raises(SubmissionError):
        witness.check(changing(ring, [4]))


def test_of_a_baseline_nothing_is_asked(ring: BufferRing) -> None:
    timer: Any = timed(ring, side_by_side=4)
    timer.trusted = True
    OverlapDetector().check(timer, windows=launch_order.PROOF)


def test_an_answer_that_came_before_the_question_is_refused(ring: BufferRing) -> None:
    class Waiting(Window):
        """Its work waits for the inputs, not to be asked."""

        def require_idle(self) -> None:
            self.write(SLOTS)

    timer = timed(ring, side_by_side=1)
    timer.process = cast(ProcessHandle, Waiting(ring, 1))
    with pytest.raises(SubmissionError, match="here: wrote an output before") as caught:
        OverlapDetector().check(timer, windows=3)
    assert caught.value.reason is Reason.FORBIDDEN


def test_glances_that_tell_fall_into_a_window_that_is_under_way(ring: BufferRing) -> None:
    ring.refill(0, 0, SLOTS)
    glances = LaunchOrderSamples(ring.outputs[0], ring.secret, SLOTS)
    glances(lambda: True)
    assert not len(glances.partial()), "nothing is written yet"
    for slot in range(SLOTS):
        ring.outputs[0].slot(slot)["out"].fill_(1.0)
        glances(lambda: True)
        glances(lambda: True)
    assert [int(written.any(1).sum()) for written in glances.partial()] == list(range(1, SLOTS))
    assert in_order(glances.partial())


def test_glances_go_to_secret_places_of_every_launch(ring: BufferRing) -> None:
    seen: set[int] = set()
    for _ in range(200):
        ring.refill(0, 0, SLOTS)
        ring.outputs[0].slot(3)["out"].flatten()[::2].fill_(1.0)
        glances = LaunchOrderSamples(ring.outputs[0], ring.secret, SLOTS)
        glances(lambda: True)
        (written,) = glances.partial()
        assert written.any(1).tolist() == [slot == 3 for slot in range(SLOTS)]
        assert bool(written[3].all()) and 1 <= written.shape[1] <= launch_order.PLACES
        seen.add(glances._rows.storage_offset())
    assert len(seen) > 10


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "int8", "int64"])
@pytest.mark.parametrize("elements", [4, 7, 100])
def test_every_dtype_is_seen_unwritten_and_written(dtype: str, elements: int) -> None:
    layout = Layout.of([TensorSpec("out", (elements,), dtype)], 4)
    region = HostMemory().region("outputs", layout)
    poison(region.column("out"), secret=77)
    glances = LaunchOrderSamples(region, 77, 4)
    region.slot(2)["out"].fill_(1)
    assert glances.once().any(1).tolist() == [False, False, True, False]
    region.close()


def test_a_stretch_of_a_long_window_is_looked_at(
    ring: BufferRing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch_order, "MAX_SLOTS", 4)
    ring.refill(0, 0, SLOTS)
    firsts = set()
    for _ in range(100):
        glances = LaunchOrderSamples(ring.outputs[0], ring.secret, SLOTS)
        assert len(glances._rows) == 4 * launch_order.PLACES
        firsts.add(glances._rows.storage_offset() // ring.outputs[0].layout.stride)
    assert firsts == set(range(SLOTS - 4 + 1))


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
def test_nothing_is_written_behind_an_unfinished_launch(rows: list[str], expected: bool) -> None:
    written = torch.tensor([[mark == "1" for mark in row] for row in rows])
    nothing = torch.zeros_like(written)
    assert in_order(torch.stack([nothing, written, nothing])) is expected
    assert in_order(torch.stack([nothing])[:0]), "nothing was seen"
