"""Reports on calls under way: a slow model answers for minutes."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Mapping
from typing import Any

from runners.gateway.call import Call

MAX_SECONDS = 60.0
"""Longest time between two reports on a call."""


class Progress:
    """Reports `progress` of each call after `seconds`, and then after twice the time before."""

    def __init__(self, report: Callable[[str, Mapping[str, Any]], None], seconds: float) -> None:
        self._report, self._seconds = report, seconds
        self._numbers = itertools.count(1)
        self._tasks: dict[Call, asyncio.Task[None]] = {}

    def follow(self, call: Call) -> None:
        """Report a call until `end`."""
        self._tasks[call] = asyncio.create_task(self._follow(call))

    def end(self, call: Call) -> None:
        if task := self._tasks.pop(call, None):
            task.cancel()

    async def _follow(self, call: Call) -> None:
        seconds = self._seconds
        while True:
            await asyncio.sleep(seconds)
            call.number = call.number or next(self._numbers)
            self._report("progress", call.progress())
            seconds = min(2 * seconds, MAX_SECONDS)
