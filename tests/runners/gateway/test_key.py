"""Answers of a provider that repeat its key or cannot be read, and tokens that are no text."""

from __future__ import annotations

import asyncio
import json

import pytest
from aiohttp import web

from runners.gateway.call import MALFORMED
from runners.gateway.server import MAX_BAD_ANSWERS
from tests.runners.gateway.test_server import TOKEN, Bench, Handler, bench
from tests.waiting import until_async

CANARY = "canary-of-the-providers-account"


async def echo_key(request: web.Request, _b: Bench) -> web.StreamResponse:
    """Refuse as a proxy that repeats the headers of the request in pieces."""
    sent = request.headers.get("x-api-key", "")
    response = web.StreamResponse(status=400, headers={"x-sent": sent})
    await response.prepare(request)
    for part in (b'{"error": {"message": "', sent[:9].encode(), sent[9:].encode(), b'"}}'):
        await response.write(part)
    return response


async def no_credit(request: web.Request, _b: Bench) -> web.StreamResponse:
    sent = request.headers["x-api-key"]
    return web.Response(status=429, text=f"insufficient_quota for {sent}")


@pytest.mark.parametrize("provider", [echo_key, no_credit])
@pytest.mark.parametrize("path", ["/v1/messages", "/v1/messages/count_tokens"])
def test_key_in_a_providers_error_reaches_neither_agent_nor_trace(
    path: str, provider: Handler
) -> None:
    async def case() -> None:
        async with bench(provider, key=CANARY) as b:
            body, headers = {"model": "m-1"}, {"x-api-key": TOKEN}
            async with b.client.post(b.url + path, json=body, headers=headers) as answer:
                text = f"{answer.headers} {await answer.text()}"
            assert b.requests[0][0].headers["x-api-key"] == CANARY
            assert CANARY not in text + json.dumps(b.reports)
            assert "[redacted]" in text

    asyncio.run(case())


def test_account_of_the_operator_is_not_named_to_the_agent() -> None:
    """The output of an agent is public."""
    names = ("openai-organization", "openai-project", "anthropic-organization-id", "set-cookie")

    async def named(request: web.Request, _b: Bench) -> web.StreamResponse:
        kept = {"x-request-id": "req_1"}
        return web.json_response({}, headers=kept | dict.fromkeys(names, CANARY))

    async def case() -> None:
        async with bench(named) as b:
            headers = {"x-api-key": TOKEN}
            url = b.url + "/v1/messages"
            async with b.client.post(url, json={"model": "m-1"}, headers=headers) as answer:
                assert CANARY not in str(answer.headers)
                assert answer.headers["x-request-id"] == "req_1"

    asyncio.run(case())


def test_bytes_that_are_not_utf8_are_the_providers_fault_though_the_agent_left() -> None:
    async def bad(request: web.Request, b: Bench) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        await response.write(b'data: {"choices": [{"delta": {"content": "\xff\xfe"}}]}\n\n')
        await b.left()
        return response

    async def case() -> None:
        async with bench(bad) as b:
            body, headers = {"model": "m-1", "stream": True}, {"x-api-key": TOKEN}
            for count in range(1, MAX_BAD_ANSWERS + 1):
                url = b.url + "/v1/chat/completions"
                async with b.client.post(url, json=body, headers=headers) as answer:
                    await answer.content.readany()
                    answer.close()
                await until_async(lambda n=count: len(b.of("model_call")) == n, lambda: b.reports)
            assert {call["error"] for call in b.of("model_call")} == {MALFORMED}
            (failed,) = b.of("failed")
            assert failed["fault"] == "provider"

    asyncio.run(case())


def test_token_that_is_not_ascii_is_refused_as_a_wrong_one() -> None:
    async def case() -> None:
        async with bench() as b:
            host, port = b.url.removeprefix("http://").split(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            lines = (b"POST /v1/messages HTTP/1.1", b"Host: g", b"x-api-key: t\xf6ken\xff",
                     b"Content-Length: 0", b"Connection: close", b"", b"")  # fmt: skip
            writer.write(b"\r\n".join(lines))
            assert (await reader.readline()).split()[1] == b"401"
            writer.close()

    asyncio.run(case())
