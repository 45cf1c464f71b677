"""Time of the gateway: pauses before a retry, and the provider's limit of requests per minute."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque

MINUTE_SECONDS = 60.0


class Clock:
    """The time of this machine. Tests have one that is never waited for."""

    def now(self) -> float:
        """Return seconds since a fixed moment."""
        return time.monotonic()

    async def wait(self, seconds: float, event: asyncio.Event | None = None) -> None:
        """Wait for a time, and no longer than until an event."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for((event or asyncio.Event()).wait(), seconds)


class RateLimit:
    """Spreads requests so that no minute has more than `per_minute`; 0 is no limit."""

    def __init__(self, per_minute: float, clock: Clock) -> None:
        self._per_minute, self._clock = per_minute, clock
        self._starts: deque[float] = deque()

    async def wait(self) -> None:
        """Wait until one more request is allowed, and count it."""
        while self._per_minute:
            now = self._clock.now()
            while self._starts and self._starts[0] <= now - MINUTE_SECONDS:
                self._starts.popleft()
            if len(self._starts) < self._per_minute:
                self._starts.append(now)
                return
            await self._clock.wait(self._starts[0] + MINUTE_SECONDS - now)
