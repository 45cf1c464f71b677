"""Benchmarks of the model gateway: latency that it adds, 20 runs at once, and cost of calls.

    python benchmarks/gateway.py [--pairs 2000] [--seconds 20] [--output FILE]

1. First byte: a streamed request of 60 KB on a warm connection, directly and through the gateway in
   turn. Each pair gives a difference.
2. Streams: 20 gateways stream at once, 50 events a second each. An event carries its time of
   sending, so its delay is known. Then 20 streams without pauses give the throughput. Every byte
   must arrive.
3. Costs: answers in the documented form of each provider, with the cost computed by hand beside it.

The provider is a process on this machine, and each gateway a process as a run has it, which also
writes its recording. Run it on an idle machine.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import hashlib
import http.client
import json
import os
import platform
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.gateway_costs import ANSWERS, Answer
from benchmarks.shared import ROOT, now, write_json
from evaluation.bench.devices.vendors.cpu import processor_name

TOKEN, KEY = "run-token", "sk-benchmark"
REQUEST_BYTES = 60_000
RUNS = 20
EVENTS_PER_SECOND = 50
EVENT_BYTES = 160
FAST_STREAM_BYTES = 8 << 20
WARM_UP_PAIRS = 100
PATH = "/v1/messages"
START_SECONDS = 30


def main() -> None:
    """Measure all three, and write the file of results."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pairs", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--output", type=Path, default=ROOT / "benchmarks/results/gateway-cpu.json")
    parser.add_argument("--provider", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.provider:
        asyncio.run(serve_provider())
        return
    with started_provider() as port:
        results = {
            "command": f"python benchmarks/gateway.py --pairs {options.pairs}"
            f" --seconds {options.seconds:g}",
            "at": now(),
            "fingerprint": fingerprint(),
            "load_average": os.getloadavg(),
            "first_byte": measure_first_byte(port, options.pairs),
            "streams": asyncio.run(measure_streams(port, options.seconds)),
            "costs": compare_costs(port),
        }
    write_json(options.output, results)
    print(json.dumps(results, indent=2))


def fingerprint() -> dict[str, Any]:
    """Return this machine, its Python and aiohttp, and the gateway's source."""
    digest = hashlib.sha256()
    for path in sorted((ROOT / "runners/gateway").glob("*.py")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return {
        "cpu": processor_name(),
        "cores": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "aiohttp": aiohttp.__version__,
        "gateway_source": digest.hexdigest()[:12],
    }


# The provider


async def serve_provider() -> None:
    """Serve as a provider in this process, until stdin ends; its port is the first line."""

    async def answer(request: web.Request) -> web.StreamResponse:
        asked = json.loads(await request.read())
        model = asked["model"]
        if model.startswith("answer-"):
            body, kind = bodies[int(model.removeprefix("answer-"))]
            return web.Response(body=body, content_type=kind)
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        if model == "paced":
            await send_paced(response, asked["events"])
        else:
            pieces = {"first": [event(0)], "fast": fast_pieces}[model]
            for piece in pieces:
                await response.write(piece)
        await response.write_eof()
        return response

    async def send_paced(response: web.StreamResponse, count: int) -> None:
        began = time.monotonic()
        for number in range(count):
            await asyncio.sleep(max(0.0, began + number / EVENTS_PER_SECOND - time.monotonic()))
            await response.write(event(number))

    bodies = [(each.body, each.content_type) for each in ANSWERS]
    fast_pieces = list(fast_stream())
    app = web.Application(client_max_size=1 << 20)
    app.router.add_post("/{path:.*}", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await runner.cleanup()


def event(number: int) -> bytes:
    """Return an event of Messages with its number and its time of sending, padded."""
    text = f"{number} {time.monotonic_ns()} "
    data = {"type": "content_block_delta", "delta": {"type": "text_delta", "text": text}}
    line = f"data: {json.dumps(data)}"
    return f"{line}{' ' * (EVENT_BYTES - 2 - len(line))}\n\n".encode()


def fast_stream() -> Iterator[bytes]:
    """Return a stream without times, so that its digest is known."""
    data = {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "x" * 1000}}
    piece = f"data: {json.dumps(data)}\n\n".encode() * 4
    for _ in range(FAST_STREAM_BYTES // len(piece)):
        yield piece


@contextlib.contextmanager
def started_provider() -> Iterator[int]:
    """Start the provider; the value is its port."""
    command = [sys.executable, str(Path(__file__)), "--provider"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin and process.stdout
        yield int(process.stdout.readline())
        process.stdin.close()


# The gateway


class GatewayProcess:
    """A gateway as an attempt starts it, but with a listening socket of this network."""

    def __init__(self, provider_port: int, folder: str, wires: Sequence[str] = ("messages",)):
        ours, theirs = socket.socketpair()
        configuration = {
            "provider": {
                "name": "benchmark",
                "wires": wires,
                "base_url": f"http://127.0.0.1:{provider_port}/v1",
            },
            "key": KEY,
            "settings": {"token": TOKEN},
            "record": f"{folder}/{time.monotonic_ns()}.jsonl",
            "replay": "",
        }
        self.process = subprocess.Popen(
            [sys.executable, "-m", "runners.gateway", str(theirs.fileno())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=(theirs.fileno(),),
            cwd=ROOT,
            text=True,
        )
        assert self.process.stdin
        self._reports: list[dict[str, Any]] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        self.process.stdin.write(json.dumps(configuration))
        self.process.stdin.close()
        theirs.close()
        attempts, self._no_attempts = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        with socket.create_server(("127.0.0.1", 0)) as listener, ours, attempts:
            self.port = listener.getsockname()[1]
            socket.send_fds(ours, [b"loopback"], [listener.fileno(), attempts.fileno()])

    def __enter__(self) -> GatewayProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self._reader.join()
        self.process.wait()
        self._no_attempts.close()

    def _read(self) -> None:
        assert self.process.stdout
        self._reports += map(json.loads, self.process.stdout)

    def calls(self) -> list[dict[str, Any]]:
        """End the gateway and return the calls that it reported."""
        self.process.terminate()
        self._reader.join()
        return [report for report in self._reports if report["kind"] == "model_call"]


# First byte


def measure_first_byte(provider_port: int, pairs: int) -> dict[str, Any]:
    """Return quantiles of the first byte's latency, in milliseconds."""
    body = request("first", text="x" * REQUEST_BYTES)
    times: dict[str, list[float]] = {"direct": [], "through": []}
    with tempfile.TemporaryDirectory() as folder, GatewayProcess(provider_port, folder) as gateway:
        ports = {"direct": provider_port, "through": gateway.port}
        with ExitStack() as stack:
            clients = {
                name: stack.enter_context(contextlib.closing(connected(port)))
                for name, port in ports.items()
            }
            for number in range(WARM_UP_PAIRS + pairs):
                for name in random.sample(sorted(clients), 2):
                    seconds = first_byte_seconds(clients[name], body)
                    if number >= WARM_UP_PAIRS:
                        times[name].append(1000 * seconds)
    added = [t - d for t, d in zip(times["through"], times["direct"], strict=True)]
    return {
        "unit": "ms",
        "pairs": pairs,
        "request_bytes": len(body),
        **{name: quantiles(values) for name, values in times.items()},
        "added": quantiles(added),
    }


def connected(port: int) -> http.client.HTTPConnection:
    """Return a connection that is open and does not delay small packets."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=START_SECONDS)
    connection.connect()
    connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def first_byte_seconds(connection: http.client.HTTPConnection, body: bytes) -> float:
    """Return the time from the request to the first byte of the answer's body."""
    headers = {"x-api-key": TOKEN, "content-type": "application/json"}
    began = time.perf_counter()
    connection.request("POST", PATH, body, headers)
    answer = connection.getresponse()
    first = answer.read(1)
    seconds = time.perf_counter() - began
    rest = answer.read()
    if answer.status != 200 or len(first + rest) != EVENT_BYTES:
        raise SystemExit(f"HTTP {answer.status} with {len(first + rest)} bytes")
    return seconds


def request(model: str, **fields: Any) -> bytes:
    """Return a request's body."""
    return json.dumps({"model": model, "stream": True, **fields}).encode()


def quantiles(values: Sequence[float]) -> dict[str, float]:
    """Return the median, 99th percentile and maximum, rounded."""
    ordered = statistics.quantiles(values, n=100)
    return {
        "p50": round(ordered[49], 3),
        "p99": round(ordered[98], 3),
        "max": round(max(values), 3),
    }


# Streams


async def measure_streams(provider_port: int, seconds: float) -> dict[str, Any]:
    """Return delays and throughput of 20 streams at once, directly and through gateways."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        gateways = [stack.enter_context(GatewayProcess(provider_port, folder)) for _ in range(RUNS)]
        ports = {"direct": [provider_port] * RUNS, "through": [each.port for each in gateways]}
        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0), timeout=aiohttp.ClientTimeout(total=None)
        ) as client:
            for each in ports.values():  # open connections
                await asyncio.gather(*(read_fast(client, port) for port in each))
            count = int(seconds * EVENTS_PER_SECOND)
            paced = {name: await stream_paced(client, each, count) for name, each in ports.items()}
            fast = {name: await stream_fast(client, each) for name, each in ports.items()}
        reported = [len(gateway.calls()) for gateway in gateways]
    if reported != [3] * RUNS:
        raise SystemExit(f"gateways reported {reported} calls, not 3 each")
    return {
        "runs": RUNS,
        "events_per_second_each": EVENTS_PER_SECOND,
        "delay_ms": paced,
        "megabytes_per_second": fast,
    }


async def stream_paced(
    client: aiohttp.ClientSession, ports: Sequence[int], count: int
) -> dict[str, Any]:
    """Return the delays of events over all streams, and the number of bytes that were lost."""

    async def read(port: int, wait: float) -> tuple[list[float], int]:
        await asyncio.sleep(wait)
        delays, rest, size, expected = [], b"", 0, 0
        body = request("paced", events=count)
        headers = {"x-api-key": TOKEN}
        url = f"http://127.0.0.1:{port}{PATH}"
        async with client.post(url, data=body, headers=headers) as answer:
            async for piece in answer.content.iter_any():
                at = time.monotonic_ns()
                size += len(piece)
                *events, rest = (rest + piece).split(b"\n\n")
                for each in events:
                    number, sent, _ = json.loads(each[6:])["delta"]["text"].split(" ")
                    if int(number) != expected:
                        raise SystemExit(f"event {number} where {expected} was expected")
                    expected += 1
                    delays.append((at - int(sent)) / 1e6)
        return delays, count * EVENT_BYTES - size

    # Spread over an interval between events, as streams of independent runs are.
    spread = [number / RUNS / EVENTS_PER_SECOND for number in range(RUNS)]
    found = await asyncio.gather(*(read(*each) for each in zip(ports, spread, strict=True)))
    return {
        **quantiles([delay for delays, _ in found for delay in delays]),
        "events": sum(len(delays) for delays, _ in found),
        "lost_bytes": sum(lost for _, lost in found),
    }


async def stream_fast(client: aiohttp.ClientSession, ports: Sequence[int]) -> float:
    """Return the throughput of all streams together, in megabytes a second."""
    began = time.perf_counter()
    await asyncio.gather(*(read_fast(client, port) for port in ports))
    seconds = time.perf_counter() - began
    return round(RUNS * FAST_STREAM_BYTES / 1e6 / seconds, 1)


async def read_fast(client: aiohttp.ClientSession, port: int) -> None:
    """Read a stream without pauses. Raises: SystemExit where its bytes are not those sent."""
    digest = hashlib.sha256()
    headers = {"x-api-key": TOKEN}
    url = f"http://127.0.0.1:{port}{PATH}"
    async with client.post(url, data=request("fast"), headers=headers) as answer:
        async for piece in answer.content.iter_any():
            digest.update(piece)
    if digest.digest() != hashlib.sha256(b"".join(fast_stream())).digest():
        raise SystemExit("a stream arrived with other bytes than were sent")


# Costs


def compare_costs(provider_port: int) -> list[dict[str, Any]]:
    """Return the cost of each recorded answer beside the computation by hand.

    Raises: SystemExit where they differ by more than rounding.
    """
    return [compare_cost(provider_port, number, each) for number, each in enumerate(ANSWERS)]


def compare_cost(provider_port: int, number: int, answer: Answer) -> dict[str, Any]:
    with (
        tempfile.TemporaryDirectory() as folder,
        GatewayProcess(provider_port, folder, [answer.wire]) as gateway,
    ):
        client = connected(gateway.port)
        headers = {"x-api-key": TOKEN}
        client.request("POST", answer.path, request(f"answer-{number}"), headers)
        received = client.getresponse().read()
        client.close()
        (call,) = gateway.calls()
    if received != answer.body:
        raise SystemExit(f"the answer of {answer.provider} arrived changed")
    cost = answer.cost(call["usage"])
    if cost is None or abs(cost - answer.dollars) > 1e-12:
        raise SystemExit(f"{answer.provider}: {cost} dollars, and {answer.dollars} by hand")
    return {
        "provider": answer.provider,
        "model": answer.model,
        "wire": answer.wire,
        "usage": call["usage"],
        "dollars": cost,
        "by_hand": answer.by_hand,
    }


if __name__ == "__main__":
    main()
