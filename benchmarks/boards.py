"""Server time of the boards over many results, and how it grows with their number.

    python benchmarks/boards.py fill --measurements 1000000
    python benchmarks/boards.py measure --name sqlite-1000000

The database is that of DATABASE_URL; `fill` wants an empty one. Times are those of the server
alone: middleware, view and template, in one process that has started. The first request of the
process reads the results, and that of each page loads its code; both are listed apart. Filters are
drawn at random, so that most boards are computed anew. `cpu_` is the processor's time, which
neighbours disturb less. `--paint` adds the first contentful paint in Chromium, from a server of its
own on this machine.
"""

from __future__ import annotations

import argparse
import gzip
import importlib
import json
import os
import random
import socket
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import date, timedelta
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
OUTPUT = ROOT / "benchmarks/results/boards.json"
REQUESTS = 60
VERDICTS = 10
PAINTED = ("/", "/leaderboard/", "/tasks/", "/analysis/", "/agents/agent-01/")
CHROMIUM = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    filling = commands.add_parser("fill", help="write results into an empty database")
    filling.add_argument("--measurements", type=int, default=1_000_000)
    measuring = commands.add_parser("measure", help="time requests, and write the figures")
    measuring.add_argument("--name", required=True, help="of these figures in the file of results")
    measuring.add_argument("--output", type=Path, default=OUTPUT)
    measuring.add_argument("--paint", action="store_true", help="and open pages in Chromium")
    options = parser.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "arena.settings")
    import django.core.management

    django.setup()
    from benchmarks import board_data

    if options.command == "fill":
        print(json.dumps(board_data.fill(options.measurements)))
        return
    django.core.management.call_command("migrate", verbosity=0)
    figures = measure()
    if options.paint:
        figures["first_contentful_paint_ms"] = paint()
    results = json.loads(options.output.read_text()) if options.output.exists() else {}
    command = f"python benchmarks/boards.py measure --name {options.name}"
    results[options.name] = {"command": command + " --paint" * options.paint} | figures
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(results, indent=2, sort_keys=True) + "\n")
    print(json.dumps(figures, indent=2))


def measure() -> dict[str, Any]:
    """Return the figures of this database."""
    from django.db import connection

    from arena.runs.models import Measurement, Run, Standing
    from benchmarks.shared import now
    from benchmarks.watchers import fingerprint

    importlib.import_module("arena.asgi")  # which prepares the process for requests
    dice = random.Random(1)
    cold = _seconds("/")
    pages, firsts = {}, {}
    for name, address in PAGES.items():
        firsts[name] = round(1e3 * _seconds(address(dice)), 1)
        pages[name] = _timed([address(dice) for _ in range(REQUESTS)])
        print(f"{name}: {pages[name]}", file=sys.stderr, flush=True)  # if it is interrupted
    return {
        "at": now(),
        "fingerprint": fingerprint() | {"database": connection.vendor},
        "rows": {
            "measurements": Measurement.objects.count(),
            "runs": Run.objects.count(),
            "standings": Standing.objects.count(),
        },
        "load": os.getloadavg()[0],
        "first_request_of_a_process_ms": round(1e3 * cold, 1),
        "first_request_of_a_page_ms": firsts,
        "server_ms": pages,
        "verdict_to_board_ms": verdict_to_board(),
        "bytes": {name: weight(address(dice)) for name, address in PAGES.items()},
    }


def verdict_to_board() -> dict[str, float]:
    """Return the time from the start of the transaction that ends a run to the changed board."""
    from django.utils import timezone

    from arena.runs.models import Run
    from arena.runs.services.runs import end_run

    times = []
    for number in range(VERDICTS):
        like = Run.objects.filter(status="passed").order_by("pk")[number]
        now = timezone.now()
        place = ("task_version_id", "agent_id", "hardware_id", "repeat")
        values = {name: getattr(like, name) for name in place}
        run = Run.objects.create(**values, status="judging", started_at=now)
        _seconds(f"/leaderboard/?hardware={like.hardware.slug}")
        speedup = 100.0 + number
        scores = {"unseen_speedup": speedup, "unseen_low": speedup, "unseen_high": speedup}
        began = time.perf_counter()
        end_run(run.pk, {}, "passed", **scores, speedup=speedup, low=speedup, high=speedup)
        _seconds(f"/leaderboard/?hardware={like.hardware.slug}")
        times.append(time.perf_counter() - began)
        run.delete()
    return _figures(times)


def paint() -> dict[str, float]:
    """Return the first contentful paint of some pages in Chromium, the median of three visits."""
    from playwright.sync_api import sync_playwright

    found = {}
    with _server() as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=os.environ.get("CHROMIUM", "/usr/bin/chromium"), args=list(CHROMIUM)
        )
        for path in PAINTED:
            times = []
            for _ in range(3):
                page = browser.new_page(viewport={"width": 1440, "height": 900})
                page.goto(address + path, wait_until="load")
                script = (
                    "() => new Promise(done => new PerformanceObserver(list =>"
                    " done(list.getEntriesByName('first-contentful-paint')[0].startTime))"
                    ".observe({type: 'paint', buffered: true}))"
                )
                times.append(page.evaluate(script))
                page.close()
            found[path] = round(statistics.median(times), 1)
        browser.close()
    return found


@contextmanager
def _server() -> Iterator[str]:
    """Serve the arena on a free port of this machine."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    command = (sys.executable, "-m", "arena.web_server", "-p", str(port))
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    address = f"http://127.0.0.1:{port}"
    try:
        for _ in range(300):
            try:
                with urllib.request.urlopen(address, timeout=10):
                    break
            except OSError:
                if process.poll() is not None:
                    assert process.stderr
                    raise SystemExit(process.stderr.read().decode()[-2000:]) from None
                time.sleep(0.1)
        yield address
    finally:
        process.terminate()
        process.wait()


def weight(address: str) -> dict[str, int]:
    """Return the bytes of a page, and those that gzip leaves."""
    content = _get(address)
    return {"html": len(content), "gzip": len(gzip.compress(content))}


def _timed(addresses: Sequence[str]) -> dict[str, float]:
    walls, cpus = [], []
    for address in addresses:
        cpu = time.process_time()
        walls.append(_seconds(address))
        cpus.append(time.process_time() - cpu)
    return _figures(walls) | {f"cpu_{name}": value for name, value in _figures(cpus).items()}


def _seconds(address: str) -> float:
    began = time.perf_counter()
    _get(address)
    return time.perf_counter() - began


@cache
def _client() -> Any:
    """Return the client of this process, which loads the middleware once, as a server does."""
    from django.test import Client

    return Client(SERVER_NAME="localhost")


def _get(address: str) -> bytes:
    answer = _client().get(address)
    if answer.status_code != 200:
        raise SystemExit(f"{address}: {answer.status_code}")
    return bytes(answer.content)


def _figures(seconds: Sequence[float]) -> dict[str, float]:
    """Return median, 95th percentile and maximum in milliseconds."""
    ordered = sorted(seconds)
    p95 = ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))]
    values = {"p50": statistics.median(ordered), "p95": p95, "max": ordered[-1]}
    return {name: round(1e3 * value, 1) for name, value in values.items()}


def _filters(dice: random.Random) -> str:
    """Return a device and one to three other filters, drawn at random."""
    from benchmarks.board_data import (
        CATEGORIES,
        DAYS,
        DEVICES,
        EXPERIMENTS,
        FAMILIES,
        HARNESSES,
        MODELS,
        TRACKS,
    )

    today = date.today()
    values = {
        "category": lambda: dice.choice(CATEGORIES),
        "track": lambda: dice.choice(TRACKS),
        "family": lambda: dice.choice(FAMILIES),
        "model": lambda: f"model-{dice.randrange(MODELS)}",
        "harness": lambda: f"harness-{dice.randrange(HARNESSES)}",
        "experiment": lambda: f"experiment-{dice.randrange(EXPERIMENTS)}",
        "since": lambda: str(today - timedelta(days=dice.randrange(DAYS))),
        "until": lambda: str(today - timedelta(days=dice.randrange(DAYS))),
        "generalization": lambda: dice.choice(["seen", "unseen"]),
        "score": lambda: dice.choice(["speedup", "sol"]),
    }
    names = dice.sample(sorted(values), dice.randint(1, 3))
    chosen = {"hardware": f"device-{dice.randrange(DEVICES)}"}
    return urlencode(chosen | {name: values[name]() for name in names})


def _task(dice: random.Random) -> str:
    from benchmarks.board_data import OPERATORS, TRACKS

    return f"/tasks/operator_{dice.randrange(OPERATORS):03}/{dice.choice(TRACKS)}/"


def _analysis(dice: random.Random) -> str:
    from benchmarks.board_data import CATEGORIES, DEVICES

    values = {
        "hardware": f"device-{dice.randrange(DEVICES)}",
        "category": dice.choice(CATEGORIES),
        "agent": f"agent-{dice.randrange(60):02}",
    }
    names = dice.sample(sorted(values), dice.randint(0, 2))
    return "/analysis/?" + urlencode({name: values[name] for name in names})


PAGES: dict[str, Callable[[random.Random], str]] = {
    "home": lambda dice: "/",
    "leaderboard": lambda dice: f"/leaderboard/?hardware=device-{dice.randrange(4)}",
    "leaderboard with filters": lambda dice: f"/leaderboard/?{_filters(dice)}",
    "heatmap": lambda dice: f"/leaderboard/parts/categories/?{_filters(dice)}",
    "agent": lambda dice: f"/agents/agent-{dice.randrange(60):02}/",
    "agent's failures": lambda dice: f"/agents/agent-{dice.randrange(60):02}/failures/",
    "agents": lambda dice: "/agents/",
    "task": _task,
    "tasks": lambda dice: f"/tasks/?page={dice.randrange(1, 20)}",
    "runs": lambda dice: f"/runs/?page={dice.randrange(1, 50)}",
    "runs of a task": lambda dice: f"/runs/?task=operator_{dice.randrange(250):03}",
    "experiments": lambda dice: "/experiments/",
    "API leaderboard": lambda dice: f"/api/v1/leaderboard?{_filters(dice)}",
    "API records": lambda dice: "/api/v1/leaderboard/records?limit=20",
    "API runs": lambda dice: "/api/v1/runs?limit=20",
    "analysis": _analysis,
}

if __name__ == "__main__":
    main()
