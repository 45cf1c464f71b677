"""The path below which the arena is served, and the refusal of any other."""

from __future__ import annotations

from typing import Any

from django.conf import settings

from arena.sockets import Scope, refuse

REFUSAL = (
    b"This request names a root path, which is not that of this arena. To serve the arena below a "
    b"path, set ARENA_PREFIX.\n"
)


class OwnPrefix:
    """Passes requests on without a root path, of which Django would make addresses.

    Daphne takes the root path from the header Daphne-Root-Path, which any client can send. Here it
    can only be the prefix of the settings, as from a proxy that has cut it from the path.
    """

    def __init__(self, application: Any) -> None:
        self.application = application

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        root, path = scope.get("root_path", "").rstrip("/"), scope["path"]
        if root not in ("", settings.PREFIX):
            await _refuse(scope, receive, send)
            return
        if root and not path.startswith(f"{root}/"):
            path = root + path
        await self.application({**scope, "root_path": "", "path": path}, receive, send)


async def _refuse(scope: Scope, receive: Any, send: Any) -> None:
    if scope["type"] == "websocket":
        await refuse(scope, receive, send)
        return
    headers = [(b"content-type", b"text/plain; charset=utf-8")]
    await send({"type": "http.response.start", "status": 400, "headers": headers})
    await send({"type": "http.response.body", "body": REFUSAL})
