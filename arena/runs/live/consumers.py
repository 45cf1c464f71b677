"""WebSockets of open pages: each joins the feed of its run, or that of the boards."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Awaitable, Callable, Hashable
from functools import partial
from typing import Any

from arena.runs.live import feeds
from arena.sockets import Scope

MAX_SEEN = 2**53
USAGE = json.dumps({"error": 'Send {"seen": <number of characters received>}.'})

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


async def run(scope: Scope, receive: Receive, send: Send) -> None:
    """Send the frames of a run (`arena/runs/live/feeds.py`)."""
    run_id = scope["url_route"]["kwargs"]["run_id"]
    audience = await feeds.audience_of(scope["user"], run_id)
    if audience is None:
        await nowhere(scope, receive, send)
    else:
        make = partial(feeds.RunFeed, run_id, audience)
        session = scope["session"].session_key or ""
        await _join(receive, send, (run_id, audience.name), make, USAGE, session)


async def board(scope: Scope, receive: Receive, send: Send) -> None:
    """Send changes of the boards; ignore messages of their pages."""
    await _join(receive, send, "board", feeds.BoardFeed)


async def nowhere(scope: Scope, receive: Receive, send: Send) -> None:
    """Close the socket as not found."""
    await receive()
    await send({"type": "websocket.accept"})
    await send({"type": "websocket.close", "code": feeds.NOT_FOUND})


async def _join(
    receive: Receive,
    send: Send,
    key: Hashable,
    make: Callable[[feeds.Reader], feeds.Feed],
    usage: str = "",
    session: str = "",
) -> None:
    async def send_if_open(message: dict[str, Any]) -> None:
        """Send to a page, unless it has gone: `receive` is about to say so, and others stay."""
        with contextlib.suppress(OSError, RuntimeError):  # ASGI's error, and that of Autobahn
            await send(message)

    async def send_text(text: str) -> None:
        await send_if_open({"type": "websocket.send", "text": text})

    async def close(code: int) -> None:
        await send_if_open({"type": "websocket.close", "code": code})

    await receive()
    await send({"type": "websocket.accept"})
    watcher = feeds.Watcher(send_text, close, session)
    hub = feeds.hub()
    feed = hub.join(watcher, key, make)
    try:
        while (message := await receive())["type"] == "websocket.receive":
            seen = _seen(message.get("text"))
            if seen is not None:
                feed.confirm(watcher, seen)
            elif usage:
                await send_text(usage)
    finally:
        hub.leave(watcher, key, feed)


def _seen(text: str | None) -> int | None:
    """Return the number in `{"seen": number}`; None for anything else."""
    try:
        content = json.loads(text or "")
    except (ValueError, RecursionError):
        return None
    seen = content.get("seen") if isinstance(content, dict) else None
    return seen if type(seen) is int and 0 <= seen <= MAX_SEEN else None
