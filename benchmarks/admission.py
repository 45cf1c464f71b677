"""Admission of every task that this machine can judge: a file of results for each device kind.

    python benchmarks/admission.py [PATTERN ...] [--self-test] [--within SECONDS] [--cache FOLDER]
        [--output FILE]

Checks the tasks for the machine's GPUs, one on each at a time, or without a GPU those for its CPU,
in the order of the PATTERNs. Tasks whose current version is in FILE are skipped, so that a run can
be continued. No task is started later than SECONDS after the start.

With --self-test, trivial submissions and mutants are judged too, for operators that have mutants of
their own. A result says by its number of answers in which form a task was checked: without probes
it was no self-test, and is not current for one. A self-test is current for both forms. One process
for each device checks many tasks in turn, since starting a judge takes seconds.
"""

from __future__ import annotations

import functools
import json
import multiprocessing
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
os.environ["GOMP_SPINCOUNT"] = "0"  # as for the judge: threads sleep while a candidate is timed

import torch

from benchmarks.shared import ROOT, is_current, now, resumable_parser, write_json
from evaluation.bench.devices import detect
from evaluation.bench.devices.cores import shares
from evaluation.bench.devices.device import Device
from evaluation.bench.process.fork_server import ForkServer
from evaluation.code.languages import languages
from evaluation.device_kind import CPU, GPU, gpu_vendor
from evaluation.errors import Broken, Inconclusive, TaskError
from evaluation.kinds.kernel.admission.admit import admit, is_self_test
from evaluation.kinds.kernel.load import load_task, load_tasks
from evaluation.tasks.spec import Task, find_operators, folder_of
from evaluation.types import to_json
from runners.worker.bench import TURNS, Bench, taken


def pool(environment: Mapping[str, str]) -> Executor:
    """Return a process for many tasks, with variables beside those of this one."""
    return ProcessPoolExecutor(
        1,
        multiprocessing.get_context("spawn"),
        initializer=_add_to_environment,
        initargs=(dict(environment),),
        max_tasks_per_child=TURNS,
    )


def _add_to_environment(variables: Mapping[str, str]) -> None:
    os.environ.update(variables)


def admission_of(slug: str, kind: str, cache: Path, self_test: bool) -> Any:
    """Check a task in this process: return its admission as JSON data, or why there is none."""
    try:
        task = load_task(ROOT / "tasks", *slug.split("/"), kind)
        return to_json(admit(task, cache, fork_server=_fork_server(), self_test=self_test))
    except (Broken, Inconclusive, TaskError, ValueError) as error:
        _fork_server.cache_clear()  # it may be what failed
        return str(error)


@functools.cache
def _fork_server() -> ForkServer:
    """Return the fork server of this process, with which it ends."""
    server = ForkServer()
    if gpu_vendor():
        server.prepare("triton")
    server.prepare("torch")
    return server


Start = Callable[[Mapping[str, str]], Executor]
Check = Callable[[str, str, Path, bool], Any]


def main(
    arguments: Sequence[str] | None = None,
    devices_here: Callable[..., Sequence[Device]] = detect.devices,
    start: Start = pool,
    check: Check = admission_of,
) -> int:
    """Check the chosen tasks; the exit code is 0 if all are admitted.

    `start` makes the process of a device, in which `check` returns an admission.
    """
    parser = resumable_parser(__doc__.partition("\n")[0])
    parser.add_argument(
        "--self-test",
        action="store_true",
        help="also judge trivial submissions and mutants, if an operator has its own",
    )
    options = parser.parse_args(arguments)
    cache = options.cache.absolute()
    devices = _devices(cache, devices_here)
    output = options.output or ROOT / f"benchmarks/results/admission-{devices[0].kind}.json"
    known = json.loads(output.read_text())["tasks"] if output.is_file() else {}
    here = [
        task
        for name in find_operators(ROOT / "tasks")
        for task in load_tasks(folder_of(ROOT / "tasks", name))
        if task.kind == devices[0].kind and not languages()[task.track.target].runs_here()
    ]
    chosen = [t for p in options.patterns for t in here if fnmatchcase(t.slug, p)]
    tasks = list({task.slug: task for task in chosen}.values())
    self_test, end = options.self_test, time.monotonic() + options.within
    checks = Checks(devices, known, output, end, cache, self_test, partial(Worker, start, check))
    checks.run([task for task in tasks if not _is_current(known, task, self_test)])
    skipped = [task.slug for task in tasks if not _is_current(checks.results, task, self_test)]
    checked = [task.slug for task in tasks if task.slug not in skipped]
    refused = [slug for slug in checked if not checks.results[slug]["admitted"]]
    print(f"{len(checked) - len(refused)} of {len(tasks)} tasks are admitted")
    for label, slugs in (("refused", refused), ("not checked", skipped)):
        if slugs:
            print(f"{label}: {', '.join(slugs)}")
    return 1 if skipped or refused else 0


def _devices(cache: Path, here: Callable[..., Sequence[Device]]) -> list[Device]:
    """Return the GPUs of the first one's model, else the CPU."""
    gpus = [device for device in here(cache, (GPU,)) if not device.unjudged]
    devices = gpus or here(cache, (CPU,))
    return [device for device in devices if device.slug == devices[0].slug]


def _is_current(results: dict[str, Any], task: Task, self_test: bool) -> bool:
    """Return whether the results have this version of a task, by a judge whose admissions hold.

    A self-test counts for every request, and nothing else for a request of one.
    """
    result = results.get(task.slug, {})
    if not is_current(result, hash=task.hash, answers_hash=task.answers_hash):
        return False
    return bool(result["answers"]["probe"]) or not is_self_test(task, self_test)


class Worker:
    """A process that sees one device and checks one task at a time, on the cores of its starter."""

    def __init__(self, start: Start, check: Check, environment: Mapping[str, str]) -> None:
        self._start, self._check, self._environment = start, check, environment
        self._pool: Executor | None = None

    def admission(self, task: Task, cache: Path, self_test: bool) -> Any:
        """Return the admission of a task as JSON data. Raises ValueError where there is none."""
        self._pool = self._pool or self._start(self._environment)
        try:
            asked = (task.slug, task.kind, cache, self_test)
            found = self._pool.submit(self._check, *asked).result()
        except BrokenProcessPool:
            self.end()
            raise ValueError("its process ended") from None
        if isinstance(found, str):
            raise ValueError(found)
        return found

    def end(self) -> None:
        pool, self._pool = self._pool, None
        if pool:
            pool.shutdown()


class Checks:
    """Admissions of tasks, one on each device at a time; results are written after each."""

    def __init__(
        self,
        devices: list[Device],
        results: dict[str, Any],
        output: Path,
        end: float,
        cache: Path,
        self_test: bool,
        worker: Callable[[Mapping[str, str]], Worker],
    ) -> None:
        self.worker = worker
        self.devices, self.results, self.output = devices, results, output
        self.end, self.cache, self.self_test = end, cache, self_test
        self._queue: queue.SimpleQueue[Task] = queue.SimpleQueue()
        self._lock = threading.Lock()

    def run(self, tasks: list[Task]) -> None:
        """Check tasks until all are done or the time is over."""
        for task in tasks:
            self._queue.put(task)
        benches = [
            Bench(lock=device.uuid, environment=device.environment, cores=cores)
            for device, cores in zip(self.devices, shares(len(self.devices)), strict=True)
        ]
        threads = [threading.Thread(target=self._work, args=(bench,)) for bench in benches]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _work(self, bench: Bench) -> None:
        with taken([bench]):
            worker = self.worker(bench.environment)
            while time.monotonic() < self.end:
                try:
                    task = self._queue.get_nowait()
                except queue.Empty:
                    break
                self._check(task, bench, worker)
            worker.end()

    def _check(self, task: Task, bench: Bench, worker: Worker) -> None:
        """Record a task's admission; without one, report the judge's failure and skip the task."""
        started = time.perf_counter()
        try:
            admission = worker.admission(task, self.cache, self.self_test)
        except ValueError as error:
            print(f"{task.slug}: not checked; {error}", file=sys.stderr)
            return
        self._record(task, admission, bench, time.perf_counter() - started)

    def _record(self, task: Task, admission: dict[str, Any], bench: Bench, seconds: float) -> None:
        result = {
            "hash": task.hash,
            "answers_hash": task.answers_hash,
            "judge": admission["judge_version"],
            "admitted": admission["admitted"],
            "problems": admission["problems"],
            "answers": {
                role: sum(attempt["role"] == role for attempt in admission["attempts"])
                for role in ("probe", "mutant", "honest")
            },
            "speedup_over_itself": admission["repeat"],
            "retained": admission["retained"],
            "seconds": round(seconds, 1),
            "at": now(),
            **({"uuid": bench.lock} if bench.lock else {}),
        }
        print(task.slug, json.dumps(result), flush=True)
        model = {k: v for k, v in to_json(self.devices[0].fingerprint).items() if k != "uuid"}
        with self._lock:
            self.results[task.slug] = result
            data = {
                "command": "python benchmarks/admission.py",
                "device": model,
                "torch": torch.__version__,
                "tasks": dict(sorted(self.results.items())),
            }
            write_json(self.output, data, indent=1)


if __name__ == "__main__":
    sys.exit(main())
