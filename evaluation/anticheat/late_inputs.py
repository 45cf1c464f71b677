"""Late-input check: each launch of a window must use the inputs that it finds when it begins.

All inputs of an ordinary window are in memory before it starts. A candidate could therefore compute
launches ahead of their turn, concurrently, and only copy outputs later. In this check some launches
find decoy inputs until the window is under way. Then the judge injects the right ones, on a GPU by
the copy engine, which works beside another process's kernels. A launch that had not begun by then
must use them. It had not begun where a secret place of the previous launch's output still changed
afterwards.

The candidate receives the same request as for any other window.

Limitation: a candidate that compares all inputs of a launch with those it used is not found; where
memory bounds a kernel, that costs what it gains. On a processor, launches a few microseconds ahead
are not found.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable

import torch

from evaluation.anticheat.launch_order import OverlapDetector
from evaluation.errors import SubmissionError
from evaluation.memory.input_slices import InputSlices
from evaluation.timing.gpu_clock import observable_outputs, secret_reader
from evaluation.timing.window import MIN_LAUNCHES, WindowTimer, attribute_failure

Check = Callable[[WindowTimer], None]

MAX_SECONDS = 1.0
"""Longest wait for the moment to inject inputs."""
SETTLED_SECONDS = {"cpu": 10e-6, "cuda": 0.0}
"""Delay until other cores see a processor's writes. On a GPU a launch begins once they are visible.
"""


class LateInputs:
    """Inputs of some launches of one window, injected by calling this as the window's sampler.

    The moment is when a secret launch has written its output, or a secret time is over.
    """

    def __init__(self, timer: WindowTimer, first: int, launches: int) -> None:
        """Choose from the launches of a window, MIN_LAUNCHES or more, from slot `first` on."""
        self._ring, self._region = timer.ring, timer.region
        self._first, self._launches = first, launches
        self._slices = InputSlices(timer.ring, first, launches)
        self._timed = bool(secrets.randbelow(2))
        self._seconds = secrets.SystemRandom().random() * timer.elapsed / 1e9
        self._settled = SETTLED_SECONDS[timer.ring.inputs.bytes.device.type]
        outputs = timer.ring.outputs[timer.region]
        slots = [self._slot(launch - 1) for launch in self._slices.launches]
        self._previous_outputs = [secret_reader(outputs, slot) for slot in slots]
        self._front_output = secret_reader(outputs, self._slot(self._slices.front))
        self._found: list[bytes] = []
        """Values of the previous outputs right after each injection."""

    def _slot(self, launch: int) -> int:
        return (self._first + launch) % self._ring.slots

    def write_decoys(self) -> None:
        """Refill the ring, with decoy inputs for the chosen launches."""
        self._ring.refill(self._region, self._first, self._launches)
        self._slices.save()
        self._slices.write(self._slices.decoy_inputs)
        self._unwritten = self._front_output()
        if self._ring.inputs.bytes.is_cuda:
            torch.cuda.synchronize()

    def __call__(self, completed: Callable[[], bool]) -> None:
        """Wait for the secret moment, then inject the right inputs."""
        started = time.perf_counter()
        while not completed() and time.perf_counter() < started + MAX_SECONDS:
            if self._timed and time.perf_counter() > started + self._seconds:
                break
            if not self._timed and self._front_output() != self._unwritten:
                break
        for number, previous_output in enumerate(self._previous_outputs):
            self._slices.inject(number)
            injected = time.perf_counter()
            while time.perf_counter() < injected + self._settled:
                pass
            self._found.append(previous_output())

    def inject_all(self) -> None:
        """Inject the right inputs of all launches, also where the window failed before."""
        for number in range(len(self._previous_outputs)):
            self._slices.inject(number)

    def in_time(self) -> list[int]:
        """Return the launches that had not begun when their inputs arrived, after the window."""
        launches = zip(self._slices.launches, self._previous_outputs, self._found, strict=True)
        return [launch for launch, read, found in launches if read() != found]


def checks_of(timer: WindowTimer, detector: OverlapDetector) -> tuple[Check, ...]:
    """Return the checks for untimed windows: late inputs and, on a GPU, launch order.

    Reading a processor's memory takes too long for launch order.
    """
    return (detector.check, check) if timer.gpu_clocked else (check,)


def window_with_checks(
    timer: WindowTimer, share: float, detector: OverlapDetector
) -> Callable[[], float]:
    """Return `timer.window`, preceded by an untimed window with a check in a share of its calls.

    The candidate cannot distinguish these windows, so it must be honest in all of them. Baselines
    get them too, so that both have the same surroundings.
    """
    checks = checks_of(timer, detector)

    def window() -> float:
        if secrets.SystemRandom().random() < share:
            secrets.choice(checks)(timer)
        return timer.window()

    return window


def check(timer: WindowTimer) -> None:
    """Run one untimed window with late inputs. Raises SubmissionError."""
    ring, launches = timer.ring, min(timer.launches, timer.ring.slots)
    if launches < MIN_LAUNCHES or not observable_outputs(ring.outputs[timer.region].layout):
        return
    first = timer.first_slot()
    late_inputs = LateInputs(timer, first, launches)
    with attribute_failure(timer):
        timer.process.prepare(first, launches)
    late_inputs.write_decoys()
    with attribute_failure(timer):
        timer.process.require_idle()
        try:
            timer.process.run(first, launches, ring.poll, timer.captured, late_inputs)
        except SubmissionError:
            late_inputs.inject_all()  # else the decoys look like inputs that the candidate changed
            raise
        timer.process.require_idle()
        if timer.checked:
            where = f"{timer.where}, inputs that arrive before their launch"
            ring.verify(timer.region, first, launches, 0, where)
            some = late_inputs.in_time()[: max(1, timer.sample())]
            ring.verify_launches(timer.region, first, some, where)
