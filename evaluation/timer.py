"""Windows of one arm on one case: what is launched, what is clocked, what is checked."""

from __future__ import annotations

import secrets
import statistics
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from evaluation import clock
from evaluation.contestants.arm import Arm
from evaluation.errors import Broken, SubmissionError
from evaluation.rig import Rig

CHECK_SECONDS = 0.003
"""Launches of every window, drawn in secret, have their values checked for about so long; one has
at least. A final verdict has some hundreds of windows: who leaves out one launch in fifty is found.
"""
EAGER_LAUNCHES = 64
SHORT = 8
"""Windows of a SHORTth of the launches tell what a window costs besides its launches."""


class Timer:
    """One arm bound to one rig. Its windows are `launches` over the rig's slots.

    On a GPU the launches of a window are captured in a CUDA graph where the kernel allows it, and
    `captured` says whether it did.
    """

    def __init__(
        self,
        arm: Arm,
        rig: Rig,
        region: int,
        trusted: bool,
        where: str,
        discards: bool = False,
    ) -> None:
        """`discards` says of a baseline that it writes no outputs: there are none to check."""
        self.arm, self.rig, self.region = arm, rig, region
        self.trusted, self.where, self.discards = trusted, where, discards
        self.clocked = 0.0
        """Seconds spent in windows."""
        self.captured = False
        self.fixed = 0.0
        """Nanoseconds that any window takes, as `besides` found."""
        self._shorts: list[float] = []
        self.count = self.launches = 1
        with blame(trusted):
            arm.bind(rig.oracle.operator.arguments, rig.regions(region), rig.values)
            rig.refill(region, 0, 1)
            trips = clock.EMPTY_TRIPS[rig.oracle.device.type]
            self.empty = float(min(arm.run(0, 0, rig.look) for _ in range(trips)))
        """Nanoseconds of a window besides its launches: at first the least trip without any."""
        self.window()  # the first call pays for pages, compilation and lazy set-up

    def settle(self, seconds: float) -> None:
        """Grow the window over the ring until it takes about so long."""
        target = seconds * 1e9
        while (took := self.window() * self.count) < target / 2 and self.count < self.rig.slots:
            more = max(self.count * 2, int(self.count * target / max(took, target / 8)))
            self.resize(min(self.rig.slots, more))
        self.resize(max(1, min(self.rig.slots, round(self.count * target / took))))

    def resize(self, count: int) -> None:
        """Windows of one launch for each of `count` slots."""
        self.count = self.launches = count

    def capture(self, launches: int) -> float:
        """On a GPU, windows of so many launches over the whole ring, as one graph if it can be.
        Returns nanoseconds per launch of a first one, which is a little longer than the others.
        """
        self.count, self.launches = min(launches, self.rig.slots), launches
        with blame(self.trusted):
            self.captured = self.arm.capture(0, launches)
        return self.window()

    def window(self) -> float:
        """Nanoseconds per launch of one window on fresh inputs, whose outputs are checked."""
        elapsed = self._elapsed(self.launches, self.count, self.captured)
        return clock.less_empty(elapsed, self.empty) / self.launches

    def eager(self) -> float:
        """Nanoseconds per launch when every launch is called for by itself."""
        count = min(self.count, EAGER_LAUNCHES)
        took = statistics.median(self._elapsed(count, count, replay=False) for _ in range(3))
        return clock.less_empty(took, self.empty) / count

    def short(self) -> float:
        """On a GPU, nanoseconds of a window of a SHORTth of the launches. The whole ring is
        refilled before it too: what caches of addresses keep makes tenths of a millisecond.
        """
        with blame(self.trusted):
            self.arm.capture(0, self._few())
        elapsed = self._elapsed(self._few(), self.count, self.captured)
        with blame(self.trusted):
            self.arm.capture(0, self.launches)
        return elapsed

    def besides(self, found: Sequence[clock.Block]) -> float:
        """On a GPU, nanoseconds per launch of this baseline's windows that do not grow with their
        launches, by what blocks and one short window after each of them took.

        That is to thaw, to hand the GPU over and back, to look; an empty trip does not show it all.
        With a share k of the launches, fixed = (short - k whole) / (1 - k).
        """
        self._shorts.append(self.short())
        whole = statistics.median(block.baseline for block in found) * self.launches
        share = self._few() / self.launches
        short = statistics.median(self._shorts)
        self.fixed = max(0.0, (short - share * whole) / (1 - share))
        return self.fixed / self.launches

    def _few(self) -> int:
        return max(1, self.launches // SHORT)

    def _elapsed(self, launches: int, filled: int, replay: bool) -> int:
        """Nanoseconds of a window of `launches` over `filled` slots."""
        rig = self.rig
        round_the_ring = self.captured or launches > filled
        first = 0 if round_the_ring else secrets.randbelow(rig.slots)
        rig.refill(self.region, first, filled)
        with blame(self.trusted):
            elapsed = self.arm.run(first, launches, rig.look, replay)
            self.clocked += elapsed / 1e9
            self.arm.rest()
            if launches >= filled and not self.discards:
                sample = max(1, int(CHECK_SECONDS / rig.check_seconds))
                rig.verify(self.region, first, filled, sample, self.where)
        return elapsed


@contextmanager
def blame(trusted: bool) -> Iterator[None]:
    """What fails in a baseline is our fault, not the candidate's."""
    try:
        yield
    except SubmissionError as error:
        if trusted:
            raise Broken(f"the baseline failed: {error}") from error
        raise
