"""Calls whose agent hangs up before the end of the answer: each is counted and reported."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from runners.gateway import server
from runners.gateway.budget import Amount
from runners.gateway.call import HUNG_UP
from tests.runners.gateway.test_server import STREAM, TOKEN, Bench, bench, sse

ANSWER = {"model": "m-1", "stop_reason": "end_turn", "usage": {"input_tokens": 10}}
CHAT = (
    {"model": "m-1", "choices": [{"delta": {"content": "Hello."}, "finish_reason": "stop"}]},
    {"choices": [], "usage": {"prompt_tokens": 11, "completion_tokens": 7}},
)
BODY = {"model": "m-1", "max_tokens": 100}


async def abort(b: Bench, after_seconds: float = 0.1) -> None:
    """Send a request and hang up without an answer."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(b.post(body=BODY), after_seconds)


async def read_until(b: Bench, path: str, end: bytes) -> None:
    """Send a request for a stream and hang up once its answer has `end`."""
    body, headers = {**BODY, "stream": True}, {"x-api-key": TOKEN}
    async with b.client.post(b.url + path, json=body, headers=headers) as answer:
        got = b""
        while end not in got:
            got += await answer.content.readany()
        answer.close()


async def calls(b: Bench, count: int = 1) -> list[dict[str, Any]]:
    async with asyncio.timeout(10):
        while len(b.of("model_call")) < count:
            await asyncio.sleep(0.01)
    return b.of("model_call")


def stream(*pieces: bytes, pause_seconds: float = 0.2, cut: bool = False) -> Any:
    """Return a handler that streams pieces with pauses between them."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        for number, piece in enumerate(pieces):
            await asyncio.sleep(pause_seconds * bool(number))
            await response.write(piece)
        if cut and request.transport:
            await asyncio.sleep(pause_seconds)
            request.transport.abort()
        return response

    return answer


async def slow(request: web.Request) -> web.StreamResponse:
    await asyncio.sleep(0.4)
    return web.json_response(ANSWER)


async def never(request: web.Request) -> web.StreamResponse:
    await asyncio.sleep(60)
    return web.Response()


def run(case: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(case(), 30))


def test_requests_that_the_agent_aborts_are_counted_with_their_usage() -> None:
    async def case() -> None:
        async with bench(slow) as b:
            await asyncio.gather(*(abort(b) for _ in range(5)))
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
        async with bench(stream(*(sse(event) for event in STREAM))) as b:
            await read_until(b, "/v1/messages", b"llo")
            (call,) = await calls(b)
            assert (call["usage"]["input_tokens"], call["usage"]["output_tokens"]) == (10, 5)
            assert (call["error"], call["estimated"]) == (HUNG_UP, False)

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


def test_overloaded_call_that_the_agent_left_is_not_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "FIRST_BACKOFF_SECONDS", 30.0)

    async def overloaded(request: web.Request) -> web.StreamResponse:
        return web.Response(status=529)

    async def case() -> None:
        async with bench(overloaded) as b:
            await abort(b, 0.3)
            (call,) = await calls(b)
            assert (call["usage"], call["error"], call["estimated"]) == (None, HUNG_UP, False)
            assert [kind for kind, _ in b.reports] == ["waiting", "working", "model_call"]
            assert len(b.requests) == 1

    run(case)


def test_silence_that_nobody_waits_for_does_not_stop_the_clock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "QUIET_SECONDS", 0.2)

    async def case() -> None:
        async with bench(slow) as b:
            await abort(b)
            await calls(b)
            assert b.of("waiting") == []

    run(case)


def test_agent_that_reads_nothing_more_loses_no_call() -> None:
    """A connection that breaks while a large answer is written to it."""

    async def case() -> None:
        text = {"type": "content_block_delta", "delta": {"text": "x" * 1_000_000}}
        pieces = (sse(STREAM[0]), *[sse(text)] * 20, sse(*STREAM[2:]))
        async with bench(stream(*pieces, pause_seconds=0)) as b:
            body, headers = {**BODY, "stream": True}, {"x-api-key": TOKEN}
            async with aiohttp.ClientSession(read_bufsize=1024) as client:
                answer = await client.post(b.url + "/v1/messages", json=body, headers=headers)
                await answer.content.readany()
                await asyncio.sleep(0.3)
                answer.close()
            (call,) = await calls(b)
            assert call["usage"]["output_tokens"] == 5 and not call["estimated"]

    run(case)
