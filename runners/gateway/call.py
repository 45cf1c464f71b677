"""One call of a model: its request, its progress, and the report on it."""

from __future__ import annotations

import contextlib
import json
import time
from dataclasses import dataclass

from runners.gateway.budget import usage_bound
from runners.gateway.traffic import Exchange
from runners.gateway.wire import Endpoint, Reading, Usage, WireFormat

HUNG_UP = "the agent hung up"
"""Error of a call whose agent did not wait for the answer."""


@dataclass(frozen=True)
class ModelCall:
    """One call of a model, as it is reported. Times are in milliseconds."""

    provider: str
    wire: str
    model: str
    status: int
    usage: Usage | None
    cost_usd: float | None
    latency_ms: float
    first_byte_ms: float | None
    stop_reason: str = ""
    retries: int = 0
    replayed: bool = False
    error: str = ""


@dataclass(frozen=True)
class Asked:
    """A request for a model call."""

    method: str
    path: str
    model: str
    body: bytes
    bound: Usage
    """Upper bound of what it can use."""


class Call:
    """A model call under way."""

    def __init__(
        self, provider: str, wire: WireFormat, endpoint: Endpoint, asked: Asked, keep: bool
    ) -> None:
        """`keep` keeps the answer, to be recorded."""
        self.provider, self.wire, self.endpoint = provider, wire, endpoint
        self.asked, self._keep = asked, keep
        self.status = self.retries = 0
        self.error = self.content_type = ""
        self.begun = self.recorded = self.replayed = False
        self._started = time.monotonic()
        self._pieces: list[tuple[float, str]] = []
        self._first: float | None = None
        self._bytes = bytearray()

    def add(self, piece: bytes) -> None:
        """Keep a piece of the answer; one that ends within a character waits for the next."""
        seconds = time.monotonic() - self._started
        self._first = self._first if self._first is not None else seconds
        if not self._keep:
            return
        self._bytes += piece
        with contextlib.suppress(UnicodeDecodeError):
            self._pieces.append((round(seconds, 4), self._bytes.decode()))
            self._bytes.clear()

    def reported(self, reading: Reading, cost_usd: float | None) -> ModelCall:
        first = None if self._first is None else round(1000 * self._first, 1)
        return ModelCall(
            provider=self.provider,
            wire=self.wire.name,
            model=reading.model or self.asked.model,
            status=self.status,
            usage=reading.usage,
            cost_usd=cost_usd,
            latency_ms=round(1000 * (time.monotonic() - self._started), 1),
            first_byte_ms=first,
            stop_reason=reading.stop_reason,
            retries=self.retries,
            replayed=self.replayed,
            error=self.error,
        )

    def exchange(self) -> Exchange:
        return Exchange(
            self.asked.method,
            self.asked.path,
            self.asked.model,
            self.asked.body.decode(errors="replace"),
            self.status,
            self.content_type,
            self._pieces,
        )


def parse_request(path: str, body: bytes) -> Asked:
    """Return what a request asks for; a stream of Chat Completions is made to tell its usage."""
    try:
        data = json.loads(body)
    except (ValueError, RecursionError):
        data = None
    model = data.get("model") if isinstance(data, dict) else None
    if path.endswith("/chat/completions") and isinstance(data, dict) and data.get("stream"):
        options = data.get("stream_options")
        data["stream_options"] = {**(options if isinstance(options, dict) else {})}
        data["stream_options"]["include_usage"] = True
        body = json.dumps(data).encode()
    if not isinstance(model, str):
        model = path.rpartition("/models/")[2].partition(":")[0] if "/models/" in path else ""
    return Asked("POST", path, model, body, usage_bound(data, len(body)))
