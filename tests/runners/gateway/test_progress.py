"""Reports on calls under way, and calls without a price that are given up."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable

import pytest
from aiohttp import web

from runners.gateway.call import BAD_CALL, HUNG_UP, TOO_LONG
from tests.runners.gateway.test_hang_ups import abort, calls
from tests.runners.gateway.test_server import STREAM, TOKEN, Bench, Handler, bench, sse
from tests.waiting import PATIENCE_SECONDS, until_async

OFTEN = {"progress_seconds": 0.001}
FREE = {"m-*": {"input": 0, "output": 0}}


def run(case: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(case(), PATIENCE_SECONDS))


def test_call_under_way_is_reported_with_its_tokens_so_far() -> None:
    async def slow(request: web.Request, b: Bench) -> web.StreamResponse:
        await until_async(lambda: b.of("progress"), lambda: b.reports)
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        for event in STREAM[:2]:
            await response.write(sse(event))
        await until_async(lambda: b.of("progress")[-1]["tokens"] == 2, lambda: b.reports)
        for event in STREAM[2:]:
            await response.write(sse(event))
        return response

    async def case() -> None:
        async with bench(slow, OFTEN) as b:
            assert (await b.post())[0] == 200
            first, *_, last = b.of("progress")
            assert (first["tokens"], first["first_byte_ms"]) == (0, None)
            assert last["tokens"] >= 2 and last["first_byte_ms"] > 0
            assert last["latency_ms"] > first["latency_ms"] > 0
            (call,) = b.of("model_call")
            assert {each["number"] for each in b.of("progress")} == {call["number"]} == {1}
            assert b.reports[-1][0] == "model_call", "nothing is reported after the end"

    run(case)


def test_short_call_is_reported_once() -> None:
    async def case() -> None:
        async with bench() as b:
            await b.post()
            assert [kind for kind, _ in b.reports] == ["model_call"]
            assert "number" not in b.of("model_call")[0]

    run(case)


def gone(seen: asyncio.Event, begun: bool) -> Handler:
    """Return a provider that notes when its client is gone, before or in an answer."""

    async def answer(request: web.Request, b: Bench) -> web.StreamResponse:
        try:
            if begun:
                response = web.StreamResponse(headers={"content-type": "text/event-stream"})
                await response.prepare(request)
                while True:
                    await response.write(sse(STREAM[1]))
                    await asyncio.sleep(0)
            await asyncio.Event().wait()
            raise AssertionError
        except (asyncio.CancelledError, ConnectionError):
            seen.set()
            raise

    return answer


@pytest.mark.parametrize("begun", [True, False])
def test_call_without_a_price_that_the_agent_left_is_given_up(begun: bool) -> None:
    async def case() -> None:
        seen = asyncio.Event()
        async with bench(gone(seen, begun), prices=FREE) as b:
            if begun:
                body, headers = {"model": "m-1", "stream": True}, {"x-api-key": TOKEN}
                url = b.url + "/v1/messages"
                async with b.client.post(url, json=body, headers=headers) as answer:
                    await answer.content.readany()
                    answer.close()
            else:
                await abort(b)
            await seen.wait()
            (call,) = await calls(b)
            assert (call["error"], call["cost_usd"], call["estimated"]) == (HUNG_UP, 0.0, True)

    run(case)


@pytest.mark.parametrize(
    "text",
    [
        "prompt is too long: 210000 tokens > 200000 maximum",
        "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens",
        "the request exceeds the available context size (4096 tokens), try increasing it",
        "context_length_exceeded",
        "The input token count (1200000) exceeds the maximum number of tokens allowed",
    ],
)
def test_refusal_for_the_length_of_a_request_is_named(text: str) -> None:
    async def refuse(request: web.Request, b: Bench) -> web.StreamResponse:
        return web.json_response({"error": {"message": text}}, status=400)

    async def case() -> None:
        async with bench(refuse) as b:
            status, body = await b.post()
            assert status == 400 and text.encode() in body
            assert b.of("model_call")[0]["error"] == TOO_LONG

    run(case)


@pytest.mark.parametrize(
    "text",
    [
        "Failed to parse tool call arguments as JSON: parse error at line 1, column 9",
        'Failed to parse input at pos 12: {"tool_call"',
        "error parsing tool call: raw='{', err=unexpected end of JSON input",
    ],
)
def test_refusal_for_a_malformed_tool_call_is_named_and_not_retried(text: str) -> None:
    async def refuse(request: web.Request, b: Bench) -> web.StreamResponse:
        return web.json_response({"error": {"message": text}}, status=500)

    async def case() -> None:
        async with bench(refuse) as b:
            status, body = await b.post()
            assert status == 500 and json.loads(body)["error"]["message"] == text
            (call,) = b.of("model_call")
            assert (call["error"], call["retries"]) == (BAD_CALL, 0)
            assert b.of("failed") == b.of("waiting") == []

    run(case)


@pytest.mark.parametrize(
    "text",
    [
        "tools: unknown field",
        "max_tokens is too large: 32000. This model supports at most 4096 completion tokens",
        "effort is not supported",
    ],
)
def test_other_refusal_is_not_one_for_the_length(text: str) -> None:
    async def refuse(request: web.Request, b: Bench) -> web.StreamResponse:
        error = {"type": "invalid_request_error", "message": text}
        return web.json_response({"error": error}, status=400)

    async def case() -> None:
        async with bench(refuse) as b:
            await b.post()
            assert b.of("model_call")[0]["error"] == ""

    run(case)
