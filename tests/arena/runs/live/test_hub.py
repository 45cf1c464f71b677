"""Tests of the hub of an event loop: the listener that it starts and ends with its feeds."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest
import redis
from django.conf import settings

from arena import sockets
from arena.runs.live import feeds
from tests.waiting import PATIENCE_SECONDS, until_async


class Silent(feeds.Feed):
    """A feed that sends nothing and ends by cancellation."""

    async def follow(self) -> int:
        await asyncio.Event().wait()
        return 0


async def nothing(_: Any) -> None:
    """Stand for the methods of a socket."""


async def listening(hub: feeds.Hub, feed: feeds.Feed) -> None:
    """Wait until a nudge of the feed arrives."""
    with redis.Redis.from_url(settings.REDIS_URL) as sender:

        def woken() -> bool:
            sender.publish(sockets.CHANNEL, feed.group)
            return feed.woken.is_set()

        await until_async(woken, "a nudge")


@pytest.mark.anyio
@pytest.mark.usefixtures("valkey")
async def test_listener_ends_without_an_error_that_nobody_can_catch() -> None:
    errors: list[dict[str, Any]] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: errors.append(context))
    for _ in range(5):
        hub, watcher = feeds.Hub(), feeds.Watcher(nothing, nothing)
        feed = hub.join(watcher, "key", lambda reader: Silent("run.x"))
        await listening(hub, feed)
        hub.leave(watcher, "key", feed)
        assert len(hub.ending) == 2
        await loop.shutdown_asyncgens()  # as the end of a server does, at a bad moment
        gc.collect()
        await until_async(lambda ending=hub.ending: not ending, "the end of its tasks")
        gc.collect()
        await asyncio.sleep(0)
    assert errors == []


@pytest.mark.anyio
@pytest.mark.usefixtures("valkey")
async def test_listener_ends_whenever_it_is_cancelled() -> None:
    """A cancellation while a command of the client ends was once lost, in 6 of 100 places."""
    for rounds in range(100):
        listener = asyncio.create_task(sockets.follow_nudges(settings.REDIS_URL, print))
        for _ in range(rounds):
            await asyncio.sleep(0)
        listener.cancel()
        _, pending = await asyncio.wait([listener], timeout=PATIENCE_SECONDS)
        assert not pending, f"after {rounds} rounds of the event loop"


@pytest.mark.anyio
@pytest.mark.usefixtures("valkey")
async def test_board_page_that_joins_a_hub_at_work_refreshes() -> None:
    """A change between its rendering and its joining woke no feed of boards: there was none."""
    hub, other, frames = feeds.hub(), feeds.Watcher(nothing, nothing), asyncio.Queue[str]()
    of_run = hub.join(other, "run", lambda reader: Silent("run.x"))
    await listening(hub, of_run)
    page = feeds.Watcher(frames.put, nothing)
    boards = hub.join(page, "board", feeds.BoardFeed)
    assert await asyncio.wait_for(frames.get(), PATIENCE_SECONDS) == '{"within_ms": 0}'
    hub.leave(page, "board", boards)
    hub.leave(other, "run", of_run)


class Waiting(feeds.Feed):
    """A feed that waits to be woken, without end."""

    async def follow(self) -> int:
        while True:
            await self.wait(60)


@pytest.mark.anyio
async def test_feed_that_is_woken_and_cancelled_at_once_ends() -> None:
    feed = Waiting("run.x")
    task = asyncio.create_task(feed.run())
    await asyncio.sleep(0)
    feed.woken.set()
    await asyncio.sleep(0)
    task.cancel()
    _, pending = await asyncio.wait([task], timeout=PATIENCE_SECONDS)
    assert not pending
