"""Token usage read from answers in the documented form of each wire format."""

from __future__ import annotations

import json
from typing import Any

import pytest

from runners.gateway.wire import FORMATS, AnswerReader, Usage

MESSAGES = {
    "model": "claude-x",
    "stop_reason": "tool_use",
    "usage": {
        "input_tokens": 100,
        "cache_read_input_tokens": 900,
        "cache_creation_input_tokens": 50,
        "output_tokens": 30,
    },
}
RESPONSES = {
    "model": "gpt-x",
    "status": "completed",
    "usage": {
        "input_tokens": 1000,
        "input_tokens_details": {"cached_tokens": 800},
        "output_tokens": 70,
        "output_tokens_details": {"reasoning_tokens": 40},
    },
}
CHAT = {
    "model": "local",
    "choices": [{"finish_reason": "stop"}],
    "usage": {
        "prompt_tokens": 11,
        "completion_tokens": 7,
        "prompt_tokens_details": {"cached_tokens": 4},
        "completion_tokens_details": {"reasoning_tokens": 2},
    },
}
GEMINI = {
    "modelVersion": "gemini-x",
    "candidates": [{"finishReason": "STOP"}],
    "usageMetadata": {
        "promptTokenCount": 20,
        "cachedContentTokenCount": 5,
        "candidatesTokenCount": 6,
        "thoughtsTokenCount": 3,
    },
}
WHOLE: list[tuple[str, dict[str, Any], Usage, str, str]] = [
    ("messages", MESSAGES, Usage(1050, 30, 900, 50), "claude-x", "tool_use"),
    ("responses", RESPONSES, Usage(1000, 70, 800, 0, 40), "gpt-x", "completed"),
    ("chat-completions", CHAT, Usage(11, 7, 4, 0, 2), "local", "stop"),
    ("generate-content", GEMINI, Usage(20, 9, 5, 0, 3), "gemini-x", "STOP"),
]
START = {"type": "message_start", "message": {**MESSAGES, "stop_reason": None}}
DELTA = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}
STREAMS: list[tuple[str, list[dict[str, Any]], Usage, str]] = [
    (
        "messages",
        [START, {**DELTA, "usage": {"output_tokens": 44}}],
        Usage(1050, 44, 900, 50),
        "end_turn",
    ),
    (
        "responses",
        [
            {"type": "response.created", "response": {"model": "gpt-x"}},
            {"type": "response.completed", "response": RESPONSES},
        ],
        Usage(1000, 70, 800, 0, 40),
        "completed",
    ),
    (
        "chat-completions",
        [
            {"model": "local", "choices": [{"delta": {}, "finish_reason": "stop"}]},
            {"choices": [], "usage": CHAT["usage"]},
        ],
        Usage(11, 7, 4, 0, 2),
        "stop",
    ),
    ("generate-content", [{"candidates": []}, GEMINI], Usage(20, 9, 5, 0, 3), "STOP"),
]


@pytest.mark.parametrize(("wire", "body", "usage", "model", "stop"), WHOLE)
def test_reader_of_a_whole_answer_returns_usage_model_and_stop_reason(
    wire: str, body: dict[str, Any], usage: Usage, model: str, stop: str
) -> None:
    reader = AnswerReader(FORMATS[wire], streamed=False)
    text = json.dumps(body).encode()
    reader.feed(text[:10])
    reader.feed(text[10:])
    found = reader.end()
    assert (found.usage, found.model, found.stop_reason) == (usage, model, stop)


@pytest.mark.parametrize(("wire", "events", "usage", "stop"), STREAMS)
@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_reader_of_a_stream_returns_usage_however_it_is_cut(
    wire: str, events: list[dict[str, Any]], usage: Usage, stop: str, size: int
) -> None:
    reader = AnswerReader(FORMATS[wire], streamed=True)
    text = b"".join(b"event: x\r\ndata: " + json.dumps(e).encode() + b"\r\n\r\n" for e in events)
    text += b"data: [DONE]\n\n"
    for first in range(0, len(text), size):
        reader.feed(text[first : first + size])
    found = reader.end()
    assert (found.usage, found.stop_reason, reader.malformed) == (usage, stop, False)


@pytest.mark.parametrize(
    "usage", [{"input_tokens": -1}, {"input_tokens": "7"}, {"input_tokens": True}, []]
)
def test_reader_of_malformed_usage_counts_nothing(usage: Any) -> None:
    reader = AnswerReader(FORMATS["messages"], streamed=False)
    reader.feed(json.dumps({"usage": usage}).encode())
    assert reader.end().usage in (None, Usage())


@pytest.mark.parametrize(
    ("wire", "method", "path", "allowed"),
    [
        ("messages", "POST", "/v1/messages", True),
        ("messages", "POST", "/v1/messages/count_tokens", True),
        ("messages", "GET", "/v1/models/claude-x", True),
        ("messages", "POST", "/v1/messages/batches", False),
        ("messages", "DELETE", "/v1/models/claude-x", False),
        ("responses", "POST", "/v1/responses", True),
        ("responses", "GET", "/v1/responses/resp_1", False),
        ("chat-completions", "POST", "/v1/chat/completions", True),
        ("chat-completions", "POST", "/v1/files", False),
        ("generate-content", "POST", "/v1beta/models/g-2.5:streamGenerateContent", True),
        ("generate-content", "POST", "/v1beta/cachedContents", False),
        ("messages", "POST", "/v1/messages/../files", False),
        ("messages", "POST", "/v1/models", False),
        ("messages", "POST", "/v1/models/claude-x", False),
        ("messages", "GET", "/v1/messages/count_tokens", False),
        ("messages", "GET", "/v1/models/../files", False),
        ("messages", "GET", "/v1/models/./claude-x", False),
        ("chat-completions", "GET", "/v1/models/author/m-1:free/endpoints", True),
        ("chat-completions", "GET", "/v1/models/author/..", False),
        ("chat-completions", "GET", "/v1/models/author/...", True),
        ("responses", "POST", "/v1/responses/input_tokens", True),
        ("generate-content", "POST", "/v1beta/models/g-2.5:countTokens", True),
        ("generate-content", "GET", "/v1beta/models/g-2.5:countTokens", False),
        ("generate-content", "POST", "/v1beta/models/g-2.5", False),
        ("generate-content", "GET", "/v1beta/models/..", False),
    ],
)
def test_format_allows_model_endpoints_only(
    wire: str, method: str, path: str, allowed: bool
) -> None:
    assert (FORMATS[wire].endpoint(method, path) is not None) is allowed
