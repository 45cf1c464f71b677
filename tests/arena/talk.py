"""Sockets of the arena, opened as a browser would."""

from __future__ import annotations

from typing import Any

from asgiref.sync import sync_to_async
from channels.testing import WebsocketCommunicator
from django.test import Client

HOST = (b"host", b"localhost:8000")
ORIGIN = (b"origin", b"http://localhost:8000")


def communicator(
    path: str, user: Any = None, headers: Any = (HOST, ORIGIN)
) -> WebsocketCommunicator:
    from arena.asgi import application

    headers = list(headers)
    if user is not None:
        client = Client()
        client.force_login(user)
        headers.append((b"cookie", f"sessionid={client.cookies['sessionid'].value}".encode()))
    return WebsocketCommunicator(application, path, headers=headers)


async def opened(path: str, user: Any = None) -> WebsocketCommunicator:
    ws = await sync_to_async(communicator)(path, user)
    accepted, _ = await ws.connect()
    assert accepted
    return ws
