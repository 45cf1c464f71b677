"""Wire formats of model APIs: paths, credentials, token usage and error bodies.

Sources: the API references of Anthropic (Messages), OpenAI (Responses, Chat Completions) and
Google (generateContent), read in 2026.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import unquote


@dataclass(frozen=True)
class Usage:
    """Tokens of one model call.

    `input_tokens` includes those read from and written to the provider's cache; `output_tokens`
    includes those of reasoning.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0

    @property
    def total(self) -> int:
        return self.input_tokens + self.output_tokens


@dataclass(frozen=True)
class Reading:
    """Facts of an answer, as far as it has been read."""

    usage: Usage | None = None
    model: str = ""
    stop_reason: str = ""
    begun: bool = False
    """True where its usage is that of the beginning of a stream, which has the input alone."""

    @property
    def names_usage(self) -> bool:
        """True where it states the usage of all that was read; zero tokens state none."""
        return self.usage is not None and self.usage.total > 0 and not self.begun


_GOOGLE_STATUSES = {403: "PERMISSION_DENIED", 429: "RESOURCE_EXHAUSTED"}

Reader = Callable[[Reading, Mapping[str, Any]], Reading]


@dataclass(frozen=True)
class Endpoint:
    """An endpoint that a request may use."""

    path: str
    """Path below a provider's base URL, without the version; safe in a URL as it is."""
    runs_model: bool
    """True where it runs a model; the others cost nothing."""


@dataclass(frozen=True)
class WireFormat:
    """One format: which requests it has, how they carry the key, and how answers are read."""

    name: str
    model_call: re.Pattern[str]
    """Paths that run a model. Each pattern has the path below the version as its group `path`."""
    model_list: re.Pattern[str]
    read: Reader
    """Adds what one JSON object of an answer, whole or a stream's event, says."""
    output_limits: tuple[str, ...]
    """Fields of a request that limit the tokens of its output."""
    token_count: re.Pattern[str] | None = None
    key_header: str = "authorization"
    key_prefix: str = "Bearer "

    def endpoint(self, method: str, path: str) -> Endpoint | None:
        """Return the endpoint of a request; None for one that is not allowed.

        `path` is decoded. One with a segment `.` or `..`, encoded or not, is never allowed: it
        would leave the endpoint that it seems to name.
        """
        if _has_dot_segment(path):
            return None
        patterns = {"POST": (self.model_call, self.token_count), "GET": (self.model_list,)}
        for pattern in patterns.get(method, ()):
            if pattern and (found := pattern.fullmatch(path)):
                return Endpoint(found["path"], runs_model=pattern is self.model_call)
        return None

    def error(self, status: int, kind: str, message: str) -> bytes:
        """Return an error body as this format's provider writes it."""
        body: dict[str, Any] = {"error": {"message": message, "type": kind, "code": kind}}
        if self.name == "messages":
            body = {"type": "error", "error": {"type": kind, "message": message}}
        elif self.name == "generate-content":
            reason = _GOOGLE_STATUSES.get(status, "FAILED_PRECONDITION")
            body = {"error": {"code": status, "message": message, "status": reason}}
        return json.dumps(body).encode()


def _has_dot_segment(path: str) -> bool:
    while (decoded := unquote(path)) != path:
        path = decoded
    return any(segment in (".", "..") for segment in re.split(r"[/\\]", path))


def _read_messages(reading: Reading, data: Mapping[str, Any]) -> Reading:
    message = data.get("message") if data.get("type") == "message_start" else data
    if not isinstance(message, Mapping):
        return reading
    delta = data.get("delta")
    stop = (delta if isinstance(delta, Mapping) else message).get("stop_reason")
    reading = _with(reading, message.get("model"), stop)
    usage = message.get("usage")
    if not isinstance(usage, Mapping):
        return reading
    before = reading.usage or Usage()
    read = _count(usage, "cache_read_input_tokens", before.cached_tokens)
    written = _count(usage, "cache_creation_input_tokens", before.cache_write_tokens)
    fresh = before.input_tokens - before.cached_tokens - before.cache_write_tokens
    details = usage.get("output_tokens_details")
    return replace(
        reading,
        begun=data.get("type") == "message_start",
        usage=Usage(
            input_tokens=_count(usage, "input_tokens", fresh) + read + written,
            output_tokens=_count(usage, "output_tokens", before.output_tokens),
            cached_tokens=read,
            cache_write_tokens=written,
            reasoning_tokens=_count(details, "thinking_tokens", before.reasoning_tokens),
        ),
    )


def _read_responses(reading: Reading, data: Mapping[str, Any]) -> Reading:
    response = data.get("response", data)
    if not isinstance(response, Mapping):
        return reading
    incomplete = response.get("incomplete_details")
    stop = incomplete.get("reason") if isinstance(incomplete, Mapping) else response.get("status")
    reading = _with(reading, response.get("model"), stop)
    usage = response.get("usage")
    if not isinstance(usage, Mapping):
        return reading
    inputs, outputs = usage.get("input_tokens_details"), usage.get("output_tokens_details")
    return replace(
        reading,
        usage=Usage(
            input_tokens=_count(usage, "input_tokens"),
            output_tokens=_count(usage, "output_tokens"),
            cached_tokens=_count(inputs, "cached_tokens"),
            cache_write_tokens=_count(inputs, "cache_write_tokens"),
            reasoning_tokens=_count(outputs, "reasoning_tokens"),
        ),
    )


def _read_chat(reading: Reading, data: Mapping[str, Any]) -> Reading:
    choices = data.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else {}
    stop = first.get("finish_reason") if isinstance(first, Mapping) else None
    reading = _with(reading, data.get("model"), stop)
    usage = data.get("usage")
    if not isinstance(usage, Mapping):
        return reading
    inputs, outputs = usage.get("prompt_tokens_details"), usage.get("completion_tokens_details")
    return replace(
        reading,
        usage=Usage(
            input_tokens=_count(usage, "prompt_tokens"),
            output_tokens=_count(usage, "completion_tokens"),
            cached_tokens=_count(inputs, "cached_tokens"),
            reasoning_tokens=_count(outputs, "reasoning_tokens"),
        ),
    )


def _read_generate_content(reading: Reading, data: Mapping[str, Any]) -> Reading:
    candidates = data.get("candidates")
    first = candidates[0] if isinstance(candidates, list) and candidates else {}
    stop = first.get("finishReason") if isinstance(first, Mapping) else None
    reading = _with(reading, data.get("modelVersion"), stop)
    usage = data.get("usageMetadata")
    if not isinstance(usage, Mapping):
        return reading
    thoughts = _count(usage, "thoughtsTokenCount")
    return replace(
        reading,
        usage=Usage(
            input_tokens=_count(usage, "promptTokenCount"),
            output_tokens=_count(usage, "candidatesTokenCount") + thoughts,
            cached_tokens=_count(usage, "cachedContentTokenCount"),
            reasoning_tokens=thoughts,
        ),
    )


def _with(reading: Reading, model: Any, stop_reason: Any) -> Reading:
    return replace(
        reading,
        model=model if isinstance(model, str) else reading.model,
        stop_reason=stop_reason if isinstance(stop_reason, str) else reading.stop_reason,
    )


def _count(usage: Any, name: str, default: int = 0) -> int:
    """Return a count of tokens; one with decimals, which some proxies write, is rounded up."""
    value = usage.get(name) if isinstance(usage, Mapping) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return default
    return math.ceil(value) if 0 <= value < math.inf else default


def _pattern(path: str, version: str = "v1") -> re.Pattern[str]:
    return re.compile(rf"/{version}(?P<path>{path})", re.ASCII)


MODELS = _pattern(r"/models(/[\w.:/-]+)?")
FORMATS = {
    wire.name: wire
    for wire in (
        WireFormat(
            "messages",
            _pattern("/messages"),
            MODELS,
            _read_messages,
            ("max_tokens",),
            token_count=_pattern("/messages/count_tokens"),
            key_header="x-api-key",
            key_prefix="",
        ),
        WireFormat(
            "responses",
            _pattern("/responses"),
            MODELS,
            _read_responses,
            ("max_output_tokens",),
            token_count=_pattern("/responses/input_tokens"),
        ),
        WireFormat(
            "chat-completions",
            _pattern("/chat/completions"),
            MODELS,
            _read_chat,
            ("max_tokens", "max_completion_tokens"),
        ),
        WireFormat(
            "generate-content",
            _pattern(r"/models/[\w.-]+:(generateContent|streamGenerateContent)", "v1(beta)?"),
            _pattern(r"/models(/[\w.-]+)?", "v1(beta)?"),
            _read_generate_content,
            ("maxOutputTokens", "max_output_tokens"),
            token_count=_pattern(r"/models/[\w.-]+:countTokens", "v1(beta)?"),
            key_header="x-goog-api-key",
            key_prefix="",
        ),
    )
}
"""By name. The paths begin with `/v1`, which a provider's base URL stands for."""


class AnswerReader:
    """Reads model, usage and stop reason out of an answer's bytes as they pass.

    A body that is not JSON, or a stream that is cut, leaves what was read until then.
    """

    MAX_BODY_BYTES = 64 << 20

    def __init__(self, wire: WireFormat, streamed: bool) -> None:
        self.reading = Reading()
        self.malformed = False
        """Whether some of it was not JSON."""
        self.records = 0
        """Records of a stream that were read."""
        self._wire = wire
        self._streamed = streamed
        self._rest = b""

    def feed(self, data: bytes) -> None:
        self._rest += data
        if self._streamed:
            *lines, self._rest = self._rest.split(b"\n")
            self._read(line[5:] for line in lines if line.startswith(b"data:"))
        if len(self._rest) > self.MAX_BODY_BYTES:
            self._rest, self.malformed = b"", True

    def end(self) -> Reading:
        """Read what is left, and return what the whole answer says."""
        if rest := self._rest.strip():
            self._read([rest.removeprefix(b"data:")])
        return self.reading

    def _read(self, texts: Iterable[bytes]) -> None:
        for data in self._parsed(texts):
            self.reading = self._wire.read(self.reading, data)

    def _parsed(self, texts: Iterable[bytes]) -> Iterator[Mapping[str, Any]]:
        for text in texts:
            if text.strip() == b"[DONE]":
                continue
            try:
                data = json.loads(text)
            except (ValueError, RecursionError):
                self.malformed = True
                continue
            self.records += 1
            if isinstance(data, Mapping):
                yield data
            elif isinstance(data, list):  # a stream of generateContent without alt=sse
                yield from (each for each in data if isinstance(each, Mapping))
