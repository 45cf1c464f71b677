"""Late inputs: each launch of a window must use the inputs that it finds when it begins.

Some launches of every window find the inputs of another launch until the window is under way. Then
the judge injects the right ones, on a GPU by the copy engine, which works beside another process's
kernels. A launch that had not begun by then must use them: one whose previous launch's output still
changed afterwards. So no candidate can compute launches ahead of their turn.

Limitation: a candidate that compares all inputs of a launch with those it used is not found; where
memory bounds a kernel, that costs what it gains. On a processor, launches a few microseconds ahead
are not found.

Of an operator with structured inputs, all inputs of a launch arrive late: a mixture of two positive
definite matrices is none, and an honest kernel may refuse it. They are those of a launch far behind
the one that runs, so that none begins while they are copied. So do those of an operator of whole
numbers alone: a counting sort whose inputs change between its two reads writes beyond its outputs.
"""

from __future__ import annotations

import functools
import secrets
import time
from typing import Protocol

import torch

from evaluation.bench.memory import cuda_ipc
from evaluation.bench.memory.input_slices import secret_slice
from evaluation.bench.memory.region import Region
from evaluation.bench.timing.gpu_clock import Moment, secret_reader

LATE_LAUNCHES = 3
"""Launches of a window whose inputs arrive late, at most, beside the second one."""
MAX_BYTES = {"cpu": 64 << 10, "cuda": 256 << 10}
"""Bytes of a launch's inputs that arrive late: a few microseconds of copying."""
MAX_WHOLE_BYTES = {"cpu": 1 << 20, "cuda": 4 << 20}
"""Largest inputs of a launch that arrive late as a whole: a tenth of a millisecond of copying."""
MIN_FAR, FAR_DIVISOR = 2, 4
"""A launch whose inputs arrive as a whole is so many behind, and its window's launches by so many.
"""
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
    """True where inputs of two launches may be mixed, so that some can arrive late."""
    late_whole: bool
    """True where a launch may find all inputs of another one until its own arrive."""


class LateInputs:
    """Inputs of some launches of one window, which arrive at secret moments."""

    def __init__(self, ring: Slots, first: int, launches: int, gpu_clocked: bool = False) -> None:
        """Choose from the launches of a window, three or more, from slot `first` on.

        The moments of a `gpu_clocked` window are those of the GPU clock.
        """
        self._ring = ring
        stride = ring.inputs.layout.stride
        device = ring.inputs.bytes.device.type
        whole = not ring.late
        if whole and not (ring.late_whole and stride <= MAX_WHOLE_BYTES[device]):
            launches = 0
        self._settled = SETTLED_SECONDS[device]
        chosen = chosen_launches(launches, MIN_FAR if whole else 1)
        share_of = clocked_share if gpu_clocked else share_of_window
        in_turn = sorted(chosen, key=lambda launch: chosen[launch])
        chosen = {launch: share_of(chosen[launch], launches) for launch in in_turn}
        self.launches = list(chosen)
        self._shares = list(chosen.values())
        slots = [(first + launch) % ring.slots for launch in self.launches]
        parts = [
            slice(0, stride) if whole else secret_slice(stride, MAX_BYTES[device]) for _ in slots
        ]
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


def chosen_launches(launches: int, least: int = 1) -> dict[int, float]:
    """Return secret launches of a window, and where their inputs arrive: launches done by then.

    They are at least so many launches behind that place. Beyond one, they are far behind it, and
    none is the second one.
    """
    draw = secrets.SystemRandom().random
    places = sorted(draw() * LATEST * launches for _ in range(LATE_LAUNCHES))
    if least > 1:
        least = max(least, launches // FAR_DIVISOR)
        return {
            launch_behind(int(place), launches, least): place
            for place in places
            if int(place) + least < launches
        }
    chosen = {launch_behind(int(place), launches): place for place in places if launches}
    if launches and secrets.randbelow(EARLY_ONE_IN) == 0:
        chosen[1] = draw()
    return chosen


def launch_behind(front: int, launches: int, least: int = 1) -> int:
    """Return a secret launch at least so many behind `front`, by log-uniform distance."""
    front = min(front, launches - 1 - least)
    room = launches - least - front
    return front + least - 1 + min(room, int((room + 1) ** secrets.SystemRandom().random()))


def share_of_window(place: float, launches: int) -> float:
    """Return the share of a window's time at a place: the launches done by then."""
    return place / launches


def clocked_share(place: float, launches: int) -> float:
    """Return the moment of the GPU clock at a place: it counts from the end of the first launch.

    A moment in the first launch is negative (see `GpuClock`).
    """
    return place - 1 if place < 1 else (place - 1) / (launches - 1)
