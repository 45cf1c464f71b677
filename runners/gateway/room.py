"""Memory for the requests of one run: no more are read than fit."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator

from aiohttp import web

MAX_REQUEST_BYTES = 32 << 20
MAX_BYTES = 2 * MAX_REQUEST_BYTES
"""Size of all requests that are held at a time, each until its call ends."""
MAX_REQUESTS = 128
"""Requests that are held or wait at a time."""


def size_of(request: web.BaseRequest) -> int | None:
    """Return the bytes of the body of a request; None where it is packed or does not say."""
    return None if "content-encoding" in request.headers else request.content_length


class Crowded(Exception):
    """Raised for a request beyond `MAX_REQUESTS`."""


class Room:
    """Bytes that are left for requests; who finds too few waits for a turn."""

    def __init__(self, size: int = MAX_BYTES, requests: int = MAX_REQUESTS) -> None:
        self._free, self._size = size, size
        self._requests = requests
        self._held = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @contextlib.asynccontextmanager
    async def hold(self, size: int | None) -> AsyncIterator[None]:
        """Hold room for a request while the context lasts; one of unknown size takes the most.

        Raises: Crowded.
        """
        taken = min(MAX_REQUEST_BYTES if size is None else size, self._size)
        if self._held + len(self._waiting) >= self._requests:
            raise Crowded
        if self._waiting or taken > self._free:
            turn = asyncio.get_running_loop().create_future()
            self._waiting.append((taken, turn))
            try:
                await turn
            except asyncio.CancelledError:
                self._leave(taken, turn)
                raise
        else:
            self._take(taken)
        try:
            yield
        finally:
            self._give_back(taken)

    def _take(self, size: int) -> None:
        self._free -= size
        self._held += 1

    def _give_back(self, size: int) -> None:
        self._free += size
        self._held -= 1
        self._admit()

    def _leave(self, size: int, turn: asyncio.Future[None]) -> None:
        if turn.done() and not turn.cancelled():  # it was admitted just now
            self._give_back(size)
            return
        self._waiting = deque(each for each in self._waiting if each[1] is not turn)
        self._admit()

    def _admit(self) -> None:
        while self._waiting and self._waiting[0][0] <= self._free:
            size, turn = self._waiting.popleft()
            self._take(size)
            turn.set_result(None)
