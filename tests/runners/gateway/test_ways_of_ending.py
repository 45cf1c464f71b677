"""Cost of a call in each way that it can end, in each wire format: known, or bounded."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from runners.gateway.call import HUNG_UP
from tests.runners.gateway.test_server import TOKEN, Bench, Handler, bench, sse
from tests.waiting import until_async

INPUT, OUTPUT, LIMIT = 10, 5, 3000


@dataclass(frozen=True)
class Format:
    """A wire format: a request, and the parts of a stream that answers it."""

    path: str
    body: dict[str, Any]
    text: dict[str, Any]
    stop: dict[str, Any]
    usage: dict[str, Any]
    decimals: dict[str, Any]
    """Usage whose counts have decimals, as some proxies write them."""
    zero: dict[str, Any]


def messages(counts: dict[str, Any]) -> dict[str, Any]:
    return {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": counts}


def responses(counts: dict[str, Any]) -> dict[str, Any]:
    return {"response": {"model": "m-1", "status": "completed", "usage": counts}}


def generated(counts: dict[str, Any]) -> dict[str, Any]:
    return {"usageMetadata": counts, "candidates": [{"finishReason": "STOP"}]}


def chat(counts: dict[str, Any]) -> dict[str, Any]:
    return {"choices": [], "usage": counts}


FORMATS = {
    "messages": Format(
        "/v1/messages",
        {"model": "m-1", "max_tokens": LIMIT, "stream": True},
        {"type": "message_start", "message": {"model": "m-1", "usage": {"output_tokens": 1}}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
        messages({"input_tokens": INPUT, "output_tokens": OUTPUT}),
        messages({"input_tokens": 9.5, "output_tokens": 4.2}),
        messages({"input_tokens": 0, "output_tokens": 0}),
    ),
    "responses": Format(
        "/v1/responses",
        {"model": "m-1", "max_output_tokens": LIMIT, "stream": True},
        {"type": "response.output_text.delta", "delta": "Hi."},
        {"response": {"model": "m-1", "status": "completed"}},
        responses({"input_tokens": INPUT, "output_tokens": OUTPUT}),
        responses({"input_tokens": 9.5, "output_tokens": 4.2}),
        responses({}),
    ),
    "chat": Format(
        "/v1/chat/completions",
        {"model": "m-1", "max_tokens": LIMIT, "stream": True},
        {"model": "m-1", "choices": [{"delta": {"content": "Hi."}}]},
        {"choices": [{"delta": {}, "finish_reason": "stop"}]},
        chat({"prompt_tokens": INPUT, "completion_tokens": OUTPUT}),
        chat({"prompt_tokens": 9.5, "completion_tokens": 4.2}),
        chat({"prompt_tokens": 0, "completion_tokens": 0}),
    ),
    "generate-content": Format(
        "/v1beta/models/m-1:streamGenerateContent",
        {"generationConfig": {"maxOutputTokens": LIMIT}},
        {"modelVersion": "m-1", "candidates": [{"content": {"parts": [{"text": "Hi."}]}}]},
        {"candidates": [{"finishReason": "STOP"}]},
        generated({"promptTokenCount": INPUT, "candidatesTokenCount": OUTPUT}),
        generated({"promptTokenCount": 9.5, "candidatesTokenCount": 4.2}),
        generated({"promptTokenCount": 0}),
    ),
}
WAYS = (
    "finished", "decimals", "no usage", "zero usage", "cut", "hung up", "time up", "retried",
)  # fmt: skip


def provider(form: Format, way: str) -> Handler:
    """Return a provider whose answers end in this way."""
    stop = {"no usage": [form.stop], "zero usage": [form.stop, form.zero]}
    pieces = [form.text, *stop.get(way, [form.stop, form.usage])]
    if way == "decimals":
        pieces = [form.text, form.stop, form.decimals]

    async def answer(request: web.Request, b: Bench) -> web.StreamResponse:
        if way == "retried" and len(b.requests) == 1:
            return web.Response(status=503)
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        await response.write(sse(pieces[0]))
        if way == "time up":
            await asyncio.Event().wait()
        if way == "hung up":
            await b.left()
        if way == "cut":
            assert request.transport
            request.transport.abort()
            return response
        await response.write(sse(*pieces[1:]))
        return response

    return answer


async def call(b: Bench, form: Format, way: str) -> int:
    """Make one call that ends in this way; return its status."""
    headers = {"x-api-key": TOKEN}
    async with b.client.post(b.url + form.path, json=form.body, headers=headers) as answer:
        if way in ("hung up", "time up"):
            await answer.content.readany()
            answer.close()
        elif way == "cut":
            with pytest.raises(aiohttp.ClientError):
                await answer.read()
        else:
            await answer.read()
        return answer.status


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", FORMATS)
def test_cost_is_known_or_bounded(name: str, way: str) -> None:
    async def case() -> None:
        form = FORMATS[name]
        async with bench(provider(form, way)) as b:
            assert await call(b, form, way) == 200
            if way != "time up":
                await until_async(lambda: b.of("model_call"), lambda: b.reports)
        (found,) = b.of("model_call")
        bounded = way in ("no usage", "zero usage", "cut", "time up")
        assert found["estimated"] == bounded
        if bounded:
            assert found["usage"]["output_tokens"] == LIMIT
            assert found["usage"]["input_tokens"] > 0
        else:
            assert (found["usage"]["input_tokens"], found["usage"]["output_tokens"]) == (10, 5)
        usage = found["usage"]
        price = (usage["input_tokens"] + 2 * usage["output_tokens"]) / 1e6
        assert found["cost_usd"] == pytest.approx(price)
        assert b.gateway.budget.used.tokens == usage["input_tokens"] + usage["output_tokens"]
        if way in ("hung up", "time up"):
            assert found["error"] == HUNG_UP

    asyncio.run(case())


@pytest.mark.parametrize("limit", [{"max_tokens": LIMIT}, {"max_usd": 2 * LIMIT / 1e6}])
@pytest.mark.parametrize("way", ["no usage", "zero usage", "cut"])
@pytest.mark.parametrize("name", FORMATS)
def test_budget_holds_where_usage_is_not_known(name: str, way: str, limit: dict[str, Any]) -> None:
    async def case() -> None:
        form = FORMATS[name]
        async with bench(provider(form, way), limit) as b:
            assert await call(b, form, way) == 200
            assert (await b.post(form.path, form.body))[0] == 429
            assert len(b.requests) == 1

    asyncio.run(case())


def test_call_is_priced_and_named_by_the_model_that_answered() -> None:
    async def other(_request: web.Request, _b: Bench) -> web.StreamResponse:
        usage = {"prompt_tokens": 10, "completion_tokens": 5}
        choices = [{"message": {"content": "Hi."}, "finish_reason": "stop"}]
        return web.json_response({"model": "big", "choices": choices, "usage": usage})

    async def case() -> None:
        prices = {"m-*": {"input": 1, "output": 2}, "big": {"input": 100, "output": 200}}
        async with bench(other, prices=prices) as b:
            assert (await b.post("/v1/chat/completions", {"model": "m-1"}))[0] == 200
            (found,) = b.of("model_call")
            assert (found["model"], found["requested_model"]) == ("big", "m-1")
            assert found["cost_usd"] == pytest.approx(2000e-6)

    asyncio.run(case())


CHAT, RESPONSES, MESSAGES = (FORMATS[name].path for name in ("chat", "responses", "messages"))
GENERATE = "/v1beta/models/m-1:generateContent"


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (CHAT, {"fallbacks": ["m-2"]}),
        (CHAT, {"Fallbacks": ["m-2"]}),
        (CHAT, {"context_window_fallbacks": {"m-1": ["m-2"]}}),
        (CHAT, {"content_policy_fallbacks": [{"m-1": ["m-2"]}]}),
        (CHAT, {"api_base": "http://203.0.113.7"}),
        (CHAT, {"provider": {"order": ["dear"]}}),
        (CHAT, {"service_tier": "priority"}),
        (CHAT, {"web_search_options": {}}),
        (CHAT, {"plugins": [{"id": "web"}]}),
        (CHAT, {"search_parameters": {"mode": "on"}}),
        (CHAT, {"enable_search": True}),
        (CHAT, {"tools": [{"type": "web_search"}]}),
        (CHAT, {"tools": [{"googleSearch": {}}]}),
        (CHAT, {"tools": [{"type": "function", "function": {}}, {"type": "code_interpreter"}]}),
        (RESPONSES, {"tools": [{"type": "mcp", "server_url": "https://203.0.113.7"}]}),
        (RESPONSES, {"tools": [{"type": "namespace", "tools": [{"type": "web_search"}]}]}),
        (MESSAGES, {"tools": [{"type": "web_search_20250305", "name": "web_search"}]}),
        (MESSAGES, {"tools": [{"type": "web_fetch_20250910", "name": "web_fetch"}]}),
        (MESSAGES, {"tools": [{"type": "code_execution_20250825", "name": "code_execution"}]}),
        (MESSAGES, {"mcp_servers": [{"type": "url", "url": "https://203.0.113.7"}]}),
        (GENERATE, {"tools": [{"googleSearch": {}}]}),
        (GENERATE, {"tools": [{"url_context": {}}]}),
        (GENERATE, {"tools": {"codeExecution": {}}}),
    ],
)
def test_other_models_and_tools_of_the_provider_are_refused(
    path: str, body: dict[str, Any]
) -> None:
    async def case() -> None:
        async with bench() as b:
            status, _ = await b.post(path, {"model": "m-1", **body})
            assert (status, b.requests) == (400, [])
            assert len(b.of("refused")) == 1

    asyncio.run(case())


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (CHAT, {"tools": [{"type": "function", "function": {"name": "shell"}}]}),
        (CHAT, {"fallbacks": None, "web_search_options": None, "mcp_servers": []}),
        (RESPONSES, {"tools": [{"type": "custom", "name": "apply_patch"}]}),
        (RESPONSES, {"tools": [{"type": "namespace", "tools": [{"type": "function"}]}]}),
        (MESSAGES, {"tools": [{"name": "Bash", "input_schema": {}}, {"type": "bash_20250124"}]}),
        (GENERATE, {"tools": [{"functionDeclarations": []}]}),
    ],
)
def test_tools_of_the_agent_pass(path: str, body: dict[str, Any]) -> None:
    async def case() -> None:
        async with bench() as b:
            assert (await b.post(path, {"model": "m-1", **body}))[0] == 200

    asyncio.run(case())


def test_tool_that_the_provider_may_run_passes() -> None:
    async def case() -> None:
        async with bench(tools=("web_search",)) as b:
            body = {"model": "m-1", "tools": [{"type": "web_search"}]}
            assert (await b.post(RESPONSES, body))[0] == 200

    asyncio.run(case())
