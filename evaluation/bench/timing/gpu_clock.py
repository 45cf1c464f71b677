"""GPU clock: times the launches of a window without help from the candidate.

Handing a GPU from one process to another and back takes half a millisecond on an H100, and varies
by a fifth. So the judge samples one secret place in the outputs of a window's first and last launch
while the window is under way. The copy engine reads memory while another process's kernels write
it. The time between the two writes is that of all launches but one, without any overhead of the
window.

A write counts when the place gets its final value. Writing to the last output early changes
nothing; writing to the first one late gains at most one launch. Work before the first write is not
observed. It shows in the window's overhead, compared with the baseline's (`estimates.excess`).
"""

from __future__ import annotations

import itertools
import secrets
import time
from collections.abc import Callable, Sequence

import torch

from evaluation.bench.memory import cuda_ipc
from evaluation.bench.memory.layout import Layout, TensorSpec
from evaluation.bench.memory.poison import poison
from evaluation.bench.memory.region import Region

PLACE_BYTES = 16
"""Bytes of an output that are sampled, where it has so many."""
MAX_SECONDS = 0.25
"""A longer window is timed from request to completion: its overhead weighs little."""
SELDOM = 4
"""Samples of the awaited place, the first or later the last launch's, for each of the other."""
START_NS = 500_000
"""Nanoseconds from a request until its first launch has written, at most, if it is short."""
LATEST = 0.8
"""Share of a window's expected time from which on only its end is awaited."""
LATE = 1.2
"""Launches that an output may take from its first value to its last."""
BLUR_NS, BLUR_SHARE = 30_000, 0.02
"""Largest uncertainty of a window's ends, in nanoseconds and as a share of it. Beyond it the time
from request to completion is as good.
"""


Moment = tuple[float, Callable[[], None]]
"""When an action is due, as a share of the expected time of a window, and the action.

On a GPU that time begins with the first write. A negative share lies before it: of the time until
then, one less than that share.
"""


class GpuClock:
    """Times one window as its sampler, from its request to its completion."""

    def __init__(
        self,
        region: Region,
        secret: int,
        first: int,
        launches: int,
        marked: str = "",
        moments: Sequence[Moment] = (),
        expected_ns: float = 0.0,
        now_ns: Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        """Choose the sampled places of `launches` launches, two or more, from slot `first` on.

        Their outputs are poisoned with `secret`. The place is the beginning of the output named
        `marked`, if any, else a secret one of any output. Each of the `moments` is due at its share
        of the `expected_ns` after the first write, or after START_NS and half of that time where
        nothing is written by then.
        """
        layout = region.layout
        outputs = zip(layout.specs, layout.offsets, strict=True)
        spec, offset = secrets.choice(
            [output for output in outputs if output[0].bytes and marked in ("", output[0].name)]
        )
        width = min(PLACE_BYTES, spec.bytes)
        start = offset if marked else offset + secret_place(spec)
        self._launches, self._moments = launches, list(reversed(moments))
        self._expected_ns = expected_ns
        self._readers = [
            place_reader(region.row(at % layout.slots)[start : start + width])
            for at in (first, first + launches - 1)
        ]
        self._seen = [[(0.0, poisoned(spec, width, secret), 0.0)] for _ in "ab"]
        """Of each place the times, the values and the uncertainty of the times."""
        self.blurred = False
        """Whether a launch was not timed because the judge's sampling was interrupted."""
        self._step = 0.0
        """Most nanoseconds between two samples of a place."""
        self._now_ns = now_ns
        self._made = float(now_ns())

    def __call__(self, completed: Callable[[], bool]) -> None:
        """Sample until the window is completed.

        One place is read at a time: of two in one read, the second would be microseconds older. A
        value in the first sample may be as old as the request.
        """
        now_ns = self._now_ns
        begun = float(now_ns())
        before = [self._made, self._made]
        for turn in itertools.count():
            last = completed() or min(before) > begun + MAX_SECONDS * 1e9
            awaited = int(len(self._seen[0]) > 1)
            seldom = (1 - awaited,) if last or turn % SELDOM == 0 else ()
            for place in (awaited, *seldom):
                started = now_ns()
                value = self._readers[place]()
                now = (started + now_ns()) / 2
                seen = self._seen[place]
                if value != seen[-1][1]:  # written between the last sample and this one
                    seen.append(((before[place] + now) / 2, value, (now - before[place]) / 2))
                self._step = max(self._step, now - max(before[place], begun))
                before[place] = now
            if last:
                break
            since = self._seen[0][1][0] if awaited else begun + START_NS + self._expected_ns / 2
            share = (now - since) / max(self._expected_ns, 1.0)
            if share < 0:
                until_first = START_NS + self._expected_ns / self._launches
                share = min(0.0, (now - begun) / until_first - 1)
            if self._moments and self._moments[-1][0] < share < LATEST:
                self._moments.pop()[1]()  # one at a time: the places are sampled between two

    def launch_ns(self, blur_ns: float = BLUR_NS) -> float | None:
        """Return the nanoseconds of one launch, once the window is over.

        It is None where a place was not written by then, changed afterwards, or was sampled rarely.
        """
        first, last = self._seen
        changed = any(
            read() != seen[-1][1] for read, seen in zip(self._readers, self._seen, strict=True)
        )
        if min(len(first), len(last)) < 2 or changed:
            return None
        (begun, _, off), (ended, _, by) = first[-1], last[-1]
        each = (ended - begun) / (self._launches - 1)
        if begun - first[1][0] > LATE * each + self._step:
            begun, _, off = first[1]
            each = (ended - begun) / (self._launches - 1)
        self.blurred = off + by > max(blur_ns, BLUR_SHARE * (ended - begun))
        return each if each > 0 and not self.blurred else None


def secret_place(spec: TensorSpec) -> int:
    """Return a secret offset in a tensor, in bytes, with room for PLACE_BYTES, or 0."""
    room = spec.bytes - min(PLACE_BYTES, spec.bytes)
    return secrets.randbelow(room // PLACE_BYTES + 1) * PLACE_BYTES


MIN_BYTES = 4
"""Least size of an observable output. A smaller one may equal the poison when it is written."""


def observable_outputs(layout: Layout) -> list[tuple[TensorSpec, int]]:
    """Return the outputs that show whether they are written, each with its offset."""
    pairs = zip(layout.specs, layout.offsets, strict=True)
    return [(spec, offset) for spec, offset in pairs if spec.bytes >= MIN_BYTES]


def secret_reader(region: Region, slot: int) -> Callable[[], bytes]:
    """Return a reader of a secret place in the outputs of a slot."""
    spec, offset = secrets.choice(observable_outputs(region.layout))
    start = offset + secret_place(spec)
    return place_reader(region.row(slot)[start : start + min(PLACE_BYTES, spec.bytes)])


def poisoned(spec: TensorSpec, size: int, secret: int) -> bytes:
    """Return the bytes of a tensor that is not written yet."""
    values = torch.empty(size // spec.itemsize, dtype=spec.torch_dtype)
    poison(values, secret)
    return values.view(torch.uint8).numpy().tobytes()


def place_reader(place: torch.Tensor) -> Callable[[], bytes]:
    """Return a reader of a place of a few bytes (uint8, shape [bytes]) in host or device memory."""
    return cuda_ipc.device_reader(place) if place.is_cuda else place.numpy().tobytes
