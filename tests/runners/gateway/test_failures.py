"""Failures of a provider, the scripted model server, as the gateway reports them."""

from __future__ import annotations

import asyncio
import math
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from runners.gateway import server
from runners.gateway.clock import Clock
from runners.gateway.providers import Provider
from runners.gateway.server import Gateway, Settings
from tests.model_server import Fault, ModelServer, Script, Turn
from tests.runners.gateway.test_server import FastClock
from tests.waiting import PATIENCE_SECONDS

KEY, TOKEN = "sk-real", "run-token"
TOOLS = [{"name": "Bash", "input_schema": {}}]
FOREVER = math.inf


class Bench:
    """A gateway before a scripted provider, and its reports."""

    def __init__(self, url: str, client: aiohttp.ClientSession) -> None:
        self.url, self.client = url, client
        self.reports: list[tuple[str, dict[str, Any]]] = []

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [facts for each, facts in self.reports if each == kind]

    async def ask(self, model: str = "m", stream: bool = True) -> tuple[int, bytes]:
        """Send a request; return its status, 0 for a cut, and what came."""
        body = {"model": model, "stream": stream, "tools": TOOLS, "messages": []}
        headers = {"x-api-key": TOKEN}
        got = bytearray()
        try:
            async with self.client.post(
                f"{self.url}/v1/messages", json=body, headers=headers
            ) as answer:
                async for piece in answer.content.iter_any():
                    got += piece
                return answer.status, bytes(got)
        except aiohttp.ClientError:
            return 0, bytes(got)


@asynccontextmanager
async def bench(
    *faults: Fault, clock: Clock | None = None, **settings: Any
) -> AsyncIterator[Bench]:
    script = Script((Turn("An answer of more than one piece of text.", faults=faults),))
    with socket.socket() as listener, ModelServer({"m": script}, key=KEY) as provider_server:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        provider = Provider(
            name="test", wires=("messages",), base_url=f"{provider_server.url}/v1", prices={}
        )
        reports: list[tuple[str, dict[str, Any]]] = []

        def report(kind: str, facts: Any) -> None:
            reports.append((kind, dict(facts)))

        limits = Settings(token=TOKEN, model="m", **settings)
        gateway = Gateway(provider, KEY, limits, report, clock=clock or FastClock())
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        async with gateway.serving(listener), aiohttp.ClientSession() as client:
            found = Bench(url, client)
            found.reports = reports
            yield found


def run(case: Callable[[], Any]) -> None:
    asyncio.run(asyncio.wait_for(case(), PATIENCE_SECONDS))


@pytest.mark.parametrize("status", [429, 500, 503, 529])
def test_overload_is_retried_after_the_time_that_the_provider_names(status: int) -> None:
    async def case() -> None:
        clock, fault = FastClock(), Fault("status", status=status, retry_after=17, times=2)
        async with bench(fault, clock=clock) as b:
            assert (await b.ask())[0] == 200
            assert clock.pauses == [17, 17]
            assert [kind for kind, _ in b.reports] == ["waiting", "working", "model_call"]
            assert f"HTTP {status}" in b.of("waiting")[0]["text"]
            (call,) = b.of("model_call")
            assert (call["retries"], call["error"]) == (2, "")

    run(case)


@pytest.mark.parametrize("status", [429, 529])
def test_lasting_overload_is_the_providers_fault(status: int) -> None:
    async def case() -> None:
        fault = Fault("status", status=status, times=FOREVER)
        async with bench(fault) as b:
            assert (await b.ask())[0] == 503
            (failed,) = b.of("failed")
            assert failed["fault"] == "provider" and f"HTTP {status}" in failed["text"]
            kinds = [kind for kind, _ in b.reports if kind in ("waiting", "working")]
            assert kinds == ["waiting", "working"]

    run(case)


def test_a_short_of_credit_account_is_the_users_fault_at_once() -> None:
    async def case() -> None:
        text = "Your credit balance is too low"
        async with bench(Fault("status", status=429, times=FOREVER, message=text)) as b:
            assert (await b.ask())[0] == 503
            assert b.of("waiting") == []
            (failed,) = b.of("failed")
            assert failed["fault"] == "user" and text in failed["text"]

    run(case)


@pytest.mark.parametrize(
    ("status", "text"), [(401, "refused the key"), (403, "refused the key"), (404, "'m'")]
)
def test_a_refusal_is_the_users_fault_and_passes(status: int, text: str) -> None:
    async def case() -> None:
        async with bench(Fault("status", status=status, times=FOREVER)) as b:
            assert (await b.ask())[0] == status
            (failed,) = b.of("failed")
            assert failed["fault"] == "user" and text in failed["text"]

    run(case)


@pytest.mark.parametrize(
    ("kind", "stream", "error", "status"),
    [
        ("garbage", True, "not what its format says", 200),
        ("garbage", False, "not what its format says", 200),
        ("cut", True, "cut", 0),
        ("short", True, "ends early", 200),
        ("stall", True, "cut", 0),
    ],
)
def test_bad_answers_pass_and_in_a_row_are_the_providers_fault(
    kind: Any, stream: bool, error: str, status: int
) -> None:
    async def case() -> None:
        stalls = kind == "stall"
        limits = {"silence_seconds": 0.2} if stalls else {}  # a pause of others is no silence
        async with bench(Fault(kind, seconds=600 * stalls, times=FOREVER), **limits) as b:
            for _ in range(server.MAX_BAD_ANSWERS):
                assert b.of("failed") == []
                got, body = await b.ask(stream=stream)
                assert got == status and b"message_stop" not in body
                assert error in b.of("model_call")[-1]["error"]
            (failed,) = b.of("failed")
            assert failed["fault"] == "provider" and error in failed["text"]

    run(case)


def test_bad_answers_with_a_good_one_between_do_not_fail() -> None:
    async def case() -> None:
        async with bench(Fault("garbage", times=server.MAX_BAD_ANSWERS - 1)) as b:
            for _ in range(server.MAX_BAD_ANSWERS):
                await b.ask()
            assert b.of("failed") == []
            errors = [bool(call["error"]) for call in b.of("model_call")]
            assert errors == [*[True] * (server.MAX_BAD_ANSWERS - 1), False]

    run(case)


def test_silence_ends_as_the_providers_fault_and_stops_the_clock_before() -> None:
    async def case() -> None:
        silent = Fault("silence", seconds=math.inf, times=FOREVER)
        limits = {"quiet_seconds": 0.1, "silence_seconds": 0.4, "patience_seconds": 0}
        async with bench(silent, **limits) as b:
            assert (await b.ask())[0] == 503
            kinds = [kind for kind, _ in b.reports]
            assert kinds == ["waiting", "working", "model_call", "failed"]
            assert "does not answer for 0.1 s" in b.of("waiting")[0]["text"]
            assert b.of("failed")[0]["fault"] == "provider"

    run(case)


def test_an_answer_after_a_long_silence_counts() -> None:
    async def case() -> None:
        silent = Fault("silence", seconds=0.2)  # cut afterwards, and tried again
        async with bench(silent, quiet_seconds=0.05) as b:
            assert (await b.ask())[0] == 200
            assert [kind for kind, _ in b.reports] == ["waiting", "working", "model_call"]
            assert b.of("model_call")[0]["error"] == ""

    run(case)
