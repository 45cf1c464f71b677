"""The time budget of an agent, which stands still while it waits for a verdict."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator


class Clock:
    """Counts down `seconds` from now. One thread may pause it while another reads it."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def deadline(self) -> float:
        """Return the end on the monotonic clock; infinity while paused."""
        return self._end

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        end, began = self._end, time.monotonic()
        self._end = math.inf
        try:
            yield
        finally:
            self._end = end + time.monotonic() - began
