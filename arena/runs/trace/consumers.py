"""WebSockets of open pages: the events of a run, and changes of the boards."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncJsonWebsocketConsumer, AsyncWebsocketConsumer
from django.db.models import QuerySet

from arena import sockets
from arena.runs.models import Run

MIN_FRAME_SECONDS = 0.1
TICK_SECONDS = 2.0  # the delay of a page after a lost nudge
BOARD_TICK_SECONDS = 60.0
MAX_FRAME_EVENTS = 200
MAX_LAG_EVENTS = 2000  # a client further behind is moved to the tail
MAX_SEQ = 2**31 - 1
NOT_FOUND = 4404
INTERNAL_ERROR = 1011

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Batch:
    """The events after a cursor, the next cursor, and the state of the run."""

    events: list[dict[str, Any]]
    cursor: int
    last_seq: int
    status: str
    skipped_to: int | None = None


class NudgedConsumer(AsyncJsonWebsocketConsumer):
    """A socket with a task that wakes on nudges, and on a timer in case one is lost."""

    group: str

    async def receive(
        self, text_data: str | None = None, bytes_data: bytes | None = None, **kwargs: Any
    ) -> None:
        """Handle frames that are not JSON text as an empty message."""
        await self.receive_json(await self.decode_json(text_data or ""))

    @classmethod
    async def decode_json(cls, text_data: str) -> Any:
        try:
            return await super().decode_json(text_data)
        except (ValueError, RecursionError):
            return None

    async def join(self) -> None:
        self.woken = asyncio.Event()
        self.follower: asyncio.Task[None] | None = None
        await self.channel_layer.group_add(self.group, self.channel_name)

    async def nudge(self, message: dict[str, Any]) -> None:
        self.woken.set()

    async def wait(self, seconds: float = TICK_SECONDS) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.woken.wait(), seconds)
        self.woken.clear()

    async def start(self, work: Coroutine[Any, Any, None]) -> None:
        await self.stop()
        self.follower = asyncio.create_task(self._guard(work))

    async def _guard(self, work: Coroutine[Any, Any, None]) -> None:
        """Close the socket when the task fails, so that the page reconnects and resumes."""
        try:
            await work
        except Exception:
            logger.exception("following %s ended", self.group)
            await self.close(INTERNAL_ERROR)

    async def stop(self) -> None:
        if self.follower is not None:
            self.follower.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self.follower

    async def disconnect(self, code: int) -> None:
        if hasattr(self, "woken"):
            await self.stop()
            await self.channel_layer.group_discard(self.group, self.channel_name)


class NowhereConsumer(AsyncWebsocketConsumer):
    """Closes the sockets of unknown URLs as not found."""

    async def connect(self) -> None:
        await self.accept()
        await self.close(NOT_FOUND)


class RunConsumer(NudgedConsumer):
    """Streams the events of a run above seq n, in order, on `{op: "follow", after: n}`."""

    async def connect(self) -> None:
        self.run_id = self.scope["url_route"]["kwargs"]["run_id"]
        if not await self._visible():
            await self.accept()
            await self.close(NOT_FOUND)
            return
        self.group = sockets.run_group(self.run_id)
        await self.join()
        await self.accept()

    async def receive_json(self, content: Any, **kwargs: Any) -> None:
        after = content.get("after", 0) if isinstance(content, dict) else None
        if type(after) is not int or not 0 <= after <= MAX_SEQ or content.get("op") != "follow":
            message = 'Send {"op": "follow", "after": <the last seq you have>}.'
            await self.send_json({"type": "error", "message": message})
            return
        await self.start(self._follow(after))

    async def _follow(self, cursor: int) -> None:
        status = None
        while True:
            began = time.monotonic()
            batch = await self._read(cursor)
            if batch is None:
                await self.close(NOT_FOUND)
                return
            if batch.skipped_to is not None:
                lagged = {"type": "lagged", "from": cursor, "to": batch.skipped_to}
                await self.send_json(lagged)
            frame = {"last_seq": batch.cursor, "status": batch.status}
            if batch.events:
                await self.send_json({"type": "events", "events": batch.events, **frame})
            elif batch.status != status:
                await self.send_json({"type": "status", **frame})
            cursor, status = batch.cursor, batch.status
            if cursor >= batch.last_seq:
                await self.wait()
            await asyncio.sleep(max(0.0, began + MIN_FRAME_SECONDS - time.monotonic()))

    def _visible_runs(self) -> QuerySet[Run]:
        user: Any = self.scope["user"]
        return Run.objects.visible_to(user).filter(pk=self.run_id)

    @database_sync_to_async
    def _visible(self) -> bool:
        return self._visible_runs().exists()

    @database_sync_to_async
    def _read(self, cursor: int) -> Batch | None:
        run = self._visible_runs().first()
        if run is None:
            return None
        skipped_to = None
        if run.last_seq - cursor > MAX_LAG_EVENTS:
            cursor = skipped_to = run.last_seq - MAX_FRAME_EVENTS
        rows = run.events.filter(seq__gt=cursor, seq__lte=run.last_seq)
        events = [event.envelope() for event in rows.order_by("seq")[:MAX_FRAME_EVENTS]]
        whole = len(events) < MAX_FRAME_EVENTS
        reached = max(cursor, run.last_seq) if whole else events[-1]["seq"]
        return Batch(events, reached, run.last_seq, run.status, skipped_to)


class BoardConsumer(NudgedConsumer):
    """Sends `{type: "changed"}`, at most once a second, when a state or a number of a run changes.

    A timer sends it too, in case a nudge is lost.
    """

    group = sockets.BOARD

    async def connect(self) -> None:
        await self.join()
        await self.accept()
        await self.start(self._follow())

    async def receive_json(self, content: Any, **kwargs: Any) -> None:
        """Ignore messages from boards."""

    async def _follow(self) -> None:
        while True:
            await self.wait(BOARD_TICK_SECONDS)
            await self.send_json({"type": "changed"})
            await asyncio.sleep(1)
