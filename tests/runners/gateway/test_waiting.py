"""When the clock of a run stands for calls that wait for the provider."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from runners.gateway.call import Call, parse_request
from runners.gateway.waiting import WaitingCalls
from runners.gateway.wire import FORMATS, Endpoint
from tests.runners.gateway.test_hang_ups import ANSWER, abort, run
from tests.runners.gateway.test_server import Bench, FastClock, Handler, bench
from tests.waiting import until_async

OVERLOADED = {"model": "m-1", "max_tokens": 1}
SLOW = {"model": "m-1", "max_tokens": 2}


class Clock:
    """The calls of a run, and the reports on its clock."""

    def __init__(self) -> None:
        self.reports: list[str] = []
        self.calls = WaitingCalls(self.add)

    def add(self, kind: str, facts: Mapping[str, Any]) -> None:
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


def overloaded_or_slow(answered: asyncio.Event) -> Handler:
    """Return a handler that is overloaded for one body, and waits for an event with others."""

    async def answer(request: web.Request, b: Bench) -> web.StreamResponse:
        if await request.json() == OVERLOADED:
            return web.Response(status=529)
        await answered.wait()
        return web.json_response(ANSWER)

    return answer


def test_gateway_stops_the_clock_only_once_no_other_call_gets_an_answer() -> None:
    async def case() -> None:
        answered, forever = asyncio.Event(), {"patience_seconds": math.inf}
        async with bench(overloaded_or_slow(answered), forever, clock=FastClock()) as b:
            slow = asyncio.create_task(b.post(body=SLOW))
            await until_async(lambda: len(b.requests) == 1, "the first request")
            waiting = asyncio.create_task(b.post(body=OVERLOADED))
            await until_async(lambda: len(b.requests) >= 4, "further tries")
            assert not slow.done() and b.reports == []
            answered.set()
            assert (await slow)[0] == 200
            await until_async(lambda: b.of("waiting"), "the stop of the clock")
            waiting.cancel()
            await until_async(lambda: len(b.of("model_call")) == 2, lambda: b.reports)
            kinds = [kind for kind, _ in b.reports]
            assert kinds == ["waiting", "model_call", "working", "model_call"]

    run(case)


def test_gateway_lets_the_clock_go_on_when_the_agent_leaves_a_call_that_waits() -> None:
    async def case() -> None:
        async with bench(overloaded_or_slow(asyncio.Event()), {"quiet_seconds": 0.05}) as b:
            await abort(b, once=lambda: b.of("waiting"), body=SLOW)
            assert [kind for kind, _ in b.reports] == ["waiting", "working"]

    run(case)
