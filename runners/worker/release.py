"""The moment at which what was found on hidden cases becomes public.

A candidate can spend time by a hidden size, and its author sees when the verdict is there and when
the device is free again. So both come after a whole number of steps, whatever was found.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from runners.process.supervisor import HEARTBEAT_SECONDS, stopping


@dataclass
class Release:
    """A wait for the end of a step of `step` seconds, counted from the last public result.

    Without a step nothing waits.
    """

    step: float = 0.0
    now: Callable[[], float] = time.monotonic
    pause: Callable[[float], object] = stopping.wait
    begun: float = field(init=False)

    def __post_init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Count from now."""
        self.begun = self.now()

    def wait(self, heartbeat: Callable[[], bool]) -> None:
        """Return at the end of a step, or once the work is to stop."""
        if not self.step:
            return
        end = self.begun + math.ceil((self.now() - self.begun) / self.step) * self.step
        while (left := end - self.now()) > 0 and heartbeat() and not stopping.is_set():
            self.pause(min(left, HEARTBEAT_SECONDS))
