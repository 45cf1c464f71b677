"""Answers in the documented form of each provider, with their cost computed by hand.

Sources: the API references of Anthropic (Messages, prompt caching), OpenAI (Responses, Chat
Completions) and Google (UsageMetadata), and their price lists, read in 2026.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from runners.gateway.providers import load
from runners.gateway.wire import Usage


@dataclass(frozen=True)
class Answer:
    """An answer, and its cost in dollars by the provider's price list."""

    provider: str
    wire: str
    model: str
    path: str
    body: bytes
    content_type: str
    dollars: float
    by_hand: str
    """The computation: tokens times dollars per million tokens."""

    def cost(self, usage: Mapping[str, Any]) -> float | None:
        """Return the cost of the usage that a gateway read, by the prices of the provider."""
        return load()[self.provider].cost_usd(self.model, Usage(**usage))


def _sse(*events: Mapping[str, Any], named: bool = True) -> bytes:
    return b"".join(
        (f"event: {event['type']}\n" if named else "").encode()
        + f"data: {json.dumps(event)}\n\n".encode()
        for event in events
    )


def _json(data: Mapping[str, Any]) -> bytes:
    return json.dumps(data).encode()


STREAM, WHOLE = "text/event-stream", "application/json"
ANSWERS = (
    Answer(
        "anthropic",
        "messages",
        "claude-sonnet-4-5",
        "/v1/messages",
        _sse(
            {
                "type": "message_start",
                "message": {
                    "id": "msg_1", "type": "message", "role": "assistant",
                    "model": "claude-sonnet-4-5", "content": [], "stop_reason": None,
                    "usage": {
                        "input_tokens": 2095, "cache_creation_input_tokens": 1024,
                        "cache_read_input_tokens": 8192, "output_tokens": 1,
                    },
                },
            },
            {
                "type": "content_block_start", "index": 0,
                "content_block": {"type": "text", "text": ""},
            },
            {
                "type": "content_block_delta", "index": 0,
                "delta": {"type": "text_delta", "text": "Hello"},
            },
            {"type": "content_block_stop", "index": 0},
            {
                "type": "message_delta", "delta": {"stop_reason": "end_turn"},
                "usage": {"output_tokens": 503},
            },
            {"type": "message_stop"},
        ),
        STREAM,
        (2095 * 3 + 1024 * 3.75 + 8192 * 0.30 + 503 * 15) / 1e6,
        "2095 x 3 + 1024 written to the cache x 3.75 + 8192 read from it x 0.30 + 503 x 15",
    ),
    Answer(
        "openai",
        "responses",
        "gpt-5",
        "/v1/responses",
        _sse(
            {
                "type": "response.created",
                "response": {"id": "resp_1", "status": "in_progress", "model": "gpt-5"},
            },
            {
                "type": "response.completed",
                "response": {
                    "id": "resp_1", "status": "completed", "model": "gpt-5", "output": [],
                    "usage": {
                        "input_tokens": 14000,
                        "input_tokens_details": {"cached_tokens": 12800},
                        "output_tokens": 850,
                        "output_tokens_details": {"reasoning_tokens": 640},
                        "total_tokens": 14850,
                    },
                },
            },
        ),
        STREAM,
        (1200 * 1.25 + 12800 * 0.125 + 850 * 10) / 1e6,
        "1200 x 1.25 + 12800 cached x 0.125 + 850 with reasoning x 10",
    ),
    Answer(
        "openai",
        "chat-completions",
        "gpt-5-mini",
        "/v1/chat/completions",
        _json(
            {
                "id": "chatcmpl-1", "object": "chat.completion", "model": "gpt-5-mini",
                "choices": [
                    {
                        "index": 0, "finish_reason": "stop",
                        "message": {"role": "assistant", "content": "Hello"},
                    }
                ],
                "usage": {
                    "prompt_tokens": 2006, "completion_tokens": 300, "total_tokens": 2306,
                    "prompt_tokens_details": {"cached_tokens": 1920, "audio_tokens": 0},
                    "completion_tokens_details": {"reasoning_tokens": 0},
                },
            }
        ),
        WHOLE,
        (86 * 0.25 + 1920 * 0.025 + 300 * 2) / 1e6,
        "86 x 0.25 + 1920 cached x 0.025 + 300 x 2",
    ),
    Answer(
        "google",
        "generate-content",
        "gemini-2.5-pro",
        "/v1beta/models/gemini-2.5-pro:streamGenerateContent",
        _sse(
            {
                "candidates": [{"content": {"role": "model", "parts": [{"text": "Hello"}]}}],
                "usageMetadata": {"promptTokenCount": 9000, "totalTokenCount": 9000},
                "modelVersion": "gemini-2.5-pro",
            },
            {
                "candidates": [
                    {
                        "content": {"role": "model", "parts": [{"text": "."}]},
                        "finishReason": "STOP",
                    }
                ],
                "usageMetadata": {
                    "promptTokenCount": 9000, "cachedContentTokenCount": 4096,
                    "candidatesTokenCount": 200, "thoughtsTokenCount": 500,
                    "totalTokenCount": 9700,
                },
                "modelVersion": "gemini-2.5-pro",
            },
            named=False,
        ),
        STREAM,
        (4904 * 1.25 + 4096 * 0.125 + 700 * 10) / 1e6,
        "4904 x 1.25 + 4096 cached x 0.125 + (200 + 500 of thoughts) x 10",
    ),
    Answer(
        "local",
        "chat-completions",
        "qwen3-coder",
        "/v1/chat/completions",
        _json(
            {
                "id": "chatcmpl-2", "object": "chat.completion", "model": "qwen3-coder",
                "choices": [
                    {
                        "index": 0, "finish_reason": "stop",
                        "message": {"role": "assistant", "content": "Hello"},
                    }
                ],
                "usage": {"prompt_tokens": 700, "completion_tokens": 40, "total_tokens": 740},
            }
        ),
        WHOLE,
        0.0,
        "a model of one's own costs nothing",
    ),
)  # fmt: skip
