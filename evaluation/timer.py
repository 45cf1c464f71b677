"""Windows of one arm on one case: what is launched, what is clocked, what is checked."""

from __future__ import annotations

import secrets
import statistics
from collections.abc import Iterator
from contextlib import contextmanager

from evaluation import clock
from evaluation.arm import Arm
from evaluation.errors import Broken, SubmissionError
from evaluation.rig import Rig

CHECK_SHARE = 5
"""At least one timed launch in so many has its values checked, drawn in secret."""
CHECK_SECONDS = 0.004
"""More are checked while that costs less than this for a window."""
EAGER_LAUNCHES = 64
SHORT, CALIBRATIONS = 8, 7
"""Windows of a SHORTth of the launches tell what a window costs besides its launches."""


class Timer:
    """One arm bound to one rig. Its windows are `launches` over the rig's slots.

    On a GPU the launches of a window are captured in a CUDA graph where the kernel allows it, and
    `captured` says whether it did.
    """

    def __init__(self, arm: Arm, rig: Rig, region: int, trusted: bool, where: str) -> None:
        self.arm, self.rig, self.region = arm, rig, region
        self.trusted, self.where = trusted, where
        self.clocked = 0.0
        """Seconds spent in windows."""
        self.captured = False
        self.count = self.launches = 1
        with blame(trusted):
            arm.bind(rig.oracle.operator.arguments, rig.regions(region), rig.values)
        self.empty = self._empty()
        self.window()  # the first call pays for pages, compilation and lazy set-up

    def _empty(self) -> float:
        """Nanoseconds of the least round trip that launches nothing."""
        with blame(self.trusted):
            self.rig.refill(self.region, 0, self.count)
            return min(self.arm.run(0, 0, self.rig.look) for _ in range(clock.EMPTY_TRIPS))

    def settle(self, seconds: float) -> None:
        """Grow the window over the ring until it takes about so long."""
        target = seconds * 1e9
        while (took := self.window() * self.count) < target / 2 and self.count < self.rig.slots:
            more = max(self.count * 2, int(self.count * target / max(took, target / 8)))
            self.resize(min(self.rig.slots, more))
        self.resize(max(1, min(self.rig.slots, round(self.count * target / took))))

    def latency(self, seconds: float, most: int) -> float:
        """On a GPU, nanoseconds per launch, from a window that takes at least about so long or
        has `most` launches.
        """
        launches = self.rig.slots
        while True:
            self.capture(launches)
            each = self.window()
            if each * launches >= seconds * 1e9 or launches >= most:
                return each
            more = int(1.2 * seconds * 1e9 / max(each, 1.0))
            launches = min(most, max(2 * launches, more))

    def fixed(self) -> float:
        """On a GPU, nanoseconds of a window that do not grow with its launches: to thaw, to hand
        the GPU over and back, to look. An empty trip does not show them all.

        Found from the medians of whole windows and of short ones: with a share k of the launches,
        fixed = (short - k long) / (1 - k).
        """
        whole = self.launches
        long = statistics.median(self._elapsed() for _ in range(CALIBRATIONS))
        self.capture(max(1, whole // SHORT))
        short = statistics.median(self._elapsed() for _ in range(CALIBRATIONS))
        share = self.launches / whole
        self.capture(whole)
        return max(0.0, (short - share * long) / (1 - share))

    def resize(self, count: int) -> None:
        """Windows of one launch for each of `count` slots."""
        self.count = self.launches = count

    def capture(self, launches: int) -> None:
        """On a GPU, windows of so many launches over the whole ring, as one graph if it can be."""
        self.count, self.launches = min(launches, self.rig.slots), launches
        with blame(self.trusted):
            self.captured = self.arm.capture(0, launches)
        self.rig.refill(self.region, 0, self.count)
        self.empty = min(self.empty, self._empty())
        self.window()

    def window(self, eager: bool = False) -> float:
        """Nanoseconds per launch of one window on fresh inputs; the candidate's outputs are
        checked.
        """
        launches = min(self.count, EAGER_LAUNCHES) if eager else self.launches
        return clock.less_empty(self._elapsed(eager), self.empty) / launches

    def _elapsed(self, eager: bool = False) -> int:
        """Nanoseconds of one window."""
        rig, count, launches = self.rig, self.count, self.launches
        if eager:
            count = launches = min(count, EAGER_LAUNCHES)
        whole_ring = self.captured or launches > count
        first = 0 if whole_ring else secrets.randbelow(rig.slots)
        rig.refill(self.region, first, count)
        with blame(self.trusted):
            replay = self.captured and not eager
            elapsed = self.arm.run(first, launches, rig.look, replay)
        self.clocked += elapsed / 1e9
        if not self.trusted:
            rig.alone()
            cheap = int(CHECK_SECONDS / rig.check_seconds)
            rig.verify(self.region, first, count, max(-(-count // CHECK_SHARE), cheap), self.where)
        return elapsed

    def eager(self) -> float:
        """Nanoseconds per launch when every launch is called for by itself."""
        return statistics.median(self.window(eager=True) for _ in range(3))


@contextmanager
def blame(trusted: bool) -> Iterator[None]:
    """What fails in a baseline is our fault, not the candidate's."""
    try:
        yield
    except SubmissionError as error:
        if trusted:
            raise Broken(f"the baseline failed: {error}") from error
        raise
