"""The gateway between a client and a provider, over real sockets."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from yarl import URL

from runners.gateway.clock import Clock
from runners.gateway.providers import Provider
from runners.gateway.room import MAX_REQUEST_BYTES
from runners.gateway.server import Gateway, Settings
from runners.gateway.traffic import Replay, TrafficWriter
from tests.waiting import PATIENCE_SECONDS, until_async

KEY, TOKEN = "sk-real", "run-token"
STREAM = (
    {"type": "message_start", "message": {"model": "m-1", "usage": {"input_tokens": 10}}},
    {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "héllo"}},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 5}},
    {"type": "message_stop"},
)


class FastClock(Clock):
    """A clock whose pauses are counted and not waited for."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.pauses: list[float] = []

    def now(self) -> float:
        return self.seconds

    async def wait(self, seconds: float, event: asyncio.Event | None = None) -> None:
        self.pauses.append(seconds)
        self.seconds += seconds
        await asyncio.sleep(0)


def sse(*events: Any) -> bytes:
    return b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)


async def streamed(request: web.Request, b: Bench) -> web.StreamResponse:
    response = web.StreamResponse(headers={"content-type": "text/event-stream"})
    await response.prepare(request)
    for event in STREAM:
        await response.write(sse(event))
    return response


def listening() -> socket.socket:
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    return listener


class Bench:
    """A provider, a gateway in front of it, and a client."""

    def __init__(self, gateway: Gateway, url: str, client: aiohttp.ClientSession) -> None:
        self.gateway, self.url, self.client = gateway, url, client
        self.reports: list[tuple[str, dict[str, Any]]] = []
        self.requests: list[tuple[web.Request, bytes]] = []
        """The requests that reached the provider."""

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [facts for each, facts in self.reports if each == kind]

    async def post(
        self, path: str = "/v1/messages", body: Any = None, token: str = TOKEN
    ) -> tuple[int, bytes]:
        body = {"model": "m-1", "stream": True} if body is None else body
        headers = {"x-api-key": token}
        async with self.client.post(self.url + path, json=body, headers=headers) as answer:
            return answer.status, await answer.read()

    async def left(self) -> None:
        """Wait until the gateway has seen that the agent left every call."""
        await until_async(lambda: not len(self.gateway.waiting), "the agent's hang-up")


Handler = Callable[[web.Request, Bench], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def bench(
    handler: Handler = streamed, settings: dict[str, Any] | None = None, **options: Any
) -> AsyncIterator[Bench]:
    async def answer(request: web.Request) -> web.StreamResponse:
        found.requests.append((request, await request.read()))
        return await handler(request, found)

    app = web.Application(client_max_size=MAX_REQUEST_BYTES)
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    upstream, listener = listening(), listening()
    await web.SockSite(runner, upstream).start()
    prices = options.pop("prices", {"m-*": {"input": 1, "output": 2}})
    provider = Provider(
        name="test",
        wires=("messages", "responses", "chat-completions", "generate-content"),
        base_url=f"http://127.0.0.1:{upstream.getsockname()[1]}/api/v1",
        prices=prices,
        tools=options.pop("tools", ()),
        requests_per_minute=options.pop("requests_per_minute", 0),
    )
    limits = Settings(**{"token": TOKEN, "model": "m-1", **(settings or {})})
    reports: list[tuple[str, dict[str, Any]]] = []
    key = options.pop("key", KEY)
    gateway = Gateway(
        provider, key, limits, lambda kind, facts: reports.append((kind, dict(facts))), **options
    )
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    async with gateway.serving(listener), aiohttp.ClientSession() as client:
        found = Bench(gateway, url, client)
        found.reports = reports
        yield found
    await runner.cleanup()


def test_a_streamed_call_passes_unchanged_and_is_reported() -> None:
    async def case() -> None:
        async with bench() as b:
            assert await b.post() == (200, sse(*STREAM))
            ((request, body),) = b.requests
            assert request.path == "/api/v1/messages"
            assert request.headers["x-api-key"] == KEY
            assert TOKEN not in str(request.headers)
            assert json.loads(body) == {"model": "m-1", "stream": True}
            (call,) = b.of("model_call")
            assert call["usage"] == {
                "input_tokens": 10,
                "output_tokens": 5,
                "cached_tokens": 0,
                "cache_write_tokens": 0,
                "reasoning_tokens": 0,
            }
            assert call["cost_usd"] == pytest.approx(20e-6)
            assert (call["model"], call["stop_reason"], call["status"]) == ("m-1", "end_turn", 200)
            assert 0 < call["first_byte_ms"] <= call["latency_ms"]

    asyncio.run(case())


@pytest.mark.parametrize(
    ("path", "token", "status"),
    [
        ("/v1/messages", "another", 401),
        ("/v1/files", TOKEN, 404),
        ("/v1/messages/batches", TOKEN, 404),
        ("/v1/organizations/api_keys", TOKEN, 404),
        ("/", TOKEN, 404),
    ],
)
def test_a_request_without_token_or_outside_the_endpoints_is_refused(
    path: str, token: str, status: int
) -> None:
    async def case() -> None:
        async with bench() as b:
            found, body = await b.post(path, token=token)
            assert found == status and json.loads(body)["type"] == "error"
            assert b.requests == []

    asyncio.run(case())


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize(
    "path",
    [
        "/v1/models/../chat/completions",
        "/v1/models/%2e%2e/chat/completions",
        "/v1/models/.%2E/chat/completions",
        "/v1/models/%252e%252e/chat/completions",
        "/v1/models/%25252e%25252e/chat/completions",
        "/v1/models/..%2fchat/completions",
        "/v1/models/m-1/../../files",
        "/v1/models/./m-1",
        "/v1/models/..",
        "/v1beta/models/..",
        "/v1beta/models/../models/m-1:generateContent",
    ],
)
def test_a_path_with_dot_segments_is_refused(method: str, path: str) -> None:
    async def case() -> None:
        async with bench() as b:
            url = URL(b.url + path, encoded=True)
            async with b.client.request(method, url, headers={"x-api-key": TOKEN}) as answer:
                assert answer.status == 404
            assert b.requests == []
            assert len(b.of("refused")) == 1

    asyncio.run(case())


@pytest.mark.parametrize(
    ("method", "path", "upstream"),
    [
        ("GET", "/v1/models/author/m-1:free", "/api/v1/models/author/m-1:free"),
        ("POST", "/v1/messages/count_tokens", "/api/v1/messages/count_tokens"),
        ("POST", "/v1beta/models/m-1:countTokens", "/api/v1/models/m-1:countTokens"),
        ("POST", "/v1/models/m-1", ""),
    ],
)
def test_a_request_that_costs_nothing_reaches_its_endpoint_only(
    method: str, path: str, upstream: str
) -> None:
    async def case() -> None:
        async with bench() as b:
            headers = {"x-api-key": TOKEN}
            async with b.client.request(method, b.url + path, headers=headers) as answer:
                assert answer.status == (200 if upstream else 404)
            assert [request.raw_path for request, _ in b.requests] == [upstream] * bool(upstream)
            assert b.of("model_call") == []

    asyncio.run(case())


@pytest.mark.parametrize("limit", [{"max_tokens": 15}, {"max_usd": 20e-6}])
def test_a_spent_budget_is_answered_as_a_quota_error(limit: dict[str, Any]) -> None:
    async def case() -> None:
        async with bench(settings=limit) as b:
            assert (await b.post())[0] == 200
            status, body = await b.post()
            assert status == 429 and json.loads(body)["error"]["type"] == "insufficient_quota"
            assert len(b.requests) == 1 and "spent" in json.loads(body)["error"]["message"]
            assert b.of("budget")[0]["used"] > 0

    asyncio.run(case())


@pytest.mark.parametrize(
    ("limit", "served"),
    [
        ({"max_calls": 1}, 1),
        ({"max_calls": 3}, 3),
        ({"max_tokens": 40}, 3),
        ({"max_usd": 50e-6}, 3),
    ],
)
def test_concurrent_requests_do_not_exceed_a_budget(limit: dict[str, Any], served: int) -> None:
    async def case() -> None:
        async with bench(settings=limit) as b:
            found = await asyncio.gather(*(b.post() for _ in range(20)))
            assert sorted(status for status, _ in found) == [200] * served + [429] * (20 - served)
            assert len(b.requests) == len(b.of("model_call")) == served

    asyncio.run(case())


def test_concurrent_requests_far_from_a_budget_run_at_once() -> None:
    together = 4
    everyone = asyncio.Barrier(together)

    async def meeting(request: web.Request, b: Bench) -> web.StreamResponse:
        await everyone.wait()
        return await streamed(request, b)

    async def case() -> None:
        limit = {"max_tokens": 500, "max_usd": 1e-3, "max_calls": together}
        body = {"model": "m-1", "stream": True, "max_tokens": 50}
        async with bench(meeting, limit) as b:
            posts = (b.post(body=body) for _ in range(together))
            found = await asyncio.wait_for(asyncio.gather(*posts), PATIENCE_SECONDS)
            assert [status for status, _ in found] == [200] * together

    asyncio.run(case())


def test_a_model_without_price_is_refused_within_a_budget_of_dollars() -> None:
    async def case() -> None:
        limits = {"max_usd": 1.0, "model": "unheard-of"}
        async with bench(settings=limits, prices={}) as b:
            status, body = await b.post(body={"model": "unheard-of"})
            assert status == 429 and "unheard-of" in json.loads(body)["error"]["message"]
            assert b.requests == []

    asyncio.run(case())


def test_overload_is_retried_and_the_run_is_told_that_it_waits() -> None:
    left = [429, 529, 503]

    async def overloaded(request: web.Request, b: Bench) -> web.StreamResponse:
        return web.Response(status=left.pop(0)) if left else await streamed(request, b)

    async def case() -> None:
        async with bench(overloaded, clock=FastClock()) as b:
            assert await b.post() == (200, sse(*STREAM))
            assert [kind for kind, _ in b.reports] == ["waiting", "working", "model_call"]
            assert b.of("model_call")[0]["retries"] == 3
            assert "HTTP 429" in b.of("waiting")[0]["text"]

    asyncio.run(case())


def test_a_provider_that_stays_overloaded_fails_after_the_patience() -> None:
    async def overloaded(request: web.Request, b: Bench) -> web.StreamResponse:
        return web.Response(status=529)

    async def case() -> None:
        clock = FastClock()
        async with bench(overloaded, {"patience_seconds": 30}, clock=clock) as b:
            status, _ = await b.post()
            assert status == 503
            (failed,) = b.of("failed")
            assert failed["fault"] == "provider" and "HTTP 529" in failed["text"]
            assert b.reports[-1][0] == "failed" or b.reports[-1][0] == "working"
            assert len(clock.pauses) == 4 and sum(clock.pauses) <= 30
            assert all(later > pause for pause, later in pairwise(clock.pauses))

    asyncio.run(case())


def test_a_silent_provider_fails_after_the_silence() -> None:
    async def silent(request: web.Request, b: Bench) -> web.StreamResponse:
        await asyncio.Event().wait()
        return web.Response()

    async def case() -> None:
        limits, clock = {"silence_seconds": 0.1, "patience_seconds": 2.5}, FastClock()
        async with bench(silent, limits, clock=clock) as b:
            assert (await b.post())[0] == 503
            assert len(clock.pauses) == 1, "before a second request"
            assert b.of("failed")[0]["fault"] == "provider"

    asyncio.run(case())


def test_a_cut_stream_reaches_the_agent_as_cut_and_keeps_its_usage() -> None:
    async def cut(request: web.Request, b: Bench) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        await response.write(sse(STREAM[0]))
        assert request.transport
        request.transport.abort()
        return response

    async def case() -> None:
        async with bench(cut) as b:
            with pytest.raises(aiohttp.ClientError):
                await b.post()
            (call,) = await until_async(lambda: b.of("model_call"), "the report of the call")
            assert call["usage"]["input_tokens"] == 10 and "cut" in call["error"]

    asyncio.run(case())


def test_an_answer_that_is_not_json_passes_and_is_reported() -> None:
    async def garbage(request: web.Request, b: Bench) -> web.StreamResponse:
        return web.Response(body=b"<html>oops", content_type="text/html")

    async def case() -> None:
        async with bench(garbage) as b:
            assert await b.post() == (200, b"<html>oops")
            (call,) = b.of("model_call")
            assert call["estimated"] and call["error"]

    asyncio.run(case())


def test_a_refused_key_is_the_users_fault() -> None:
    async def refused(request: web.Request, b: Bench) -> web.StreamResponse:
        return web.json_response({"type": "error"}, status=401)

    async def case() -> None:
        async with bench(refused) as b:
            assert (await b.post())[0] == 401
            assert b.of("failed")[0]["fault"] == "user"

    asyncio.run(case())


def test_recorded_calls_are_replayed_and_further_ones_go_to_the_provider(tmp_path: Path) -> None:
    path = tmp_path / "traffic.jsonl"

    async def record() -> None:
        async with bench(writer=TrafficWriter(path)) as b:
            await b.post()
            await b.post()

    async def resume() -> None:
        async with bench(replay=Replay.read(path)) as b:
            assert await b.post() == (200, sse(*STREAM))
            assert await b.post() == (200, sse(*STREAM))
            assert b.requests == []
            first, second = b.of("model_call")
            assert first["replayed"] and first["usage"]["input_tokens"] == 10
            assert first["cost_usd"] == second["cost_usd"] == 0
            await b.post()
            assert [call["replayed"] for call in b.of("model_call")] == [True, True, False]
            assert len(b.requests) == 1

    asyncio.run(record())
    assert KEY not in path.read_text() and TOKEN not in path.read_text()
    asyncio.run(resume())


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/messages/count_tokens"])
def test_a_rate_limit_delays_what_exceeds_it(path: str) -> None:
    """Free requests count too: they are made in the name of the same account."""

    async def case() -> None:
        clock = FastClock()
        async with bench(requests_per_minute=2, clock=clock) as b:
            for _ in range(2):
                await b.post(path)
            assert clock.pauses == []
            await b.post(path)
            assert clock.pauses == [60.0]

    asyncio.run(case())


def test_a_stream_of_chat_completions_is_made_to_tell_its_usage() -> None:
    async def case() -> None:
        async with bench() as b:
            await b.post("/v1/chat/completions", {"model": "m-1", "stream": True})
            assert json.loads(b.requests[0][1])["stream_options"] == {"include_usage": True}

    asyncio.run(case())


@pytest.mark.parametrize("version", ["v1", "v1beta"])
def test_the_model_of_a_path_is_priced_and_recorded(version: str, tmp_path: Path) -> None:
    recording = tmp_path / "traffic.jsonl"
    usage = {"promptTokenCount": 10, "candidatesTokenCount": 5}

    async def answer(request: web.Request, b: Bench) -> web.StreamResponse:
        found = {"candidates": [{"finishReason": "STOP"}], "usageMetadata": usage}
        return web.json_response(found)

    async def case() -> None:
        prices = {"dear": {"input": 100, "output": 100}, "cheap": {"input": 1, "output": 1}}
        writer = TrafficWriter(recording)
        limits = {"max_usd": 1.0, "model": "dear"}
        async with bench(answer, limits, prices=prices, writer=writer) as b:
            await b.post(f"/{version}/models/dear:generateContent", {"model": "cheap"})
            (call,) = b.of("model_call")
            assert (call["model"], call["cost_usd"]) == ("dear", pytest.approx(1500e-6))
            assert json.loads(recording.read_text())["model"] == "dear"
        writer.close()

    asyncio.run(case())
