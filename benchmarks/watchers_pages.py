"""Pages that watch runs as `static/js/follow.js` does, for `benchmarks/watchers.py`.

Input is two lines of JSON: the port, runs and count; later the times of events and the rows and
parts that each page must have in the end. Output is a line when all have joined, and the results.
"""

from __future__ import annotations

import asyncio
import bisect
import functools
import json
import random
import re
import statistics
import sys
import time
from collections.abc import Sequence
from typing import Any

import aiohttp

ROW = re.compile(r'id="e(\d+)" data-seq="\d+" data-rev="(\d+)"')
LAST_SEQ = re.compile(r'data-last-seq="(\d+)"')
CONFIRM_CHARACTERS = 64 * 1024
KILL_SECONDS = 1.0
END_SECONDS = 40


@functools.lru_cache(64)
def parsed(text: str) -> tuple[dict[str, Any], list[tuple[int, int]]]:
    """Return a frame and its rows; all pages of a run receive the same text."""
    frame = json.loads(text)
    return frame, rows_of(frame["html"])


@functools.lru_cache(64)
def rows_of(html: str) -> list[tuple[int, int]]:
    return [(int(seq), int(rev)) for seq, rev in ROW.findall(html)]


class Page:
    """One open page: its cursor over time, the revision of each row, and the summary's parts."""

    def __init__(self, session: aiohttp.ClientSession, run: str, cursor: int) -> None:
        self.session = session
        self.run = run
        self.began = self.cursor = self.wanted = cursor
        self.cursors: list[int] = [cursor]
        self.times: list[float] = [time.monotonic()]
        self.rows: dict[int, int] = {}
        self.parts: dict[str, str] = {}
        self.joined = asyncio.Event()
        self.ended = asyncio.Event()
        self.over = False
        self.socket: aiohttp.ClientWebSocketResponse | None = None
        self.fetching: asyncio.Task[None] | None = None
        self.away: list[tuple[float, float]] = []
        self.counts = {"killed": 0, "closed_by_server": 0, "requests": 0, "rows_sent_again": 0}

    async def follow(self) -> None:
        failures = 0
        lost_at = 0.0
        while not self.ended.is_set():
            killed = self.counts["killed"]
            try:
                async with self.session.ws_connect(f"/ws/runs/{self.run}/", max_msg_size=0) as ws:
                    if lost_at:
                        self.away.append((lost_at, time.monotonic()))
                    self.socket, failures = ws, 0
                    await self._receive(ws)
            except (aiohttp.ClientError, OSError):
                pass
            self.socket = None
            if self.ended.is_set():
                break
            lost_at = time.monotonic()
            self.counts["closed_by_server"] += self.counts["killed"] == killed
            failures += 1
            pause = min(10, 0.15 * 2 ** (failures - 1)) * (0.75 + random.random() / 2)
            await asyncio.sleep(pause)

    async def _receive(self, ws: aiohttp.ClientWebSocketResponse) -> None:
        received = confirmed = 0
        async for message in ws:
            if message.type != aiohttp.WSMsgType.TEXT:
                break
            self._take(*parsed(message.data))
            received += len(message.data)
            if received - confirmed >= CONFIRM_CHARACTERS:
                confirmed = received
                await ws.send_str(json.dumps({"seen": received}))
            if self.ended.is_set():
                break

    def _take(self, frame: dict[str, Any], rows: list[tuple[int, int]]) -> None:
        self.parts |= frame["parts"]
        self.joined.set()
        self.wanted = max(self.wanted, frame["cursor"])
        self.over = frame["ended"]
        if frame["after"] <= self.cursor < frame["cursor"]:
            self._put(rows, frame["cursor"])
        if frame["cursor"] > self.cursor:
            if self.fetching is None:
                self.fetching = asyncio.create_task(self._fetch())
        elif self.over:
            self.ended.set()

    def _put(self, rows: list[tuple[int, int]], cursor: int) -> None:
        for seq, rev in rows:
            if rev > self.rows.get(seq, 0):
                self.rows[seq] = rev
            else:
                self.counts["rows_sent_again"] += 1
        if cursor > self.cursor:
            self.cursor = cursor
            self.cursors.append(cursor)
            self.times.append(time.monotonic())

    async def _fetch(self) -> None:
        try:
            while self.cursor < self.wanted:
                self.counts["requests"] += 1
                url = f"/runs/{self.run}/events/?after={self.cursor}"
                async with self.session.get(url) as answer:
                    answer.raise_for_status()
                    html = await answer.text()
                self.wanted = max(self.wanted, int(answer.headers["X-Arena-Last-Seq"]))
                self._put(rows_of(html), int(answer.headers["X-Arena-Cursor"]))
            if self.over:
                self.ended.set()
        except (aiohttp.ClientError, OSError):
            if self.socket:
                await self.socket.close()
        finally:
            self.fetching = None

    def kill(self) -> None:
        """Break the connection, as a network does."""
        connection = self.socket and self.socket._response.connection
        if connection and connection.transport:
            self.counts["killed"] += 1
            connection.transport.abort()

    def delays(self, times: dict[str, float]) -> tuple[list[float], list[float]]:
        """Return milliseconds until each event was here: of all, and of those without a kill."""
        found, calm = [], []
        for seq, at in times.items():
            place = bisect.bisect_left(self.cursors, int(seq))
            if place == len(self.cursors):
                continue
            seen = self.times[place]
            found.append(1000 * (seen - at))
            if not any(begin - 0.2 < seen and at < end + 0.5 for begin, end in self.away):
                calm.append(found[-1])
        return found, calm


def quantiles(values: Sequence[float]) -> dict[str, float]:
    ordered = statistics.quantiles(values, n=100)
    named = {"p50": ordered[49], "p95": ordered[94], "p99": ordered[98], "max": max(values)}
    return {name: round(value, 1) for name, value in named.items()}


def results(pages: list[Page], times: dict[str, Any], truth: dict[str, Any]) -> dict[str, Any]:
    delays, calm, lost, parts = [], [], 0, 0
    for page in pages:
        every, some = page.delays(times[page.run])
        delays += every
        calm += some
        wanted = {int(seq): rev for seq, rev in truth[page.run]["rows"].items()}
        wanted = {seq: rev for seq, rev in wanted.items() if seq > page.began}
        own = {seq: rev for seq, rev in page.rows.items() if seq > page.began}
        lost += len(wanted.items() ^ own.items())
        lost += len(times[page.run]) - len(every)
        parts += sum(
            page.parts.get(name) != html for name, html in truth[page.run]["parts"].items()
        )
    counts = {name: sum(page.counts[name] for page in pages) for name in pages[0].counts}
    return {
        "delay_ms": quantiles(delays),
        "delay_ms_without_kills": quantiles(calm),
        "deliveries": len(delays),
        "rows_lost_or_wrong": lost,
        "parts_wrong": parts,
        "pages_that_saw_the_end": sum(page.ended.is_set() for page in pages),
        **counts,
    }


async def main() -> None:
    config = json.loads(await asyncio.to_thread(sys.stdin.readline))
    origin = f"http://127.0.0.1:{config['port']}"
    connector = aiohttp.TCPConnector(limit=0)
    headers = {"Origin": origin}
    async with aiohttp.ClientSession(origin, connector=connector, headers=headers) as session:
        cursors = {}
        for run in config["runs"]:
            async with session.get(f"/runs/{run}/") as answer:
                cursors[run] = int(LAST_SEQ.findall(await answer.text())[0])
        pages, followers = [], []
        for number in range(config["count"]):
            run = config["runs"][number % len(config["runs"])]
            pages.append(Page(session, run, cursors[run]))
            followers.append(asyncio.create_task(pages[-1].follow()))
            if number % 20 == 19:
                await pages[-1].joined.wait()
        for page in pages:
            await page.joined.wait()
        print(json.dumps({"joined": len(pages)}), flush=True)
        order = asyncio.create_task(asyncio.to_thread(sys.stdin.readline))
        while not order.done():
            await asyncio.wait([order], timeout=KILL_SECONDS)
            if not order.done():
                random.choice(pages).kill()
        wanted = json.loads(order.result())
        ends = [asyncio.create_task(page.ended.wait()) for page in pages]
        await asyncio.wait(ends, timeout=END_SECONDS)
        print(json.dumps(results(pages, wanted["times"], wanted["truth"])), flush=True)
        for each in [*ends, *followers]:
            each.cancel()


if __name__ == "__main__":
    asyncio.run(main())
