"""Launch-order check: the launches of a window must run one after the other.

The time of concurrent launches would be taken for that of one. The candidate's own process orders
its launches (see `sandboxed.cuda_graph`), where native code can change that. So the judge samples
the outputs while a window is under way: a GPU's copy engine reads memory while another process's
kernels write it. Launches in order have written all before some launch and nothing after it. Those
that overlap a little look ordered in most samples, so a window has as many as it has time for.

Limitation: a sample reads memory while it is written, and other copies delay it, so it can be
wrong. One window alone proves nothing.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable

import torch

from evaluation.errors import SubmissionError
from evaluation.memory import cuda_ipc
from evaluation.memory.layout import Region
from evaluation.timing.gpu_clock import MIN_BYTES, observable_outputs, poisoned, secret_place
from evaluation.timing.window import WindowTimer, attribute_failure
from evaluation.types import Reason

MAX_SLOTS, PLACES = 512, 8
"""Slots that a sample reads, and places in each, evenly spaced. It takes tens of microseconds."""
WORD_BYTES = 8
"""Bytes read of a place; MIN_BYTES of a smaller output."""
MAX_SAMPLES, MAX_SECONDS = 64, 1.0
"""Limits of one window. Samples that show nothing new do not count."""
PROOF = 3
"""Windows out of order in one verdict that prove concurrent launches.

A verdict samples some dozens. On an H200, 79 or more of 100 windows of concurrent launches were out
of order, and none of 2000 of honest launches; beside copies that fill the bus, 14 or more of 100,
and 2 of 2000.
"""


class LaunchOrderSamples:
    """Samples a secret stretch of a window, as its sampler. They are evaluated afterwards."""

    def __init__(self, region: Region, secret: int, count: int) -> None:
        """Choose a stretch of the first `count` slots of `region`, and an observable output."""
        layout = region.layout
        spec, offset = secrets.choice(observable_outputs(layout))
        width = WORD_BYTES if spec.bytes >= WORD_BYTES else MIN_BYTES
        self._word = torch.int64 if width == WORD_BYTES else torch.int32
        unwritten = bytearray(poisoned(spec, width, secret))
        self._unwritten = torch.frombuffer(unwritten, dtype=self._word)
        slots = min(MAX_SLOTS, count)
        first = secrets.randbelow(count - slots + 1)
        pitch = layout.stride // PLACES
        start = offset + secret_place(spec)
        places = torch.arange(PLACES) * pitch + start % pitch
        self._inside = (places >= offset) & (places + width <= offset + spec.bytes)
        self._rows = region.bytes.as_strided(
            (slots * PLACES, width), (pitch, 1), first * layout.stride + start % pitch
        )
        self._found = torch.empty(
            self._rows.shape, dtype=torch.uint8, pin_memory=region.bytes.is_cuda
        )
        self._seen: list[bytes] = []
        """Each sample that differs from the one before it."""

    def __call__(self, completed: Callable[[], bool]) -> None:
        ends = time.perf_counter() + MAX_SECONDS
        while len(self._seen) < MAX_SAMPLES:
            last = completed() or time.perf_counter() > ends
            found = self._read()
            if not self._seen or found != self._seen[-1]:
                self._seen.append(found)
            if last:
                break

    def once(self) -> torch.Tensor:
        """Return where the stretch is written now: bool, shape [slots, places]."""
        return self._written([self._read()])[0]

    def partial(self) -> torch.Tensor:
        """Return where it was written in the samples that show it half done.

        Returns: bool, shape [samples, slots, places].
        """
        written = self._written(self._seen)
        places = written.flatten(1)
        return written[places.any(1) & ~places.all(1)]

    def _read(self) -> bytes:
        if self._rows.is_cuda:
            cuda_ipc.copy_to_host(self._rows, self._found)
        else:
            self._found.copy_(self._rows)
        return self._found.numpy().tobytes()

    def _written(self, seen: list[bytes]) -> torch.Tensor:
        words = torch.frombuffer(bytearray().join(seen), dtype=self._word)
        return (words != self._unwritten).view(len(seen), -1, PLACES)[:, :, self._inside]


def in_order(written: torch.Tensor) -> bool:
    """Return whether no sample shows a write of a launch behind an unfinished one.

    `written` has the shape [samples, slots, places].
    """
    begun, finished = written.any(2), written.all(2)
    all_before = finished.cumprod(1)
    return not bool((begun[:, 1:] & (all_before[:, :-1] == 0)).any())


class OverlapDetector:
    """Counts the windows of one verdict that were sampled and found out of order."""

    def __init__(self) -> None:
        self.out_of_order = 0

    def check(self, timer: WindowTimer, windows: int = 1) -> None:
        """Sample so many windows of a timer, and one more right after each that is out of order.

        A baseline is sampled and not judged.

        Raises: SubmissionError for an output written before its window, and at the third window
        with concurrent launches.
        """
        while windows:
            samples = _sampled(timer)
            if timer.trusted or samples is None or in_order(samples.partial()):
                windows -= 1
                continue
            self.out_of_order += 1
            if self.out_of_order == PROOF:
                raise SubmissionError(
                    Reason.FORBIDDEN,
                    f"{timer.where}: launches of a window ran beside each other, not in order",
                )


def _sampled(timer: WindowTimer) -> LaunchOrderSamples | None:
    """Sample one window with a slot for each launch; None where no output is observable."""
    ring, launches = timer.ring, min(timer.launches, timer.ring.slots)
    outputs = ring.outputs[timer.region]
    if not observable_outputs(outputs.layout):
        return None
    ring.refill(timer.region, 0, launches)
    samples = LaunchOrderSamples(outputs, ring.secret, launches)
    with attribute_failure(timer):
        timer.process.require_idle()
        if samples.once().any():
            raise SubmissionError(
                Reason.FORBIDDEN, f"{timer.where}: wrote an output before it was requested"
            )
        timer.process.run(0, launches, ring.poll, timer.captured, samples)
    return samples
