"""Sockets of the arena, opened as a browser would."""

from __future__ import annotations

from functools import partial
from typing import Any

from asgiref.sync import sync_to_async
from channels.testing import WebsocketCommunicator
from django.test import Client
from websockets.sync.client import connect

from tests.waiting import PATIENCE_SECONDS

HOST = (b"host", b"localhost:8000")
ORIGIN = (b"origin", b"http://localhost:8000")

connect_now = partial(connect, open_timeout=PATIENCE_SECONDS, ping_interval=None)
"""Opens a socket of a real server; it keeps waiting while the server is slow."""


class Socket(WebsocketCommunicator):
    """A socket that waits as long as a slow machine needs, where Channels waits for one second."""

    async def connect(self, timeout: float = PATIENCE_SECONDS) -> tuple[bool, Any]:
        found: tuple[bool, Any] = await super().connect(timeout)
        return found

    async def receive_output(self, timeout: float = PATIENCE_SECONDS) -> Any:
        return await super().receive_output(timeout)

    async def receive_json_from(self, timeout: float = PATIENCE_SECONDS) -> Any:
        return await super().receive_json_from(timeout)

    async def disconnect(self, code: int = 1000, timeout: float = PATIENCE_SECONDS) -> None:
        await super().disconnect(code, timeout)


def communicator(path: str, user: Any = None, headers: Any = (HOST, ORIGIN)) -> Socket:
    from arena.asgi import application

    headers = list(headers)
    if user is not None:
        client = Client()
        client.force_login(user)
        headers.append((b"cookie", f"sessionid={client.cookies['sessionid'].value}".encode()))
    return Socket(application, path, headers=headers)


async def opened(path: str, user: Any = None) -> Socket:
    ws = await sync_to_async(communicator)(path, user)
    accepted, _ = await ws.connect()
    assert accepted
    return ws
