"""Answers of the gateway's own, and words for what goes wrong at a provider."""

from __future__ import annotations

from aiohttp import web

from runners.gateway.wire import WireFormat


def refusal(wire: WireFormat, status: int, kind: str, message: str) -> web.Response:
    body = wire.error(status, kind, message)
    # A client library must not try again what will not change.
    headers = {"x-should-retry": "false"}
    return web.Response(status=status, body=body, content_type="application/json", headers=headers)


def retry_after(text: str) -> float:
    """Return the seconds of a Retry-After header; 0 for a date or none."""
    try:
        return max(0.0, float(text))
    except ValueError:
        return 0.0


def text_of(error: BaseException) -> str:
    return str(error) or ("no answer in time" if isinstance(error, TimeoutError) else "cut")


def times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
