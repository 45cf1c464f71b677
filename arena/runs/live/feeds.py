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
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from channels.db import database_sync_to_async
from django.conf import settings
from django.contrib.auth.models import AnonymousUser
from django.db import connections
from django.template.loader import render_to_string

from arena import sockets
from arena.accounts.auth import user_of_session
from arena.accounts.models import Viewer
from arena.runs.display.summary import parts_of, shown_runs
from arena.runs.display.waiting import is_paused, waits_of
from arena.runs.models import Event, Run
from arena.runs.states import RUN_ACTIVE
from arena.runs.trace import timeline

MIN_FRAME_SECONDS = 0.1
BOARD_TICK_SECONDS = 60.0
BOARD_SECONDS_A_PAGE = 0.02  # in which one page can be rendered
MAX_BOARD_SECONDS = 10.0
MAX_SENDS_IN_A_ROW = 25  # then requests and other feeds have their turn
FLUSH_ROUNDS = 2  # of the event loop, in which the server writes what it was given
MAX_PARTS_SHARE = 0.04  # of the time of a feed, for rendering parts
ACCESS_ENDED = 4403
NOT_FOUND = 4404
INTERNAL_ERROR = 1011
OF_NEWS = ("last_seq", "status", "lease", "agent__adapter")
"""Columns that a feed reads of its run each time."""

Result = TypeVar("Result")
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Pace:
    """Times of the feeds, and how much a page may leave unconfirmed."""

    tick_seconds: float = 1.0
    """Delay of a frame after a lost nudge."""
    parts_seconds: float = 1.0
    idle_parts_seconds: float = 10.0
    """Without events: a place in a queue changes all the same."""
    max_unseen_characters: int = 512 * 1024
    access_seconds: float = 30.0
    """After this time it is checked again that each viewer may still see the run."""
    join_seconds: float = 10.0
    """A page of a board that joins may have been rendered this long before."""


@dataclass(eq=False)
class Watcher:
    """One open page. It is sent nothing more while it has too much left to confirm.

    Daphne never makes a sender wait: it keeps what a client does not read.
    """

    send: Callable[[str], Awaitable[None]]
    close: Callable[[int], Awaitable[None]]
    session: str = ""
    """Key of the session that it was opened with."""
    joined_at: float = field(default_factory=time.monotonic)
    needs_cursor: bool = True
    needs_parts: bool = True
    sent: int = 0
    seen: int = 0
    """Characters that it was sent, and that it has confirmed."""

    max_unseen: int = Pace.max_unseen_characters

    @property
    def is_behind(self) -> bool:
        return self.sent - self.seen > self.max_unseen

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

    def nudge(self) -> None:
        """Take a nudge of the group."""
        self.woken.set()

    def confirm(self, watcher: Watcher, seen: int) -> None:
        """Take a confirmation; a watcher that was behind is sent the cursor."""
        watcher.seen = min(seen, watcher.sent)
        if watcher.needs_cursor and not watcher.is_behind:
            self.woken.set()

    async def follow(self) -> int:
        """Send until there is nothing to follow; return the code that closes the sockets."""
        raise NotImplementedError

    async def wait(self, seconds: float) -> None:
        """Wait for a nudge or `seconds`; `asyncio.wait_for` could lose a cancellation."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.woken.wait()
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


class Reader:
    """A thread that keeps its connection to the database between the reads of all feeds.

    Feeds read and send in turn. Each call that sends releases the interpreter's lock, and a thread
    that renders meanwhile would keep it for 5 ms each time.
    """

    def __init__(self) -> None:
        self.turn = asyncio.Lock()
        self._thread = ThreadPoolExecutor(1, "feeds")

    async def run(self, work: Callable[..., Result], *args: Any) -> Result:
        async with self.turn:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._thread, self._checked, work, *args)

    def _checked(self, work: Callable[..., Result], *args: Any) -> Result:
        try:
            return work(*args)
        except Exception:
            connections.close_all()  # one that broke is made anew
            raise

    def close(self) -> None:
        self._thread.submit(connections.close_all)
        self._thread.shutdown(wait=False)


class Hub:
    """The feeds of an event loop, with what reads for them and wakes them."""

    def __init__(self) -> None:
        self.pace = Pace()
        self.feeds: dict[Hashable, Feed] = {}
        self.reader = Reader()
        self.listener: asyncio.Task[None] | None = None
        self.ending: set[asyncio.Task[None]] = set()
        """Cancelled tasks, which an event loop alone does not keep from garbage collection."""

    def join(self, watcher: Watcher, key: Hashable, make: Callable[[Reader], Feed]) -> Feed:
        """Add a watcher to the feed with this key; the first one starts it."""
        feed = self.feeds.get(key)
        if feed is None or feed.task is None or feed.task.done():
            feed = self.feeds[key] = make(self.reader)
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
                self._end(feed.task)
        if not self.feeds and self.listener:
            self._end(self.listener)
            self.listener = None
            self.reader.close()
            self.reader = Reader()

    def _end(self, task: asyncio.Task[None]) -> None:
        """Cancel a task, and keep it until it has ended."""
        self.ending.add(task)
        task.add_done_callback(self.ending.discard)
        task.cancel()

    async def _listen(self) -> None:
        await sockets.follow_nudges(settings.REDIS_URL, self._wake)

    def _wake(self, group: str) -> None:
        for feed in self.feeds.values():
            if feed.group == group:
                feed.nudge()


_hubs: WeakKeyDictionary[asyncio.AbstractEventLoop, Hub] = WeakKeyDictionary()


def hub() -> Hub:
    """Return the hub of this event loop; a process that serves has one."""
    return _hubs.setdefault(asyncio.get_running_loop(), Hub())


class BoardFeed(Feed):
    """Sends `{within_ms}` when a state or a number of a run changes: pages are to refresh by then.

    Each page requests itself, at a random moment, so that the requests spread. A timer sends it
    too, in case a nudge is lost. A page that joins soon after a change was perhaps rendered before
    it, so it is sent one as well. A feed that is made while others are followed knows of no earlier
    nudge, and counts as a change; a listener that begins nudges it anyway.
    """

    def __init__(self, reader: Reader) -> None:
        super().__init__(sockets.BOARD)
        self.pace = hub().pace
        self.changed_at = time.monotonic() if hub().listener else float("-inf")
        self.stale: set[Watcher] = set()

    def add(self, watcher: Watcher) -> None:
        super().add(watcher)
        if time.monotonic() - self.changed_at < self.pace.join_seconds:
            self.stale.add(watcher)
            self.woken.set()

    def nudge(self) -> None:
        self.changed_at = time.monotonic()
        self.stale |= self.watchers
        super().nudge()

    async def follow(self) -> int:
        while True:
            await self.wait(BOARD_TICK_SECONDS)
            stale, self.stale = (self.stale or self.watchers) & self.watchers, set()
            within = min(BOARD_SECONDS_A_PAGE * max(len(stale) - 1, 0), MAX_BOARD_SECONDS)
            frame = json.dumps({"within_ms": round(1000 * within)})
            for watcher in stale:
                await watcher.send(frame)
            await asyncio.sleep(max(1.0, within))


@dataclass(frozen=True)
class News:
    """The rows of a run above a cursor, where they end, and the state of the run.

    An agent is `paused` without an event: another run's measurement begins or ends. So are
    evaluations taken from queues and put into them; `waits` has the states of those that wait.
    """

    html: str
    cursor: int
    last_seq: int
    status: str
    paused: bool
    waits: tuple[str, ...]

    @property
    def state(self) -> tuple[str, bool, tuple[str, ...]]:
        """Return what parts of the summary depend on besides the events."""
        return self.status, self.paused, self.waits


@dataclass(frozen=True)
class Audience:
    """Viewers that see a run alike, with one of them as their example."""

    name: str
    viewer: Viewer


PUBLIC = Audience("public", AnonymousUser())


def audience(user: Viewer, run_id: str) -> Audience | None:
    """Return the audience of a user; None for one who cannot see the run."""
    own = Audience("staff" if user.is_staff else f"user {user.pk}", user)
    for each in [own] if user.is_staff else [PUBLIC, own]:
        if Run.objects.visible_to(each.viewer).filter(pk=run_id).exists():
            return each
    return None


audience_of = database_sync_to_async(audience)


class RunFeed(Feed):
    """Sends the rows of a run and the parts of its summary to viewers who see it alike."""

    def __init__(self, run_id: str, audience: Audience, reader: Reader) -> None:
        super().__init__(sockets.run_group(run_id))
        self.pace = hub().pace
        self.reader = reader
        self.run_id = run_id
        self.audience = audience
        self.checked_at = time.monotonic()
        self.parts: dict[str, str] = {}
        self.parts_at = float("-inf")
        self.parts_took = 0.0
        self.parts_stale = True

    def add(self, watcher: Watcher) -> None:
        watcher.max_unseen = self.pace.max_unseen_characters
        super().add(watcher)
        self.woken.set()

    async def follow(self) -> int:
        cursor, ended = None, False
        state: tuple[str, bool, tuple[str, ...]] = ("", False, ())
        changed: dict[str, str] = {}
        while True:
            began = time.monotonic()
            await self._close_former()
            news = await self.reader.run(self._read, cursor)
            if news is None:
                return NOT_FOUND
            after = news.cursor if cursor is None else cursor
            if news.cursor > after or news.state != state:
                self.parts_stale = True
            is_whole = news.cursor == news.last_seq
            is_last = is_whole and news.status not in RUN_ACTIVE and not self.parts_stale
            frame = {"after": after, "cursor": news.cursor, "html": news.html, "ended": is_last}
            is_new = bool(news.cursor > after or changed or is_last != ended)
            async with self.reader.turn:
                await self._send(frame, changed, is_new)
                for _ in range(FLUSH_ROUNDS):
                    await asyncio.sleep(0)
            cursor, state, ended = news.cursor, news.state, is_last
            changed = await self._changed_parts()
            if not changed and is_whole:
                await self.wait(min(self.pace.tick_seconds, self._parts_due_in()))
            spent = time.monotonic() - began
            await asyncio.sleep(max(0.0, MIN_FRAME_SECONDS - spent))

    async def _close_former(self) -> None:
        """Close the sockets whose user has logged out or may see the run no more.

        A page then connects again, and joins the audience that it belongs to now, if any.
        """
        due = time.monotonic() - self.checked_at >= self.pace.access_seconds
        if self.audience.name == PUBLIC.name or not due:
            return
        self.checked_at = time.monotonic()
        for watcher in list(self.watchers):
            if not await self.reader.run(self._belongs_here, watcher.session):
                self.watchers.discard(watcher)
                await watcher.close(ACCESS_ENDED)

    def _belongs_here(self, session: str) -> bool:
        found = audience(user_of_session(session), self.run_id)
        return found is not None and found.name == self.audience.name

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
        idle = self.pace.idle_parts_seconds
        pause = max(self.pace.parts_seconds, self.parts_took / MAX_PARTS_SHARE)
        pause = min(pause, idle) if self.parts_stale else idle
        return max(0.0, self.parts_at + pause - time.monotonic())

    async def _changed_parts(self) -> dict[str, str]:
        """Return the parts that have changed, if it is time to render them."""
        if self._parts_due_in() > 0:
            return {}
        self.parts_at = time.monotonic()
        self.parts_stale = False
        parts = await self.reader.run(self._render)
        changed = {name: html for name, html in parts.items() if html != self.parts.get(name)}
        self.parts = parts
        return changed

    def _read(self, after: int | None) -> News | None:
        visible = Run.objects.visible_to(self.audience.viewer).filter(pk=self.run_id)
        run = visible.select_related("agent").only(*OF_NEWS).first()
        if run is None:
            return None
        html, reached = "", run.last_seq
        if after is not None and after < run.last_seq:
            events = Event.objects.filter(run=self.run_id)
            entries, reached = timeline.since(events, after, run.last_seq)
            html = render_to_string("runs/_events.html", {"entries": entries})
        waits = waits_of(run)
        return News(html, reached, run.last_seq, run.status, is_paused(run), waits)

    def _render(self) -> dict[str, str]:
        began = time.monotonic()
        run = shown_runs(self.audience.viewer).filter(pk=self.run_id).first()
        parts = parts_of(run) if run else {}
        self.parts_took = time.monotonic() - began
        return parts
