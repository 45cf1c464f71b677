"""Late-input check: each launch of a window must use the inputs that it finds when it begins.

All inputs of an ordinary window are in memory before it starts. A candidate could therefore compute
launches ahead of their turn, concurrently, and only copy outputs later. In this check some launches
find decoy inputs until the window is under way. Then the judge writes the right ones, on a GPU by
the copy engine, which works beside another process's kernels.

A launch that had not begun by then must use the right inputs. It had not begun where the previous
launch was unfinished: a secret place of that launch's output still changed afterwards.

The candidate receives the same request as for any other window.

Limitation: a candidate that compares all inputs of a launch with those it used is not found; where
memory bounds a kernel, that costs what it gains. On a processor, a few launches ahead are not
found: some microseconds.
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
from evaluation.timing.gpu_clock import observable_outputs, secret_reader
from evaluation.timing.window import MIN_LAUNCHES, attribute_failure

if TYPE_CHECKING:
    from evaluation.timing.window import WindowTimer

MAX_SECONDS = 1.0
"""Longest wait of the first copy for its moment."""
SETTLED_SECONDS = {"cpu": 10e-6, "cuda": 0.0}
"""Delay within which a processor's writes become visible to other cores.

A GPU needs none: a launch begins when the writes of the previous one are visible.
"""


class LateInputs:
    """Inputs of some launches of one window that arrive while it is under way.

    They arrive when a secret launch has written its output, or after a secret time.
    """

    def __init__(self, timer: WindowTimer, first: int, launches: int) -> None:
        """Choose launches of a window of MIN_LAUNCHES or more.

        The candidate cannot observe it.
        """
        self._ring, self._region = timer.ring, timer.region
        self._first, self._launches = first, launches
        self._slices = InputSlices(timer.ring, first, launches)
        self._timed = bool(secrets.randbelow(2))
        self._seconds = secrets.SystemRandom().random() * timer.elapsed / 1e9
        self._settled = SETTLED_SECONDS[timer.ring.inputs.bytes.device.type]
        outputs = timer.ring.outputs[timer.region]
        befores = [self._slot(launch - 1) for launch in self._slices.launches]
        self._befores = [secret_reader(outputs, slot) for slot in befores]
        self._front = secret_reader(outputs, self._slot(self._slices.front))
        self._found: list[bytes] = []

    def begin(self) -> None:
        """Refill the ring, with decoy inputs for the chosen launches."""
        self._ring.refill(self._region, self._first, self._launches)
        self._slices.keep()
        self._slices.write(self._slices.decoy_inputs)
        self._unwritten = self._front()
        if self._ring.inputs.bytes.is_cuda:
            torch.cuda.synchronize()

    def _slot(self, launch: int) -> int:
        return (self._first + launch) % self._ring.slots

    def __call__(self, completed: Callable[[], bool]) -> None:
        started = time.perf_counter()
        while not completed() and time.perf_counter() < started + MAX_SECONDS:
            if self._timed and time.perf_counter() > started + self._seconds:
                break
            if not self._timed and self._front() != self._unwritten:
                break
        for number, before in enumerate(self._befores):
            self._slices.arrive(number)
            arrived = time.perf_counter()
            while time.perf_counter() < arrived + self._settled:
                pass
            self._found.append(before())

    def put_right(self) -> None:
        """Write all inputs that have not arrived, whether or not the window came so far."""
        for number in range(len(self._befores)):
            self._slices.arrive(number)

    def in_time(self) -> list[int]:
        """Return the launches that had not begun when their inputs arrived.

        The window must be over.
        """
        launches = zip(self._slices.launches, self._befores, self._found, strict=True)
        return [launch for launch, before, found in launches if before() != found]


OverlapCheck = Callable[["WindowTimer"], None]


def checks_of(
    timer: WindowTimer, overlap_detector: launch_order.OverlapDetector
) -> tuple[OverlapCheck, ...]:
    """Return the checks for windows that are not timed: late inputs and, on a GPU, launch order.

    Reading a processor's memory takes too long for launch order.
    """
    return (overlap_detector.check, check) if timer.gpu_clocked else (check,)


def window_with_checks(
    timer: WindowTimer, share: float, overlap_detector: launch_order.OverlapDetector
) -> Callable[[], float]:
    """Return `timer.window`, preceded by an untimed window with a check in a share of its calls.

    The candidate cannot tell these windows apart, so it must be honest in all of them. Baselines
    get them too, so that both have the same surroundings. The window raises what its checks raise.
    """
    checks = checks_of(timer, overlap_detector)

    def window() -> float:
        if secrets.SystemRandom().random() < share:
            secrets.choice(checks)(timer)
        return timer.window()

    return window


def check(timer: WindowTimer) -> None:
    """Run one window, inputs of some of its launches arriving meanwhile.

    Raises: SubmissionError.
    """
    ring, launches = timer.ring, min(timer.launches, timer.ring.slots)
    if launches < MIN_LAUNCHES or not observable_outputs(ring.outputs[timer.region].layout):
        return
    first = timer.first_slot()
    late_inputs = LateInputs(timer, first, launches)
    with attribute_failure(timer):
        timer.process.prepare(first, launches)
    late_inputs.begin()
    with attribute_failure(timer):
        timer.process.require_idle()
        try:
            timer.process.run(first, launches, ring.poll, timer.captured, late_inputs)
        except SubmissionError:
            late_inputs.put_right()  # a failure before they arrived has changed no inputs
            raise
        timer.process.require_idle()
        if timer.checked:
            where = f"{timer.where}, inputs that arrive before their launch"
            ring.verify(timer.region, first, launches, 0, where)
            some = late_inputs.in_time()[: max(1, timer.sample())]
            ring.verify_launches(timer.region, first, some, where)
