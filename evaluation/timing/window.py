"""Windows of one arm on one case: what is launched, what is clocked, what is checked."""

from __future__ import annotations

import secrets
import statistics
from collections.abc import Iterator
from contextlib import contextmanager

from evaluation.errors import Broken, SubmissionError
from evaluation.memory.input_slices import InputSlices
from evaluation.memory.ring import BufferRing
from evaluation.process.handle import ProcessHandle, no_sampling
from evaluation.timing import estimates
from evaluation.timing.gpu_clock import GpuClock

CHECK_SECONDS = {"cpu": 0.003, "cuda": 0.001}
"""Launches of every window, drawn in secret, have their values checked for about so long. A final
verdict has some hundreds of windows: who leaves out one launch in fifty is found.
"""
LEAST_CHECKED = 1 / 8
"""Where to check one launch takes longer than that, one is checked in some windows, drawn in
secret: in this share of them at least.
"""
EAGER_LAUNCHES = 64
LEAST_LAUNCHES = 3
"""Of a window whose launches are looked at."""
SETTLING, MUCH_TOO_LONG = 3, 4
"""The least of so many windows tells how many launches one is to have, unless the first takes so
many times too long.
"""
READY_NS = 1_000_000
"""In which the launches of a window are made ready, which takes less than half of it; more is on
the clock.
"""
MOST_RUNS = 3
"""Of a window, while the judge is kept from looking at it."""


class WindowTimer:
    """One arm bound to one rig. Its windows are `launches` over the rig's slots.

    On a GPU the launches of a window are captured in a CUDA graph where the kernel allows it, and
    `captured` says whether it did. They are clocked by sight (see `sight`); where nothing is to be
    seen from request to answer, and on a processor from a word to its answer.
    """

    def __init__(
        self,
        arm: ProcessHandle,
        rig: BufferRing,
        region: int,
        trusted: bool,
        where: str,
        discards: bool = False,
    ) -> None:
        """`discards` says of a baseline that it writes no outputs but marks."""
        self.arm, self.rig, self.region = arm, rig, region
        self.trusted, self.where = trusted, where
        self.by_sight = rig.oracle.device.type != "cpu"
        # A baseline that writes is checked on a GPU, for its windows to have a candidate's
        # surroundings; on a processor that would take half of the time there is to measure.
        self.checked = not trusted or (self.by_sight and not discards)
        self._marked = rig.oracle.operator.outputs[0].name if discards else ""
        self.clocked = 0.0
        """Seconds spent in windows."""
        self.captured = False
        self.elapsed = 0
        """Nanoseconds of the last window, from request, or word, to answer."""
        self.besides: list[float] = []
        """Nanoseconds of each window that were not its launches' own."""
        self.ready: list[float] = []
        """Nanoseconds in which each window's launches were made ready: 0 on a GPU."""
        self.count = self.launches = 1
        with blame(self):
            self._bind()
            trips = estimates.EMPTY_TRIPS[rig.oracle.device.type]
            self.empty = float(min(self._empty_trip() for _ in range(trips)))
            """Nanoseconds that are taken off a window which is not clocked by sight: at first the
            least trip without any launch.
            """
        self.window()  # the first call pays for pages, compilation and lazy set-up

    def _bind(self) -> None:
        """Hand over the memory of the case; what was captured is given up."""
        self.arm.bind(
            self.rig.oracle.operator.arguments, self.rig.regions(self.region), self.rig.values
        )

    def _empty_trip(self) -> int:
        """Nanoseconds of a window without any launch."""
        self.arm.prepare(0, 0)
        self.rig.refill(self.region, 0, 1)
        return self.arm.run(0, 0, self.rig.look)

    def settle(self, seconds: float) -> None:
        """Grow the window over the ring until it takes about so long; of launches that take less,
        it has LEAST_LAUNCHES or more.
        """
        target = seconds * 1e9
        while (took := self._took(target)) < target / 2 and self.count < self.rig.slots:
            more = max(self.count * 2, int(self.count * target / max(took, target / 8)))
            self.resize(min(self.rig.slots, more))
        wanted = round(self.count * target / took)
        self.resize(min(self.rig.slots, max(wanted, LEAST_LAUNCHES) if wanted else 1))

    def _took(self, target: float) -> float:
        """Nanoseconds of a window; of one that is not much too long the least of some, for a busy
        machine makes many out of one.
        """
        took = self.window() * self.count
        for _ in range(SETTLING - 1):
            if took < MUCH_TOO_LONG * target:
                took = min(took, self.window() * self.count)
        return took

    def resize(self, count: int) -> None:
        """Windows of one launch for each of `count` slots."""
        self.count = self.launches = count

    def capture(self, launches: int) -> float:
        """On a GPU, windows of so many launches over the whole ring, as one graph if it can be.
        Returns nanoseconds per launch of a first one, which is a little longer than the others.
        """
        self.count, self.launches = min(launches, self.rig.slots), launches
        with blame(self):
            self.captured = self.arm.capture(0, launches, self._marked)
        return self.window()

    def window(self) -> float:
        """Nanoseconds per launch of one window on fresh inputs."""
        return self._own(self.launches, self.count, self.captured) / self.launches

    def begins(self) -> int:
        """The slot that a window begins at, whether it is clocked or looked at."""
        return 0 if self.by_sight or self.captured else secrets.randbelow(self.rig.slots)

    def eager(self) -> float:
        """Nanoseconds per launch when every launch is called for by itself. Then nothing is
        captured any more.
        """
        count = min(self.count, EAGER_LAUNCHES)
        with blame(self):
            self._bind()  # else what was captured keeps memory that is counted as this one's
        windows = [self._own(count, count, replay=False) for _ in range(3)]
        self.captured = False
        return statistics.median(windows) / count

    def _own(self, launches: int, filled: int, replay: bool) -> float:
        """Nanoseconds of the launches of a window of `launches` over `filled` slots."""
        for _ in range(MOST_RUNS):
            elapsed, sight = self._run(launches, filled, replay)
            seen = sight and sight.launch_ns()
            if not (sight and sight.blurred):
                break
        own = seen * launches if seen else estimates.less_empty(elapsed, self.empty)
        self.besides.append(elapsed - own)
        return own

    def _run(self, launches: int, filled: int, replay: bool) -> tuple[float, GpuClock | None]:
        """Nanoseconds of one window from request to answer, and what was seen of it."""
        rig = self.rig
        first = 0 if launches > filled else self.begins()
        alike = not self.by_sight and LEAST_LAUNCHES <= launches <= filled
        parts = InputSlices(rig, first, launches) if alike else None
        with blame(self):
            ready = self.arm.prepare(first, launches)
            self.ready.append(ready)
        rig.refill(self.region, first, filled)
        if parts:  # as much as for a window whose inputs arrive late, which could be told by it
            parts.keep()
            parts.lay()
        sight = self._sight(first, launches) if 1 < launches <= filled else None
        with blame(self):
            elapsed = self.arm.run(first, launches, rig.look, replay, sight or no_sampling)
            elapsed += max(0, ready - READY_NS)
            self.elapsed, self.clocked = elapsed, self.clocked + elapsed / 1e9
            self.arm.require_idle()
            if launches >= filled and self.checked:
                rig.verify(self.region, first, filled, self.sample(), self.where)
        return elapsed, sight

    def sample(self) -> int:
        """Launches of a window to check."""
        device, each = self.rig.oracle.device.type, self.rig.check_seconds
        if each is None:
            return 1
        share = CHECK_SECONDS[device] / each
        drawn = secrets.SystemRandom().random() < max(share, LEAST_CHECKED)
        return max(int(share), int(drawn))

    def _sight(self, first: int, launches: int) -> GpuClock | None:
        outputs = self.rig.outputs[self.region]
        if not self.by_sight or not any(spec.bytes for spec in outputs.layout.specs):
            return None
        return GpuClock(outputs, self.rig.secret, first, launches, self._marked)


def unseen_ns(candidate: WindowTimer, against: WindowTimer) -> float:
    """Nanoseconds per launch that a candidate's windows take longer than the baseline's where its
    launches are not clocked: before their word, or on a GPU before they are seen to write.
    """
    unseen = estimates.unseen(candidate.ready, against.ready)
    if candidate.by_sight:
        unseen += estimates.unseen(candidate.besides, against.besides)
    return unseen / candidate.launches


@contextmanager
def blame(timer: WindowTimer) -> Iterator[None]:
    """What fails in a baseline is our fault, not the candidate's: unless its inputs were changed.
    They are the candidate's too, which may have woken for that; who crashes its baseline is told.
    """
    try:
        yield
    except SubmissionError as error:
        if not timer.trusted:
            raise
        timer.rig.unchanged(f"{timer.where}, in the baseline's turn")
        raise Broken(f"the baseline failed: {error}") from error
