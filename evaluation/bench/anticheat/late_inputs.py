"""Late inputs: each launch of a window must use the inputs that it finds when it begins.

Some launches of every window find the inputs of another launch until the window is under way. Then
the judge injects the right ones, on a GPU by the copy engine, which works beside another process's
kernels. A launch that had not begun by then must use them: one whose previous launch's output still
changed afterwards. So no candidate can compute launches ahead of their turn.

Limitation: a candidate that compares all inputs of a launch with those it used is not found; where
memory bounds a kernel, that costs what it gains. On a processor, launches a few microseconds ahead
are not found. No input of an operator with structured ones arrives late: a mixture of two positive
definite matrices is none, and an honest kernel may refuse it.
"""

from __future__ import annotations

import functools
import secrets
import time
from typing import Protocol

import torch

from evaluation.bench.memory import cuda_ipc
from evaluation.bench.memory.input_slices import secret_slice
from evaluation.bench.memory.layout import Region
from evaluation.bench.timing.gpu_clock import Moment, secret_reader

LATE_LAUNCHES = 3
"""Launches of a window whose inputs arrive late, at most, beside the second one."""
MAX_BYTES = {"cpu": 64 << 10, "cuda": 256 << 10}
"""Bytes of a launch's inputs that arrive late: a few microseconds of copying."""
LATEST = 0.7
"""Latest moment, as a share of a window's expected time. The end of the window is only timed."""
EARLY_ONE_IN = 4
"""One in so many windows, drawn in secret, has a late input of its second launch."""
SETTLED_SECONDS = {"cpu": 10e-6, "cuda": 0.0}
"""Delay until other cores see a processor's writes. On a GPU a launch begins once they are visible.
"""


class Slots(Protocol):
    """Memory with the inputs and outputs of some launches."""

    inputs: Region
    outputs: Region
    slots: int
    late: bool
    """Whether inputs of two launches may be mixed, so that some can arrive late."""


class LateInputs:
    """Inputs of some launches of one window, which arrive at secret moments."""

    def __init__(self, ring: Slots, first: int, launches: int, gpu_clocked: bool = False) -> None:
        """Choose from the launches of a window, three or more, from slot `first` on.

        The moments of a `gpu_clocked` window are those of the GPU clock.
        """
        self._ring = ring
        count = LATE_LAUNCHES if ring.late else 0
        device = ring.inputs.bytes.device.type
        self._settled = SETTLED_SECONDS[device]
        drawn_at = sorted(secrets.SystemRandom().random() * LATEST for _ in range(count))
        places = [share * launches for share in drawn_at]
        chosen = {launch_behind(int(place), launches): place for place in places}
        if count and secrets.randbelow(EARLY_ONE_IN) == 0:
            chosen[1] = secrets.SystemRandom().random()
        share_of = clocked_share if gpu_clocked else share_of_window
        chosen = {launch: share_of(place, launches) for launch, place in chosen.items()}
        self.launches = list(chosen)
        self._shares = list(chosen.values())
        slots = [(first + launch) % ring.slots for launch in self.launches]
        parts = [secret_slice(ring.inputs.layout.stride, MAX_BYTES[device]) for _ in slots]
        drawn = [(first + secrets.randbelow(launches)) % ring.slots for _ in slots]
        others = [first if slot in slots else slot for slot in drawn]  # the first is never late
        self._slices, self._decoys = (
            [ring.inputs.row(slot)[part] for slot, part in zip(of, parts, strict=True)]
            for of in (slots, others)
        )
        """The inputs that arrive late, and those of other launches that stand there before."""
        self._saved = [
            torch.empty(target.shape, dtype=torch.uint8, pin_memory=target.is_cuda)
            for target in self._slices
        ]
        self._previous_outputs = [
            secret_reader(ring.outputs, (slot - 1) % ring.slots) for slot in slots
        ]
        self._found: dict[int, bytes] = {}
        """Value of the previous launch's output right after each injection."""

    @property
    def moments(self) -> list[Moment]:
        """Return when to inject which inputs, as shares of the window's expected time.

        The list is not kept: it would be a cycle, and a cycle keeps the ring's memory until Python
        collects it.
        """
        return [
            (share, functools.partial(self.inject, number))
            for number, share in enumerate(self._shares)
        ]

    def write_decoys(self) -> None:
        """Save the inputs of the chosen launches, and write decoys in their place."""
        for saved, target in zip(self._saved, self._slices, strict=True):
            saved.copy_(target)
        for target, decoy in zip(self._slices, self._decoys, strict=True):
            target.copy_(decoy)
        if self._ring.inputs.bytes.is_cuda:
            torch.cuda.synchronize()

    def inject(self, number: int) -> None:
        """Write the right inputs of one launch; on a GPU by the copy engine."""
        if (target := self._slices[number]).is_cuda:
            cuda_ipc.copy_to_device(self._saved[number], target)
        else:
            target.copy_(self._saved[number])
        injected = time.perf_counter()
        while time.perf_counter() < injected + self._settled:
            pass
        self._found[number] = self._previous_outputs[number]()

    def inject_missing(self) -> None:
        """Inject the inputs whose moment did not come before the window was over."""
        for number in range(len(self.launches)):
            if number not in self._found:
                self.inject(number)

    def in_time(self) -> list[int]:
        """Return the launches that had not begun when their inputs arrived, after the window."""
        return [
            launch
            for number, launch in enumerate(self.launches)
            if self._previous_outputs[number]() != self._found[number]
        ]


def launch_behind(front: int, launches: int) -> int:
    """Return a secret launch behind `front`, by log-uniform distance: often the next one."""
    front = min(front, launches - 2)
    room = launches - 1 - front
    return front + min(room, int((room + 1) ** secrets.SystemRandom().random()))


def share_of_window(place: float, launches: int) -> float:
    """Return the share of a window's time at a place: the launches done by then."""
    return place / launches


def clocked_share(place: float, launches: int) -> float:
    """Return the moment of the GPU clock at a place: it counts from the end of the first launch.

    A moment in the first launch is negative (see `GpuClock`).
    """
    return place - 1 if place < 1 else (place - 1) / (launches - 1)
