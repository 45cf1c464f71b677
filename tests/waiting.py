"""Waits of tests: for a state of the world, with a deadline that only names what is missing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

PATIENCE_SECONDS = 60.0
"""Enough on a machine that is many times slower; nothing passes because of it."""
PAUSE_SECONDS = 0.01
T = TypeVar("T")


def until(
    found: Callable[[], T],
    missing: str | Callable[[], object] = "",
    seconds: float = PATIENCE_SECONDS,
) -> T:
    """Return the first true value of `found`; fail with `missing` where none comes."""
    end = time.monotonic() + seconds
    while not (value := found()):
        if time.monotonic() > end:
            raise AssertionError(_message(found, missing, seconds))
        time.sleep(PAUSE_SECONDS)
    return value


async def until_async(
    found: Callable[[], T],
    missing: str | Callable[[], object] = "",
    seconds: float = PATIENCE_SECONDS,
) -> T:
    """Return the first true value of `found` while the event loop goes on."""
    end = time.monotonic() + seconds
    while not (value := found()):
        if time.monotonic() > end:
            raise AssertionError(_message(found, missing, seconds))
        await asyncio.sleep(PAUSE_SECONDS)
    return value


async def turns(count: int = 5) -> None:
    """Let the event loop run everything that can run now, and what that starts."""
    for _ in range(count):
        await asyncio.sleep(0)


def _message(found: object, missing: str | Callable[[], object], seconds: float) -> str:
    text = missing() if callable(missing) else missing
    return f"missing after {seconds:g} s: {text or found}"
