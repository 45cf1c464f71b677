"""How long an agent has left: its own time, which stands still while it waits for a verdict."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator


class Clock:
    """Counts down `seconds` from now. Paused by one thread, it may be read by another."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def deadline(self) -> float:
        """When time is up, on the monotonic clock; never, while it stands still."""
        return self._end

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        end, began = self._end, time.monotonic()
        self._end = math.inf
        try:
            yield
        finally:
            self._end = end + time.monotonic() - began
