"""Memory for requests: what does not fit waits, and what is too much is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from runners.gateway.room import MAX_REQUEST_BYTES, Crowded, Room, size_of
from tests.runners.gateway.test_hang_ups import ANSWER
from tests.runners.gateway.test_server import Bench, bench
from tests.waiting import PATIENCE_SECONDS, until_async


def run(case: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(case(), PATIENCE_SECONDS))


def test_requests_that_do_not_fit_wait_for_their_turn() -> None:
    async def case() -> None:
        room, held, go = Room(10), [], [asyncio.Event() for _ in range(4)]

        async def request(number: int, size: int) -> None:
            async with room.hold(size):
                held.append(number)
                await go[number].wait()
                held.remove(number)

        sizes = (6, 6, 4, 1)
        tasks = [asyncio.create_task(request(*each)) for each in enumerate(sizes)]
        await until_async(lambda: held == [0], lambda: held)
        go[0].set()
        await until_async(lambda: held == [1, 2], lambda: held)
        tasks[1].cancel()
        await until_async(lambda: sorted(held) == [1, 2, 3], lambda: held)
        for each in go:
            each.set()
        await asyncio.gather(*tasks, return_exceptions=True)
        async with room.hold(10):
            pass

    run(case)


def test_request_that_leaves_while_it_waits_gives_its_turn_to_the_next() -> None:
    async def case() -> None:
        room, order = Room(10), []

        async def request(name: str, size: int) -> None:
            async with room.hold(size):
                order.append(name)

        async with room.hold(8):
            large, small = (
                asyncio.create_task(request(*each)) for each in (("large", 5), ("small", 2))
            )
            await asyncio.sleep(0)
            assert order == []
            large.cancel()
            await small
            assert order == ["small"]

    run(case)


def test_request_of_unknown_size_takes_the_most() -> None:
    async def case() -> None:
        room, order = Room(MAX_REQUEST_BYTES + 1), []

        async def request(size: int) -> None:
            async with room.hold(size):
                order.append(size)

        async with room.hold(None):
            large = asyncio.create_task(request(2))
            await asyncio.sleep(0)
            assert order == []
        await large

    run(case)


@pytest.mark.parametrize(
    ("headers", "size"),
    [({}, 7), ({"content-encoding": "gzip"}, None), ({"content-encoding": "deflate"}, None)],
)
def test_packed_request_is_one_of_unknown_size(headers: dict[str, str], size: int | None) -> None:
    """Since 32 KB of it can be 32 MiB, and an agent sends many."""
    request = make_mocked_request("POST", "/", headers={"content-length": "7", **headers})
    assert size_of(request) == size


def test_requests_beyond_their_number_are_refused() -> None:
    async def case() -> None:
        room = Room(10, requests=2)
        async with room.hold(1), room.hold(1):
            with pytest.raises(Crowded):
                async with room.hold(1):
                    pass
        async with room.hold(1):
            pass

    run(case)


def test_gateway_holds_few_large_requests_at_a_time() -> None:
    active: list[int] = []
    peaks: list[int] = []

    async def answer(request: web.Request, b: Bench) -> web.StreamResponse:
        active.append(1)
        peaks.append(len(active))
        if len(peaks) == 1:
            await until_async(lambda: len(peaks) > 1, lambda: peaks)
        active.pop()
        return web.json_response(ANSWER)

    async def case() -> None:
        async with bench(answer) as b:
            body = {"model": "m-1", "messages": "x" * (MAX_REQUEST_BYTES - 1000)}
            sent = [asyncio.create_task(b.post(body=body)) for _ in range(5)]
            assert {status for status, _ in await asyncio.gather(*sent)} == {200}
            assert len(b.requests) == 5 and max(peaks) == 2

    run(case)


def test_gateway_refuses_a_request_that_is_too_large() -> None:
    async def case() -> None:
        async with bench() as b:
            body = {"model": "m-1", "messages": "x" * (MAX_REQUEST_BYTES + 1000)}
            assert (await b.post(body=body))[0] == 413
            assert b.requests == []

    run(case)
