"""Calls whose agent hangs up before the end of the answer: each is counted and reported."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from runners.gateway.budget import Amount
from runners.gateway.call import HUNG_UP
from runners.gateway.clock import Clock
from tests.runners.gateway.test_server import STREAM, TOKEN, Bench, Handler, bench, sse
from tests.waiting import PATIENCE_SECONDS, until_async

ANSWER = {"model": "m-1", "stop_reason": "end_turn", "usage": {"input_tokens": 10}}
CHAT = (
    {"model": "m-1", "choices": [{"delta": {"content": "Hello."}, "finish_reason": "stop"}]},
    {"choices": [], "usage": {"prompt_tokens": 11, "completion_tokens": 7}},
)
BODY = {"model": "m-1", "max_tokens": 100}


class StoppedClock(Clock):
    """A clock on which no pause ends by itself."""

    async def wait(self, seconds: float, event: asyncio.Event | None = None) -> None:
        await (event or asyncio.Event()).wait()


async def abort(
    b: Bench, count: int = 1, once: Callable[[], object] = lambda: True, body: Any = BODY
) -> None:
    """Send requests and hang up `once` the provider has them, before an answer."""
    sent = [asyncio.create_task(b.post(body=body)) for _ in range(count)]
    await until_async(lambda: len(b.requests) == count and once(), "requests at the provider")
    for each in sent:
        each.cancel()
    await b.left()


async def read_until(b: Bench, path: str, end: bytes) -> None:
    """Send a request for a stream and hang up once its answer has `end`."""
    body, headers = {**BODY, "stream": True}, {"x-api-key": TOKEN}
    async with b.client.post(b.url + path, json=body, headers=headers) as answer:
        got = b""
        while end not in got:
            got += await answer.content.readany()
        answer.close()


async def calls(b: Bench, count: int = 1) -> list[dict[str, Any]]:
    await until_async(lambda: len(b.of("model_call")) >= count, lambda: b.reports)
    return b.of("model_call")


def stream(*pieces: bytes, left_after: int = 1, cut: bool = False) -> Handler:
    """Return a handler that streams pieces; after `left_after` of them the agent must be gone."""

    async def answer(request: web.Request, b: Bench) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        for piece in pieces[:left_after]:
            await response.write(piece)
        await b.left()
        for piece in pieces[left_after:]:
            await response.write(piece)
        if cut and request.transport:
            request.transport.abort()
        return response

    return answer


async def slow(request: web.Request, b: Bench) -> web.StreamResponse:
    await b.left()
    return web.json_response(ANSWER)


async def never(request: web.Request, b: Bench) -> web.StreamResponse:
    await asyncio.Event().wait()
    return web.Response()


def run(case: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(case(), PATIENCE_SECONDS))


def test_requests_that_the_agent_aborts_are_counted_with_their_usage() -> None:
    async def case() -> None:
        async with bench(slow) as b:
            await abort(b, 5)
            found = await calls(b, 5)
            assert len(b.requests) == 5
            assert [call["usage"]["input_tokens"] for call in found] == [10] * 5
            assert {call["error"] for call in found} == {HUNG_UP}
            assert not any(call["estimated"] for call in found)
            assert b.gateway.budget.used == Amount(50, pytest.approx(50e-6), 5)

    run(case)


def test_aborted_requests_spend_a_budget_of_calls() -> None:
    async def case() -> None:
        async with bench(slow, {"max_calls": 1}) as b:
            await abort(b)
            assert (await b.post())[0] == 429
            assert len(b.requests) == len(b.of("model_call")) == 1

    run(case)


def test_stream_that_is_closed_before_its_usage_is_charged() -> None:
    async def case() -> None:
        async with bench(stream(sse(CHAT[0]), sse(CHAT[1]))) as b:
            await read_until(b, "/v1/chat/completions", b"stop")
            (call,) = await calls(b)
            assert (call["usage"]["input_tokens"], call["usage"]["output_tokens"]) == (11, 7)
            assert (call["error"], call["estimated"]) == ("", False)
            assert b.gateway.budget.used.tokens == 18

    run(case)


def test_stream_that_is_left_in_its_middle_is_read_to_its_end() -> None:
    async def case() -> None:
        async with bench(stream(*map(sse, STREAM), left_after=2)) as b:
            await read_until(b, "/v1/messages", b"llo")
            (call,) = await calls(b)
            assert (call["usage"]["input_tokens"], call["usage"]["output_tokens"]) == (10, 5)
            assert (call["error"], call["estimated"]) == (HUNG_UP, False)

    run(case)


def test_client_that_leaves_a_complete_answer_did_not_hang_up() -> None:
    """Leave a stream that the provider keeps open after its last event."""

    async def case() -> None:
        async with bench(stream(*map(sse, STREAM), left_after=len(STREAM))) as b:
            await read_until(b, "/v1/messages", b"message_stop")
            (call,) = await calls(b)
            assert (call["error"], call["stop_reason"]) == ("", "end_turn")

    run(case)


def test_answer_that_does_not_come_before_the_end_is_charged_its_upper_bound() -> None:
    async def case() -> None:
        async with bench(never) as b:
            await abort(b)
            assert b.of("model_call") == []
        (call,) = b.of("model_call")
        size = len(b.requests[0][1])
        assert call["estimated"] and call["error"] == HUNG_UP
        assert call["usage"]["output_tokens"] == 100
        assert size / 4 < call["usage"]["input_tokens"] <= size
        assert call["cost_usd"] == pytest.approx((call["usage"]["input_tokens"] + 200) / 1e6)

    run(case)


def test_answer_that_is_cut_after_the_agent_left_keeps_what_was_read() -> None:
    async def case() -> None:
        async with bench(stream(sse(STREAM[0]), cut=True)) as b:
            await read_until(b, "/v1/messages", b"message_start")
            (call,) = await calls(b)
            assert call["estimated"] and call["error"] == HUNG_UP
            assert (call["usage"]["input_tokens"], call["usage"]["output_tokens"]) == (10, 100)

    run(case)


def test_overloaded_call_that_the_agent_left_is_not_tried_again() -> None:
    async def overloaded(request: web.Request, b: Bench) -> web.StreamResponse:
        return web.Response(status=529)

    async def case() -> None:
        async with bench(overloaded, clock=StoppedClock()) as b:
            await abort(b, once=lambda: b.of("waiting"))
            (call,) = await calls(b)
            assert (call["usage"], call["error"], call["estimated"]) == (None, HUNG_UP, False)
            assert [kind for kind, _ in b.reports] == ["waiting", "working", "model_call"]
            assert len(b.requests) == 1

    run(case)


def test_agent_that_reads_nothing_more_loses_no_call() -> None:
    """A connection that breaks while a large answer is written to it."""

    async def case() -> None:
        text = {"type": "content_block_delta", "delta": {"text": "x" * 1_000_000}}
        pieces = (sse(STREAM[0]), *[sse(text)] * 20, sse(*STREAM[2:]))
        async with bench(stream(*pieces, left_after=len(pieces))) as b:
            body, headers = {**BODY, "stream": True}, {"x-api-key": TOKEN}
            async with aiohttp.ClientSession(read_bufsize=1024) as client:
                answer = await client.post(b.url + "/v1/messages", json=body, headers=headers)
                await answer.content.readany()
                answer.close()
            (call,) = await calls(b)
            assert call["usage"]["output_tokens"] == 5 and not call["estimated"]

    run(case)
