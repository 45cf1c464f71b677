"""Windows of one process on one case: their launches, their times and their checks."""

from __future__ import annotations

import secrets
import statistics
from collections.abc import Iterator
from contextlib import contextmanager

from evaluation.errors import Broken, SubmissionError
from evaluation.memory.input_slices import InputSlices
from evaluation.memory.ring import BufferRing
from evaluation.process.handle import ProcessHandle, no_sampling
from evaluation.timing.estimates import excess
from evaluation.timing.gpu_clock import GpuClock

CHECK_SECONDS = {"cpu": 0.003, "cuda": 0.001}
"""Time per window to check the values of launches drawn in secret. In the hundreds of windows of a
final verdict, leaving out one launch in fifty is found.
"""
MIN_CHECKED = 1 / 8
"""Least share of windows, drawn in secret, that check a launch where one check takes longer."""
EAGER_LAUNCHES = 64
MIN_LAUNCHES = 3
"""Least launches of a window with late inputs."""
SETTLING, MUCH_TOO_LONG = 3, 4
"""Windows whose least time counts; a first one this factor longer than planned is not repeated."""
EMPTY_TRIPS = {"cpu": 9, "cuda": 1}
"""Empty windows timed by device. On a GPU only windows without a GPU clock need them."""
READY_NS = 1_000_000
"""Untimed nanoseconds to prepare the launches of a window; most need half of it. More counts."""
MAX_RUNS = 3
"""Runs of a window while the judge's own sampling is interrupted."""


class WindowTimer:
    """Times the windows of one process over one ring.

    On a GPU the launches of a window are captured in a CUDA graph where the kernel allows it, and
    the GPU clock times them (see `gpu_clock`). A window that it cannot observe, and any on a
    processor, is timed from the go token to the completion.
    """

    def __init__(
        self,
        process: ProcessHandle,
        ring: BufferRing,
        region: int,
        trusted: bool,
        where: str,
        discards: bool = False,
    ) -> None:
        """Bind the process and run a first window.

        `discards` marks a baseline that writes no outputs but a mark.
        """
        self.process, self.ring, self.region = process, ring, region
        self.trusted, self.where = trusted, where
        self.gpu_clocked = ring.reference.device.type != "cpu"
        # On a GPU a baseline that writes is checked too, so that its windows have the same
        # surroundings. On a processor that would take half of the time.
        self.checked = not trusted or (self.gpu_clocked and not discards)
        self._marked = ring.reference.operator.outputs[0].name if discards else ""
        self.seconds = 0.0
        """Seconds spent in windows."""
        self.captured = False
        """Whether the launches are one CUDA graph."""
        self.elapsed = 0
        """Nanoseconds of the last window, from request or go token to completion."""
        self.overhead: list[float] = []
        """Nanoseconds of each window outside its launches."""
        self.preparation: list[float] = []
        """Nanoseconds in which each window's launches were prepared; 0 on a GPU."""
        self.count = self.launches = 1
        with attribute_failure(self):
            self._bind()
            trips = EMPTY_TRIPS[ring.reference.device.type]
            self.empty = float(min(self._empty_trip() for _ in range(trips)))
            """Nanoseconds to subtract from a window without a GPU clock."""
        self.window()  # the first call pays for pages, compilation and lazy set-up

    def _bind(self) -> None:
        """Give the process the memory of the case, which discards a captured graph."""
        self.process.bind(
            self.ring.reference.operator.arguments, self.ring.regions(self.region), self.ring.values
        )

    def _empty_trip(self) -> int:
        """Return the nanoseconds of a window without launches."""
        self.process.prepare(0, 0)
        self.ring.refill(self.region, 0, 1)
        return self.process.run(0, 0, self.ring.poll)

    def settle(self, seconds: float) -> None:
        """Grow the window to about `seconds`, and MIN_LAUNCHES launches where one is shorter."""
        target = seconds * 1e9
        while (took := self._took(target)) < target / 2 and self.count < self.ring.slots:
            more = max(self.count * 2, int(self.count * target / max(took, target / 8)))
            self.resize(min(self.ring.slots, more))
        wanted = round(self.count * target / took)
        self.resize(min(self.ring.slots, max(wanted, MIN_LAUNCHES) if wanted else 1))

    def _took(self, target: float) -> float:
        """Return the nanoseconds of a window: the least of several on a busy machine."""
        took = self.window() * self.count
        for _ in range(SETTLING - 1):
            if took < MUCH_TOO_LONG * target:
                took = min(took, self.window() * self.count)
        return took

    def resize(self, count: int) -> None:
        """Let each window launch `count` slots once."""
        self.count = self.launches = count

    def capture(self, launches: int) -> float:
        """Let each window have so many launches over the whole ring, as one CUDA graph if possible.

        Returns: nanoseconds per launch of a first window, a little longer than of others.
        """
        self.count, self.launches = min(launches, self.ring.slots), launches
        with attribute_failure(self):
            self.captured = self.process.capture(0, launches, self._marked)
        return self.window()

    def window(self) -> float:
        """Return the nanoseconds per launch of one window on fresh inputs."""
        return self._own(self.launches, self.count, self.captured) / self.launches

    def first_slot(self) -> int:
        """Return the first slot of a window, whether it is timed or checked."""
        return 0 if self.gpu_clocked or self.captured else secrets.randbelow(self.ring.slots)

    def eager(self) -> float:
        """Return the nanoseconds per launch without a CUDA graph, which is discarded."""
        count = min(self.count, EAGER_LAUNCHES)
        with attribute_failure(self):
            self._bind()  # else what was captured keeps memory that is counted as this one's
        windows = [self._own(count, count, replay=False) for _ in range(3)]
        self.captured = False
        return statistics.median(windows) / count

    def _own(self, launches: int, filled: int, replay: bool) -> float:
        """Return the nanoseconds of the launches of a window over `filled` slots."""
        for _ in range(MAX_RUNS):
            elapsed, gpu_clock = self._run(launches, filled, replay)
            observed = gpu_clock and gpu_clock.launch_ns()
            if not (gpu_clock and gpu_clock.blurred):
                break
        own = observed * launches if observed else less_empty(elapsed, self.empty)
        self.overhead.append(elapsed - own)
        return own

    def _run(self, launches: int, filled: int, replay: bool) -> tuple[float, GpuClock | None]:
        """Return the nanoseconds of one window from request to completion, and its GPU clock."""
        ring = self.ring
        first = 0 if launches > filled else self.first_slot()
        alike = not self.gpu_clocked and MIN_LAUNCHES <= launches <= filled
        slices = InputSlices(ring, first, launches) if alike else None
        with attribute_failure(self):
            ready = self.process.prepare(first, launches)
            self.preparation.append(ready)
        ring.refill(self.region, first, filled)
        if slices:  # as for a window with late inputs, which must look the same
            slices.save()
            slices.write()
        gpu_clock = self._gpu_clock(first, launches) if 1 < launches <= filled else None
        with attribute_failure(self):
            elapsed = self.process.run(first, launches, ring.poll, replay, gpu_clock or no_sampling)
            elapsed += max(0, ready - READY_NS)
            self.elapsed, self.seconds = elapsed, self.seconds + elapsed / 1e9
            self.process.require_idle()
            if launches >= filled and self.checked:
                ring.verify(self.region, first, filled, self.sample(), self.where)
        return elapsed, gpu_clock

    def sample(self) -> int:
        """Return how many launches of a window to check."""
        device, each = self.ring.reference.device.type, self.ring.check_seconds
        if each is None:
            return 1
        share = CHECK_SECONDS[device] / each
        drawn = secrets.SystemRandom().random() < max(share, MIN_CHECKED)
        return max(int(share), int(drawn))

    def _gpu_clock(self, first: int, launches: int) -> GpuClock | None:
        outputs = self.ring.outputs[self.region]
        if not self.gpu_clocked or not any(spec.bytes for spec in outputs.layout.specs):
            return None
        return GpuClock(outputs, self.ring.secret, first, launches, self._marked)


def less_empty(elapsed: float, empty: float) -> float:
    """Return a window's time without that of an empty one, but at least half of it."""
    return elapsed - min(empty, elapsed / 2)


def hidden_ns(candidate: WindowTimer, against: WindowTimer) -> float:
    """Return the nanoseconds per launch by which a candidate's untimed work exceeds the baseline's.

    Untimed is work before the go token, and on a GPU work before the first write is observed.
    """
    hidden = excess(candidate.preparation, against.preparation)
    if candidate.gpu_clocked:
        hidden += excess(candidate.overhead, against.overhead)
    return hidden / candidate.launches


@contextmanager
def attribute_failure(timer: WindowTimer) -> Iterator[None]:
    """Turn a failure of a baseline into `Broken` unless its inputs were changed.

    The candidate shares the inputs and may have changed them to make the baseline fail.
    """
    try:
        yield
    except SubmissionError as error:
        if not timer.trusted:
            raise
        timer.ring.check_inputs(f"{timer.where}, in the baseline's turn")
        raise Broken(f"the baseline failed: {error}") from error
