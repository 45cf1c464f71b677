"""Parts of a request that reach the provider, and charges for answers without usage."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from aiohttp import web

from tests.runners.gateway.test_server import KEY, TOKEN, Bench, bench, sse

CHAT = {"model": "m-1", "messages": [], "max_tokens": 3000}


async def without_usage(_request: web.Request, _b: Bench) -> web.StreamResponse:
    return web.json_response(
        {"choices": [{"message": {"content": "Hi."}, "finish_reason": "stop"}]}
    )


async def stream_without_usage(request: web.Request, _b: Bench) -> web.StreamResponse:
    response = web.StreamResponse(headers={"content-type": "text/event-stream"})
    await response.prepare(request)
    await response.write(sse({"choices": [{"delta": {"content": "Hi."}, "finish_reason": "stop"}]}))
    return response


async def cut_answer(request: web.Request, _b: Bench) -> web.StreamResponse:
    response = web.StreamResponse(headers={"content-type": "text/event-stream"})
    await response.prepare(request)
    await response.write(sse({"choices": [{"delta": {"content": "Hi."}}]}))
    assert request.transport
    request.transport.abort()
    return response


@pytest.mark.parametrize("limit", [{"max_tokens": 8000}, {"max_usd": 0.015}])
@pytest.mark.parametrize("answer", [without_usage, stream_without_usage])
def test_answers_without_usage_spend_the_budget(answer: Any, limit: dict[str, Any]) -> None:
    async def case() -> None:
        async with bench(answer, limit) as b:
            body = CHAT | {"stream": answer is stream_without_usage}
            statuses = [(await b.post("/v1/chat/completions", body))[0] for _ in range(6)]
            assert statuses == [200, 200, 200, 429, 429, 429]
            assert [call["estimated"] for call in b.of("model_call")] == [True] * 3
            assert len(b.of("no_usage")) == 1
            assert all(call["usage"]["output_tokens"] == 3000 for call in b.of("model_call"))

    asyncio.run(case())


def test_cut_answer_is_charged_its_upper_bound() -> None:
    async def case() -> None:
        async with bench(cut_answer, {"max_tokens": 8000}) as b:
            with pytest.raises(Exception, match=r"closed|payload|reset"):
                await b.post("/v1/chat/completions", CHAT | {"stream": True})
            (call,) = b.of("model_call")
            assert call["estimated"] and call["usage"]["output_tokens"] == 3000
            assert call["error"].startswith("the answer was cut")

    asyncio.run(case())


def test_error_of_the_provider_costs_nothing() -> None:
    async def refuse(_request: web.Request, _b: Bench) -> web.StreamResponse:
        return web.json_response({"error": {"message": "too long"}}, status=400)

    async def case() -> None:
        async with bench(refuse) as b:
            assert (await b.post("/v1/chat/completions", CHAT))[0] == 400
            (call,) = b.of("model_call")
            assert call["usage"] is None and not call["estimated"]

    asyncio.run(case())


def test_query_and_headers_that_are_not_listed_do_not_reach_the_provider() -> None:
    async def case() -> None:
        async with bench() as b:
            url = f"{b.url}/v1beta/models/m-1:generateContent"
            query = {"alt": "sse", "fields": "candidates", "key": TOKEN, "quotaUser": "x"}
            headers = {
                "OpenAI-Project": "p", "api-key": "k", "X-Goog-User-Project": "q", "Cookie": "c",
                "Anthropic-Version": "2023-06-01", "User-Agent": "cli/1",
                "Anthropic-Beta": "claude-code-20250219, files-api-2025-04-14,effort-2025-11-24",
            }  # fmt: skip
            async with b.client.post(url, params=query, json={}, headers=headers) as answer:
                await answer.read()
            ((request, _),) = b.requests
            assert dict(request.query) == {"alt": "sse"}
            sent = {name.lower(): value for name, value in request.headers.items()}
            assert sent["anthropic-beta"] == "claude-code-20250219,effort-2025-11-24"
            assert sent["x-goog-api-key"] == KEY and sent["user-agent"] == "cli/1"
            assert sent["anthropic-version"] == "2023-06-01"
            assert sent.keys() <= {
                "host", "accept", "accept-encoding", "user-agent", "content-type", "content-length",
                "anthropic-version", "anthropic-beta", "x-goog-api-key",
            }  # fmt: skip

    asyncio.run(case())


@pytest.mark.parametrize(
    "field",
    [
        {"background": True},
        {"store": True},
        {"conversation": "conv_1"},
        {"conversation": {"id": "conv_1"}},
        {"previous_response_id": "resp_1"},
        {"prompt": {"id": "pmpt_1"}},
        {"cachedContent": "cachedContents/1"},
    ],
)
def test_request_that_keeps_state_at_the_provider_is_refused(field: dict[str, Any]) -> None:
    async def case() -> None:
        async with bench() as b:
            status, body = await b.post("/v1/responses", {"model": "m-1", "input": "hi", **field})
            assert (status, b.requests) == (400, [])
            (name,) = field
            assert f"{name}" in json.loads(body)["error"]["message"]
            assert len(b.of("refused")) == 1 and not b.of("model_call")

    asyncio.run(case())


def test_request_that_keeps_nothing_passes() -> None:
    async def case() -> None:
        async with bench() as b:
            body = {"model": "m-1", "store": False, "background": False, "conversation": None}
            assert (await b.post("/v1/responses", body))[0] == 200

    asyncio.run(case())


INSIDE = "http://169.254.169.254/latest/meta-data"


@pytest.mark.parametrize(
    ("path", "part"),
    [
        ("/v1/messages", {"type": "image", "source": {"type": "url", "url": INSIDE}}),
        ("/v1/messages", {"type": "document", "source": {"type": "url", "url": INSIDE}}),
        ("/v1/messages/count_tokens", {"type": "image", "source": {"type": "url", "url": INSIDE}}),
        (
            "/v1/messages",
            {"type": "tool_result", "content": [{"source": {"type": "url", "url": INSIDE}}]},
        ),
        ("/v1/chat/completions", {"type": "image_url", "image_url": {"url": INSIDE}}),
        ("/v1/chat/completions", {"type": "image_url", "image_url": INSIDE}),
        ("/v1/chat/completions", {"type": "video_url", "video_url": {"url": "file:///etc/passwd"}}),
        ("/v1/responses", {"type": "input_image", "image_url": INSIDE}),
        ("/v1/responses", {"type": "input_file", "file_url": INSIDE}),
        ("/v1beta/models/m-1:generateContent", {"fileData": {"fileUri": INSIDE}}),
        ("/v1beta/models/m-1:generateContent", {"file_data": {"file_uri": INSIDE}}),
    ],
)
def test_request_that_lets_the_provider_read_an_address_is_refused(
    path: str, part: dict[str, Any]
) -> None:
    async def case() -> None:
        async with bench() as b:
            message = {"role": "user", "content": [part], "parts": [part]}
            named = {name: [message] for name in ("messages", "input", "contents")}
            status, body = await b.post(path, {"model": "m-1", **named})
            assert (status, b.requests) == (400, [])
            assert "has no network" in json.loads(body)["error"]["message"]

    asyncio.run(case())


def test_request_with_pictures_and_with_addresses_as_text_passes() -> None:
    async def case() -> None:
        async with bench() as b:
            picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBOR"}}
            asked = {"type": "tool_use", "name": "fetch", "input": {"type": "url", "url": INSIDE}}
            told = {"type": "text", "text": json.dumps({"image_url": INSIDE})}
            message = {"role": "user", "content": [picture, asked, told]}
            url = {"type": "object", "properties": {"image_url": {"type": "string"}}}
            tools = [{"name": "fetch", "input_schema": url}]
            body = {"model": "m-1", "messages": [message], "tools": tools}
            assert (await b.post("/v1/messages", body))[0] == 200

    asyncio.run(case())
