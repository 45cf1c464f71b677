"""One call of a model: its request, its progress, and the report on it."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import json
import re
import time
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from runners.gateway.budget import usage_bound
from runners.gateway.forwarding import problem
from runners.gateway.traffic import Exchange
from runners.gateway.wire import AnswerReader, Endpoint, Reading, Usage, WireFormat

HUNG_UP = "the agent hung up"
"""Error of a call whose agent did not wait for the answer."""
MALFORMED = "the answer is not what its format says"
"""Error of a call whose answer cannot be read."""
TOO_LONG = "the request is longer than the context of the model"
"""Error of a call that the provider refused for its length."""
BAD_CALL = "the server cannot read a tool call of the model"
"""Error of a call that the provider refused for a malformed tool call.

The tool call is one of the answer, or one of the history. A harness sends its history again with
each request, so then every further call fails.
"""
MAX_NAME = 200
"""Characters of a refused model's name in its error."""
_LENGTH = re.compile(
    rb"context.{0,9}(length|size|window|limit)|exceed_context_size|\bn_ctx\b"
    rb"|\b(prompt|input|request|conversation)( \w+){0,4} too (long|large)"
    rb"|\b(token count|(input|prompt) tokens?).{0,40}exceed",
    re.IGNORECASE,
)
"""In the body of a refusal: the request has more tokens than the model takes."""
_BAD_CALL = re.compile(
    rb"pars(e|ing) (the )?(tool calls?|input at pos)|tool call pars", re.IGNORECASE
)
"""In the body of an error of llama.cpp or Ollama: a tool call is malformed."""
UNFINISHED = frozenset({"", "in_progress"})
"""Stop reasons of an answer that ends early."""


class ProviderFailed(Exception):
    """Raised when the provider gave no answer within `patience_seconds` of the settings."""


class NoCredit(Exception):
    """Raised when the provider's account has no credit left; the message is the provider's."""


class AgentLeft(Exception):
    """Raised when nobody waits for a call that the provider has not answered."""


@dataclass(frozen=True)
class ModelCall:
    """One call of a model, as it is reported. Times are in milliseconds.

    `estimated` is set where the usage, and so the cost, is an upper bound: the answer was not read
    to its end, or names no usage.
    """

    provider: str
    wire: str
    model: str
    """Model that answered, as its answer names it; the requested one where it names none."""
    requested_model: str
    status: int
    usage: Usage | None
    cost_usd: float | None
    latency_ms: float
    first_byte_ms: float | None
    stop_reason: str = ""
    retries: int = 0
    replayed: bool = False
    error: str = ""
    estimated: bool = False


@dataclass(frozen=True)
class Asked:
    """A request for a model call."""

    method: str
    path: str
    model: str
    """Model that the provider runs; empty where a request names none."""
    other_models: tuple[str, ...]
    """Further models that a request names: alternatives, and models of the provider's tools."""
    body: bytes
    bound: Usage
    """Upper bound of what it can use."""
    problem: str = ""
    """Reason why it may not be sent; empty if it may."""

    def model_problem(self, allowed: str) -> str:
        """Return the reason why an agent of one model may not send this; empty if it may."""
        other = next((name for name in (self.model, *self.other_models) if name != allowed), None)
        if other is None:
            return ""
        named = f"asks for the model {other[:MAX_NAME]!r}" if other else "names no model"
        return f"the request {named}, and this run's agent may use {allowed!r} only"


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
        self.begun = self.recorded = self.replayed = self.finished = False
        self.number = 0
        """Number of the first report on its progress; 0 before it."""
        self.unread = False
        """True from sending until its answer, or a refusal, is read to the end."""
        self.left = asyncio.Event()
        """Set once the agent hung up."""
        self.reader: AnswerReader | None = None
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

    def start_reading(self, status: int, content_type: str) -> AnswerReader:
        """Return the reader of the answer that begins."""
        self.status, self.content_type, self.begun = status, content_type, True
        self.reader = AnswerReader(self.wire, content_type == "text/event-stream")
        return self.reader

    def hang_up(self) -> None:
        """Note that the agent left; it need not wait for the end of a stream that is complete."""
        if self.left.is_set():
            return
        self.left.set()
        if self.reader and self.reader.malformed:  # it may have left because of that
            self.error = self.error or MALFORMED
        so_far = copy.copy(self.reader).end() if self.reader else Reading()
        if so_far.stop_reason in UNFINISHED:
            self.error = self.error or HUNG_UP

    @property
    def has_usage(self) -> bool:
        """True once the usage of the whole answer is known."""
        reading = self.reader.reading if self.reader else Reading()
        return reading.names_usage and reading.stop_reason not in UNFINISHED

    @property
    def estimated(self) -> bool:
        """True where the provider may have run it, and its whole usage is not known."""
        if self.has_usage:
            return False
        if self.status == 200:
            return self.unread or self.reader is None or not self.reader.reading.names_usage
        return self.status == 0 and self.unread and self.left.is_set()

    def progress(self) -> dict[str, Any]:
        """Return how far it is. A record of a stream is about a token; others have none before."""
        return {
            "number": self.number,
            "provider": self.provider,
            "model": self.asked.model,
            "tokens": self.reader.records if self.reader else 0,
            "latency_ms": self._milliseconds(time.monotonic() - self._started),
            "first_byte_ms": self._milliseconds(self._first),
        }

    @staticmethod
    def _milliseconds(seconds: float | None) -> float | None:
        return None if seconds is None else round(1000 * seconds, 1)

    def reading(self) -> Reading:
        """Return the facts of the answer; usage that was not read is an upper bound."""
        reading = self.reader.reading if self.reader else Reading()
        if not self.estimated:
            return reading
        bound = self.asked.bound
        read = reading.usage or bound
        usage = replace(
            read if read.input_tokens else bound,
            output_tokens=max(read.output_tokens, bound.output_tokens),
        )
        return replace(reading, usage=usage)

    def reported(self, reading: Reading, cost_usd: float | None) -> ModelCall:
        return ModelCall(
            provider=self.provider,
            wire=self.wire.name,
            model=reading.model or self.asked.model,
            requested_model=self.asked.model,
            status=self.status,
            usage=reading.usage,
            cost_usd=cost_usd,
            latency_ms=round(1000 * (time.monotonic() - self._started), 1),
            first_byte_ms=self._milliseconds(self._first),
            stop_reason=reading.stop_reason,
            retries=self.retries,
            replayed=self.replayed,
            error=self.error,
            estimated=self.estimated,
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


def problem_of(status: int, content: bytes) -> str:
    """Return why a provider refused a request, by the body of its error.

    `TOO_LONG` for its length, `BAD_CALL` for a malformed tool call, else empty.
    """
    if status == 413 or (status in (400, 422) and _LENGTH.search(content)):
        return TOO_LONG
    return BAD_CALL if status in (400, 500) and _BAD_CALL.search(content) else ""


def parse_request(
    wire: WireFormat, path: str, body: bytes, provider_tools: Collection[str] = ()
) -> Asked:
    """Return what a request asks for; a stream of Chat Completions is asked to state its usage.

    An object with a name twice counts as no JSON: parsers differ in which of both values they take.
    """
    try:
        data = json.loads(body, object_pairs_hook=_distinct)
    except (ValueError, RecursionError):
        data = None
    names = _model_names(data)
    if "/models/" in path:  # the provider runs this one, whatever the body says
        names = [path.rpartition("/models/")[2].partition(":")[0]]
    model, *others = names or [""]
    if path.endswith("/chat/completions") and isinstance(data, dict) and data.get("stream"):
        options = data.get("stream_options")
        data["stream_options"] = {**(options if isinstance(options, dict) else {})}
        data["stream_options"]["include_usage"] = True
        body = json.dumps(data).encode()
    bound = usage_bound(wire, data, len(body))
    return Asked("POST", path, model, tuple(others), body, bound, problem(data, provider_tools))


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON. Raises: ValueError for a name that it has twice."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name twice")
    return found


def _model_names(data: Any) -> list[str]:
    """Return the models that a body names, first the one of its field `model`."""
    if not isinstance(data, dict) or not isinstance(model := data.get("model"), str):
        return []
    parts = [data, *_list(data.get("tools"))]
    fields = [field for part in parts if isinstance(part, dict) for field in part.items()]
    values = [value for name, value in fields if name.lower() in ("model", "models")]
    named = [each for value in values for each in (value if isinstance(value, list) else [value])]
    return [model, *(str(each) for each in named if each != model)]


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
