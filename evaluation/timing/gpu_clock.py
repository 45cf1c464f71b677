"""How long the launches of a window take, seen without the contestant's help.

From a request to its answer the GPU is handed from one process to another and back: half a
millisecond on an H200, a fifth more or less each time. So while a window is under way the judge
looks at one secret place in the outputs of its first and of its last launch, again and again,
through the copy engine, which reads memory while another process's kernels write it. When the one
comes by its answer and when the other does, lie all launches but one apart, and whatever else a
window takes lies outside.

What counts is when a place comes by the value that it keeps: to write something into the last
output early moves nothing, and into the first one late no more than a launch. Work that is done
before the first launch writes is not seen. It shows in what a window takes besides its launches,
beside the baseline's windows (`clock.unseen`).
"""

from __future__ import annotations

import itertools
import secrets
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import torch

from evaluation.memory import cuda_ipc
from evaluation.memory.layout import poison

if TYPE_CHECKING:
    from evaluation.memory.layout import Layout, Region, TensorSpec

PLACE_BYTES = 16
"""Of an output that are looked at, where it has as many."""
MOST_SECONDS = 0.25
"""A window that takes longer is clocked from request to answer: the rest weighs little there."""
SELDOM = 4
"""Behind every so many looks at the place that is awaited comes one at the other: the last output's
while the first one is unwritten, the first one's from then on.
"""
LATE = 1.2
"""Launches that an output may take from its first value to its last."""
BLUR_NS, BLUR_SHARE = 100_000, 0.02
"""A value is written at any time between two looks. Where that leaves a window's ends so uncertain,
and by such a share of it, the time from request to answer is as good.
"""


class GpuClock:
    """Watches one window from its request to its answer."""

    def __init__(
        self, region: Region, secret: int, first: int, launches: int, marked: str = ""
    ) -> None:
        """Of `launches`, two at least, which write to slots of `region` from `first` on, whose
        outputs are poisoned with `secret`. Of an output that is `marked`, the beginning is looked
        at, else a secret place of any.
        """
        layout = region.layout
        spec, offset = secrets.choice(
            [
                each
                for each in zip(layout.specs, layout.offsets, strict=True)
                if each[0].bytes and marked in ("", each[0].name)
            ]
        )
        width = min(PLACE_BYTES, spec.bytes)
        start = offset if marked else offset + secret_place(spec)
        self._launches = launches
        self._looks = [
            looker(region.row(at % layout.slots)[start : start + width])
            for at in (first, first + launches - 1)
        ]
        self._seen = [[(0.0, poisoned(spec, width, secret), 0.0)] for _ in "ab"]
        """Of each place the values it had, since when, and the most that this may be off."""
        self.blurred = False
        """Whether a launch was not clocked since the judge itself was kept from looking."""
        self._step = 0.0
        """Nanoseconds from one look at a place to the next, at most."""
        self._made = float(time.perf_counter_ns())

    def __call__(self, answered: Callable[[], bool]) -> None:
        """Look until the contestant has answered.

        At one place a time: of two that are read in one go, the second is read microseconds later.
        What is written at the first look may be as old as the request.
        """
        begun = float(time.perf_counter_ns())
        before = [self._made, self._made]
        for turn in itertools.count():
            last = answered() or min(before) > begun + MOST_SECONDS * 1e9
            awaited = int(len(self._seen[0]) > 1)
            seldom = (1 - awaited,) if last or turn % SELDOM == 0 else ()
            for place in (awaited, *seldom):
                asked = time.perf_counter_ns()
                value = self._looks[place]()
                now = (asked + time.perf_counter_ns()) / 2
                seen = self._seen[place]
                if value != seen[-1][1]:  # written between the last look and this one
                    seen.append(((before[place] + now) / 2, value, (now - before[place]) / 2))
                self._step = max(self._step, now - max(before[place], begun))
                before[place] = now
            if last:
                break

    def launch_ns(self) -> float | None:
        """Nanoseconds of one launch, once the window is over; None of what was not seen: a place
        that was not written before the answer, or still changed after it, or was looked at too
        seldom.
        """
        first, last = self._seen
        changed = any(
            look() != seen[-1][1] for look, seen in zip(self._looks, self._seen, strict=True)
        )
        if min(len(first), len(last)) < 2 or changed:
            return None
        (begun, _, off), (ended, _, by) = first[-1], last[-1]
        each = (ended - begun) / (self._launches - 1)
        if begun - first[1][0] > LATE * each + self._step:
            begun, _, off = first[1]
            each = (ended - begun) / (self._launches - 1)
        self.blurred = off + by > max(BLUR_NS, BLUR_SHARE * (ended - begun))
        return each if each > 0 and not self.blurred else None


def secret_place(spec: TensorSpec) -> int:
    """Where in a tensor, in bytes, a place of PLACE_BYTES begins, or all of a smaller tensor."""
    room = spec.bytes - min(PLACE_BYTES, spec.bytes)
    return secrets.randbelow(room // PLACE_BYTES + 1) * PLACE_BYTES


LEAST_BYTES = 4
"""Of an output that tells whether it is written: fewer may be right and be the poison itself."""


def telling(layout: Layout) -> list[tuple[TensorSpec, int]]:
    """Those outputs, each with its offset."""
    pairs = zip(layout.specs, layout.offsets, strict=True)
    return [(spec, offset) for spec, offset in pairs if spec.bytes >= LEAST_BYTES]


def watched(region: Region, slot: int) -> Callable[[], bytes]:
    """What reads a secret place in the outputs of a slot, of which one tells."""
    spec, offset = secrets.choice(telling(region.layout))
    start = offset + secret_place(spec)
    return looker(region.row(slot)[start : start + min(PLACE_BYTES, spec.bytes)])


def poisoned(spec: TensorSpec, size: int, secret: int) -> bytes:
    """So many bytes of a tensor that is unwritten yet."""
    values = torch.empty(size // spec.itemsize, dtype=spec.torch_dtype)
    poison(values, secret)
    return values.view(torch.uint8).numpy().tobytes()


def looker(place: torch.Tensor) -> Callable[[], bytes]:
    """What reads a place of a few bytes (uint8, shape [bytes]), wherever it is."""
    return cuda_ipc.looker(place) if place.is_cuda else place.numpy().tobytes
