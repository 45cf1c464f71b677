"""Feeds of a web process: one for each watched run, read and rendered once for all its pages.

A frame is JSON with what is new since the one before:

    {"after": 40, "cursor": 43, "html": rows, "parts": {id: html}, "ended": false}

`html` has the rows of the events above seq `after`, up to `cursor`. A page whose own cursor is
below `after` has a gap and requests the rows by GET, so a frame may be lost. A page that joins is
sent the cursor at once, and every part of the summary. It confirms by `{"seen": characters}`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from channels.db import database_sync_to_async
from django.conf import settings
from django.contrib.auth.models import AnonymousUser
from django.template.loader import render_to_string

from arena import sockets
from arena.accounts.models import Viewer
from arena.runs.models import Run
from arena.runs.summary import parts_of, shown_runs
from arena.runs.trace import timeline

MIN_FRAME_SECONDS = 0.1
TICK_SECONDS = 1.0  # the delay of a frame after a lost nudge
PARTS_SECONDS = 1.0
IDLE_PARTS_SECONDS = 10.0  # without events: a place in a queue changes all the same
BOARD_TICK_SECONDS = 60.0
MAX_UNSEEN_CHARACTERS = 512 * 1024
MAX_SENDS_IN_A_ROW = 25  # then requests and other feeds have their turn
NOT_FOUND = 4404
INTERNAL_ERROR = 1011
CHANGED = json.dumps({"type": "changed"})

logger = logging.getLogger(__name__)


@dataclass(eq=False)
class Watcher:
    """One open page. It is sent nothing more while it has too much left to confirm.

    Daphne never makes a sender wait: it keeps what a client does not read.
    """

    send: Callable[[str], Awaitable[None]]
    close: Callable[[int], Awaitable[None]]
    joined_at: float = field(default_factory=time.monotonic)
    needs_cursor: bool = True
    needs_parts: bool = True
    sent: int = 0
    seen: int = 0
    """Characters that it was sent, and that it has confirmed."""

    @property
    def is_behind(self) -> bool:
        return self.sent - self.seen > MAX_UNSEEN_CHARACTERS

    async def take(self, frame: str) -> None:
        self.needs_cursor = False
        self.sent += len(frame)
        await self.send(frame)


class Feed:
    """A loop that sends to its watchers; it wakes on nudges of a group, and on a timer."""

    def __init__(self, group: str) -> None:
        self.group = group
        self.watchers: set[Watcher] = set()
        self.woken = asyncio.Event()
        self.task: asyncio.Task[None] | None = None

    def add(self, watcher: Watcher) -> None:
        self.watchers.add(watcher)

    def confirm(self, watcher: Watcher, seen: int) -> None:
        """Take a confirmation; a watcher that was behind is sent the cursor."""
        watcher.seen = min(seen, watcher.sent)
        if watcher.needs_cursor and not watcher.is_behind:
            self.woken.set()

    async def follow(self) -> int:
        """Send until there is nothing to follow; return the code that closes the sockets."""
        raise NotImplementedError

    async def wait(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.woken.wait(), seconds)
        self.woken.clear()

    async def run(self) -> None:
        """Follow, then close the sockets; pages connect again unless the code says why not."""
        code = INTERNAL_ERROR
        try:
            code = await self.follow()
        except Exception:
            logger.exception("feed %s ended", self.group)
        while self.watchers:
            await self.watchers.pop().close(code)


class Hub:
    """The feeds of an event loop, and the listener that wakes them while there are some."""

    def __init__(self) -> None:
        self.feeds: dict[Hashable, Feed] = {}
        self.listener: asyncio.Task[None] | None = None

    def join(self, watcher: Watcher, key: Hashable, make: Callable[[], Feed]) -> Feed:
        """Add a watcher to the feed with this key; the first one starts it."""
        feed = self.feeds.get(key)
        if feed is None or feed.task is None or feed.task.done():
            feed = self.feeds[key] = make()
            feed.task = asyncio.create_task(feed.run())
        feed.add(watcher)
        self.listener = self.listener or asyncio.create_task(self._listen())
        return feed

    def leave(self, watcher: Watcher, key: Hashable, feed: Feed) -> None:
        """Remove a watcher; the last one ends the feed."""
        feed.watchers.discard(watcher)
        if not feed.watchers and self.feeds.get(key) is feed:
            del self.feeds[key]
            if feed.task:
                feed.task.cancel()
        if not self.feeds and self.listener:
            self.listener.cancel()
            self.listener = None

    async def _listen(self) -> None:
        async for group in sockets.nudged_groups(settings.REDIS_URL):
            for feed in self.feeds.values():
                if feed.group == group:
                    feed.woken.set()


_hubs: WeakKeyDictionary[asyncio.AbstractEventLoop, Hub] = WeakKeyDictionary()


def hub() -> Hub:
    """Return the hub of this event loop; a process that serves has one."""
    return _hubs.setdefault(asyncio.get_running_loop(), Hub())


class BoardFeed(Feed):
    """Sends `{type: "changed"}`, at most once a second, when a state or a number of a run changes.

    A timer sends it too, in case a nudge is lost.
    """

    def __init__(self) -> None:
        super().__init__(sockets.BOARD)

    async def follow(self) -> int:
        while True:
            await self.wait(BOARD_TICK_SECONDS)
            for watcher in list(self.watchers):
                await watcher.send(CHANGED)
            await asyncio.sleep(1)


@dataclass(frozen=True)
class News:
    """The rows of a run above a cursor, and where they end."""

    run: Run
    html: str
    cursor: int


@database_sync_to_async
def audience_of(user: Viewer, run_id: str) -> tuple[str, Viewer] | None:
    """Return the viewers that see a run alike, by name and with one of them as their example.

    Returns: None for a user who cannot see the run.
    """
    public = ("public", AnonymousUser())
    for name, viewer in [("staff", user)] if user.is_staff else [public, (f"user {user.pk}", user)]:
        if Run.objects.visible_to(viewer).filter(pk=run_id).exists():
            return name, viewer
    return None


class RunFeed(Feed):
    """Sends the rows of a run and the parts of its summary to viewers who see it alike."""

    def __init__(self, run_id: str, viewer: Viewer) -> None:
        super().__init__(sockets.run_group(run_id))
        self.run_id = run_id
        self.viewer = viewer
        self.parts: dict[str, str] = {}
        self.parts_at = float("-inf")
        self.parts_stale = True

    def add(self, watcher: Watcher) -> None:
        super().add(watcher)
        self.woken.set()

    async def follow(self) -> int:
        cursor, status, ended = None, "", False
        changed: dict[str, str] = {}
        while True:
            began = time.monotonic()
            news = await self._read(cursor)
            if news is None:
                return NOT_FOUND
            after = news.cursor if cursor is None else cursor
            if news.cursor > after or news.run.status != status:
                self.parts_stale = True
            is_last = news.run.ended and news.cursor == news.run.last_seq and not self.parts_stale
            frame = {"after": after, "cursor": news.cursor, "html": news.html, "ended": is_last}
            is_new = bool(news.cursor > after or changed or is_last != ended)
            await self._send(frame, changed, is_new)
            cursor, status, ended = news.cursor, news.run.status, is_last
            changed = await self._render(news.run)
            if not changed and cursor == news.run.last_seq:
                await self.wait(min(TICK_SECONDS, self._parts_due_in()))
            spent = time.monotonic() - began
            await asyncio.sleep(max(0.0, MIN_FRAME_SECONDS - spent))

    async def _send(self, frame: dict[str, Any], changed: dict[str, str], is_new: bool) -> None:
        """Send a frame: with all parts to those that lack them, to others with the changed ones."""
        some = json.dumps({**frame, "parts": changed})
        whole = ""
        for number, watcher in enumerate(list(self.watchers), start=1):
            if number % MAX_SENDS_IN_A_ROW == 0:
                await asyncio.sleep(0)
            if watcher.is_behind:
                watcher.needs_cursor = watcher.needs_parts = True
            elif watcher.needs_parts and self._parts_suit(watcher):
                whole = whole or json.dumps({**frame, "parts": self.parts})
                watcher.needs_parts = False
                await watcher.take(whole)
            elif is_new or watcher.needs_cursor:
                await watcher.take(some)

    def _parts_suit(self, watcher: Watcher) -> bool:
        """Return whether the parts are as new as those that the page was served with."""
        return bool(self.parts) and (not self.parts_stale or watcher.joined_at <= self.parts_at)

    def _parts_due_in(self) -> float:
        pause = PARTS_SECONDS if self.parts_stale else IDLE_PARTS_SECONDS
        return max(0.0, self.parts_at + pause - time.monotonic())

    async def _render(self, run: Run) -> dict[str, str]:
        """Return the parts that have changed, if it is time to render them."""
        if self._parts_due_in() > 0:
            return {}
        self.parts_at = time.monotonic()
        self.parts_stale = False
        parts = await database_sync_to_async(parts_of)(run)
        changed = {name: html for name, html in parts.items() if html != self.parts.get(name)}
        self.parts = parts
        return changed

    @database_sync_to_async
    def _read(self, after: int | None) -> News | None:
        run = shown_runs(self.viewer).filter(pk=self.run_id).first()
        if run is None:
            return None
        if after is None or after >= run.last_seq:
            return News(run, "", run.last_seq)
        entries, reached = timeline.since(run.events.all(), after, run.last_seq)
        html = render_to_string("runs/_events.html", {"entries": entries, "run": run})
        return News(run, html, reached)
