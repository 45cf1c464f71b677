"""Keys of the gateway: the run's token, and the provider's key.

The second is struck from what leaves the gateway: errors of a provider may repeat it.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Any

from aiohttp import web

REDACTED = "[redacted]"
MIN_LENGTH = 8
"""A shorter key is no secret: servers on this machine take any."""


class Key:
    """A key that is struck from texts."""

    def __init__(self, key: str) -> None:
        self._key = key if len(key) >= MIN_LENGTH else ""

    def strike(self, text: str) -> str:
        return text.replace(self._key, REDACTED) if self._key else text

    def strike_bytes(self, content: bytes) -> bytes:
        return content.replace(self._key.encode(), REDACTED.encode()) if self._key else content

    def strike_all(self, facts: Mapping[str, Any]) -> dict[str, Any]:
        """Return facts whose texts are without the key."""
        return {
            name: self.strike(value) if isinstance(value, str) else value
            for name, value in facts.items()
        }


def has_token(request: web.Request, token: str) -> bool:
    """Return whether a request of an agent has the token of its run."""
    given = [request.headers.get(name, "") for name in ("x-api-key", "x-goog-api-key")]
    given.append(request.headers.get("authorization", "").removeprefix("Bearer "))
    given.append(request.query.get("key", ""))
    # A header that is not UTF-8 has surrogates.
    sent = (each.encode(errors="replace") for each in given)
    return any(hmac.compare_digest(each, token.encode()) for each in sent)
