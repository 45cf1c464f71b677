"""When the clock of a run stands for calls that wait for the provider."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Any

import pytest
from aiohttp import web

from runners.gateway import server
from runners.gateway.call import Call, parse_request
from runners.gateway.waiting import WaitingCalls
from runners.gateway.wire import FORMATS, Endpoint
from tests.runners.gateway.test_hang_ups import ANSWER, run
from tests.runners.gateway.test_server import bench

OVERLOADED = {"model": "m-1", "max_tokens": 1}
SLOW = {"model": "m-1", "max_tokens": 2}


class Clock:
    """The calls of a run, and the reports on its clock."""

    def __init__(self) -> None:
        self.reports: list[str] = []
        self.calls = WaitingCalls(self._add)

    def _add(self, kind: str, facts: Mapping[str, Any]) -> None:
        self.reports.append(f"{kind} {facts.get('text', '')}".strip())


def new_call() -> Call:
    wire = FORMATS["messages"]
    asked = parse_request(wire, "/v1/messages", b"{}")
    return Call("test", wire, Endpoint("/messages", runs_model=True), asked, keep=False)


def test_clock_stands_while_the_only_open_call_waits() -> None:
    clock, call = Clock(), new_call()
    clock.calls.open(call)
    clock.calls.wait(call, "HTTP 529")
    clock.calls.wait(call, "HTTP 503")
    clock.calls.answer(call)
    clock.calls.close(call)
    clock.calls.close(call)
    assert clock.reports == ["waiting HTTP 529", "working"]


def test_clock_goes_on_while_another_call_is_answered() -> None:
    clock, overloaded, answered = Clock(), new_call(), new_call()
    clock.calls.open(answered)
    clock.calls.open(overloaded)
    clock.calls.wait(overloaded, "HTTP 529")
    assert clock.reports == []
    clock.calls.close(answered)
    assert clock.reports == ["waiting HTTP 529"]
    clock.calls.open(answered)
    assert clock.reports[1:] == ["working"]
    clock.calls.wait(answered, "HTTP 503")
    assert clock.reports[2:] == ["waiting HTTP 529"]


def test_clock_goes_on_after_the_last_waiting_call_ends() -> None:
    clock, call = Clock(), new_call()
    clock.calls.open(call)
    clock.calls.wait(call, "HTTP 529")
    clock.calls.close(call)
    assert clock.reports == ["waiting HTTP 529", "working"]


def test_call_that_was_closed_does_not_wait() -> None:
    clock, call = Clock(), new_call()
    clock.calls.open(call)
    clock.calls.close(call)
    clock.calls.wait(call, "HTTP 529")
    assert clock.reports == []


async def overloaded_or_slow(request: web.Request) -> web.Response:
    if await request.json() == OVERLOADED:
        return web.Response(status=529)
    await asyncio.sleep(0.5)
    return web.json_response(ANSWER)


def test_gateway_stops_the_clock_only_once_no_other_call_gets_an_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "FIRST_BACKOFF_SECONDS", 0.01)

    async def case() -> None:
        async with bench(overloaded_or_slow, {"patience_seconds": 60}) as b:
            slow = asyncio.create_task(b.post(body=SLOW))
            await asyncio.sleep(0.1)
            waiting = asyncio.create_task(b.post(body=OVERLOADED))
            while len(b.requests) < 4:  # it is tried again
                await asyncio.sleep(0.01)
            assert not slow.done() and b.reports == []
            assert (await slow)[0] == 200
            waiting.cancel()
            while len(b.of("model_call")) < 2:
                await asyncio.sleep(0.01)
            kinds = [kind for kind, _ in b.reports]
            assert kinds == ["waiting", "model_call", "working", "model_call"]

    run(case)


def test_gateway_lets_the_clock_go_on_when_the_agent_leaves_a_call_that_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "QUIET_SECONDS", 0.05)

    async def case() -> None:
        async with bench(overloaded_or_slow) as b:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(b.post(body=SLOW), 0.2)
            while not b.of("working"):
                await asyncio.sleep(0.01)
            assert [kind for kind, _ in b.reports] == ["waiting", "working"]

    run(case)
