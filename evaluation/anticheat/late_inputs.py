"""Whether each launch of a window answers from the inputs that it finds when it begins.

All inputs of a window lie ready before it, so who answers launches ahead of their turn can do so in
a crowd, into memory of its own, and only copy later: its outputs are right, and in order. Here some
inputs are those of no launch until the window is under way; then the judge puts the right ones
there, on a GPU by the copy engine, which works beside another process's kernels. A launch that had
not begun by then must answer from them. It had not where the launch before it was unfinished: where
a secret place of that one's output still changed afterwards.

To the contestant it is the same request as any other window, with the same graph and nothing
between its launches (there `audit` is stricter, and can be told). Not found is who compares all
inputs of a launch with those it answered; where memory bounds a kernel, that costs what it saves.
Nor, on a processor, who answers few launches ahead: some microseconds' worth.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import torch

from evaluation.anticheat import launch_order
from evaluation.errors import SubmissionError
from evaluation.memory.input_slices import InputSlices
from evaluation.timing.gpu_clock import telling, watched
from evaluation.timing.window import LEAST_LAUNCHES, blame

if TYPE_CHECKING:
    from evaluation.timing.window import WindowTimer

MOST_SECONDS = 1.0
"""That the first copy waits for its moment."""
SETTLED_SECONDS = {"cpu": 10e-6, "cuda": 0.0}
"""A processor's core reads ahead of its own writes, which others see later: by less than this. On
a GPU a launch begins once what the one before it wrote is seen.
"""


class LateInputs:
    """The inputs of some launches of one window, which come right while it is under way: from when
    a secret launch has written, or from a secret time on.
    """

    def __init__(self, timer: WindowTimer, first: int, launches: int) -> None:
        """Of a timer with so many launches from a slot on, LEAST_LAUNCHES or more. What the
        contestant sees is as it was: it is asked for the window only afterwards.
        """
        self._rig, self._region = timer.rig, timer.region
        self._first, self._launches = first, launches
        self._parts = InputSlices(timer.rig, first, launches)
        self._timed = bool(secrets.randbelow(2))
        self._seconds = secrets.SystemRandom().random() * timer.elapsed / 1e9
        self._settled = SETTLED_SECONDS[timer.rig.inputs.bytes.device.type]
        outputs = timer.rig.outputs[timer.region]
        befores = [self._slot(launch - 1) for launch in self._parts.launches]
        self._befores = [watched(outputs, slot) for slot in befores]
        self._front = watched(outputs, self._slot(self._parts.front))
        self._found: list[bytes] = []

    def begin(self) -> None:
        """Refill the ring, but for what is to come right."""
        self._rig.refill(self._region, self._first, self._launches)
        self._parts.keep()
        self._parts.lay(self._parts.strays)
        self._unwritten = self._front()
        if self._rig.inputs.bytes.is_cuda:
            torch.cuda.synchronize()

    def _slot(self, launch: int) -> int:
        return (self._first + launch) % self._rig.slots

    def __call__(self, answered: Callable[[], bool]) -> None:
        asked = time.perf_counter()
        while not answered() and time.perf_counter() < asked + MOST_SECONDS:
            if self._timed and time.perf_counter() > asked + self._seconds:
                break
            if not self._timed and self._front() != self._unwritten:
                break
        for number, before in enumerate(self._befores):
            self._parts.arrive(number)
            arrived = time.perf_counter()
            while time.perf_counter() < arrived + self._settled:
                pass
            self._found.append(before())

    def put_right(self) -> None:
        """Let all inputs be what they are to be, whether or not the window came so far."""
        for number in range(len(self._befores)):
            self._parts.arrive(number)

    def in_time(self) -> list[int]:
        """Once the window is over, the launches that had not begun when their inputs came."""
        seen = zip(self._parts.launches, self._befores, self._found, strict=True)
        return [launch for launch, before, found in seen if before() != found]


Look = Callable[["WindowTimer"], None]


def ways_to_look(timer: WindowTimer, witness: launch_order.OverlapDetector) -> tuple[Look, ...]:
    """What there is to ask of a window that is not clocked: whose inputs its launches answer from
    and, on a GPU, in what order they run. A look at a processor's memory takes too long for that.
    """
    return (witness.check, check) if timer.by_sight else (check,)


def looked_at_between(
    timer: WindowTimer, share: float, witness: launch_order.OverlapDetector
) -> Callable[[], float]:
    """`timer.window`, before which in so large a share of calls there is a window that is not
    clocked but looked at.

    To the contestant all are the same request, in an order that it cannot know: else it would be
    orderly once enough windows have been clocked. Baselines have them for their windows to have a
    candidate's surroundings. Raises what the ways to look do.
    """
    looks = ways_to_look(timer, witness)

    def window() -> float:
        if secrets.SystemRandom().random() < share:
            secrets.choice(looks)(timer)
        return timer.window()

    return window


def check(timer: WindowTimer) -> None:
    """Launch a window of a timer's, inputs of some of its launches arriving meanwhile. Raises
    SubmissionError.
    """
    rig, launches = timer.rig, min(timer.launches, timer.rig.slots)
    if launches < LEAST_LAUNCHES or not telling(rig.outputs[timer.region].layout):
        return
    first = timer.begins()
    arrivals = LateInputs(timer, first, launches)
    with blame(timer):
        timer.arm.prepare(first, launches)
    arrivals.begin()
    with blame(timer):
        timer.arm.require_idle()
        try:
            timer.arm.run(first, launches, rig.look, timer.captured, arrivals)
        except SubmissionError:
            arrivals.put_right()  # what fails before they came has changed no inputs
            raise
        timer.arm.require_idle()
        if timer.checked:
            where = f"{timer.where}, inputs that arrive before their launch"
            rig.verify(timer.region, first, launches, 0, where)
            some = arrivals.in_time()[: max(1, timer.sample())]
            rig.verify_launches(timer.region, first, some, where)
