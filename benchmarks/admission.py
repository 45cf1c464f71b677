"""Which tasks this machine admits: every wrong answer refused, every honest one passed, times that
repeat.

    python benchmarks/admission.py [PATTERN ...] [--within SECONDS] [--cache FOLDER] [--output FILE]

Tries the tasks that the machine's GPUs judge, one on each at a time, or without a GPU those that
its processor does, in the order of the PATTERNs. What FILE says of a task as it is now is not tried
again, so that this goes on where it was cut off; no task is begun later than so many SECONDS from
the start.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import torch  # noqa: E402 - the path comes first

from evaluation import JUDGE_VERSION  # noqa: E402
from evaluation.building.cache_folder import default_cache  # noqa: E402
from evaluation.device_kind import CPU, GPU  # noqa: E402
from evaluation.devices import detect  # noqa: E402
from evaluation.devices.device import Device  # noqa: E402
from evaluation.languages import languages  # noqa: E402
from evaluation.tasks.spec import Task, find_operators  # noqa: E402
from evaluation.tracks.load import load_tasks  # noqa: E402
from evaluation.types import to_json  # noqa: E402
from runners.worker.bench import Bench, shares, taken  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("patterns", nargs="*", default=["*"], metavar="PATTERN")
    parser.add_argument("--within", type=float, default=float("inf"), metavar="SECONDS")
    parser.add_argument("--cache", type=Path, default=default_cache())
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    cache = options.cache.absolute()
    devices = _devices(cache)
    output = options.output or ROOT / f"benchmarks/results/admission-{devices[0].kind}.json"
    known = json.loads(output.read_text())["tasks"] if output.is_file() else {}
    here = [
        task
        for name in find_operators(ROOT / "tasks")
        for task in load_tasks(ROOT / "tasks" / name)
        if task.kind == devices[0].kind and not languages()[task.track.target].runs_here()
    ]
    chosen = [t for p in options.patterns for t in here if fnmatchcase(t.slug, p)]
    tasks = list({task.slug: task for task in chosen}.values())
    trial = Trial(devices, known, output, time.monotonic() + options.within, cache)
    trial.work([task for task in tasks if not _told(known, task)])
    untried = [task.slug for task in tasks if not _told(trial.found, task)]
    tried = [task.slug for task in tasks if task.slug not in untried]
    refused = [slug for slug in tried if not trial.found[slug]["admitted"]]
    print(f"{len(tried) - len(refused)} of {len(tasks)} tasks are admitted")
    for what, slugs in (("refused", refused), ("not tried", untried)):
        if slugs:
            print(f"{what}: {', '.join(slugs)}")
    return 1 if untried or refused else 0


def _devices(cache: Path) -> list[Device]:
    """The GPUs of this machine, of the first one's model, else its processor."""
    gpus = [device for device in detect.devices(cache, (GPU,)) if not device.unjudged]
    found = gpus or detect.devices(cache, (CPU,))
    return [device for device in found if device.slug == found[0].slug]


def _told(known: dict[str, Any], task: Task) -> bool:
    """Whether it was tried as it is now, by this judge."""
    said = known.get(task.slug, {})
    tried = said.get("hash"), said.get("answers_hash"), said.get("judge")
    return tried == (task.hash, task.answers_hash, JUDGE_VERSION)


class Trial:
    """Tasks under trial, one on each device at a time."""

    def __init__(
        self, devices: list[Device], found: dict[str, Any], output: Path, until: float, cache: Path
    ) -> None:
        self.devices, self.found, self.output = devices, found, output
        self.until, self.cache = until, cache
        self._waiting: queue.SimpleQueue[Task] = queue.SimpleQueue()
        self._writing = threading.Lock()

    def work(self, tasks: list[Task]) -> None:
        """Try these; returns when no more are to be begun."""
        for task in tasks:
            self._waiting.put(task)
        cores = shares(len(self.devices))
        benches = [
            Bench(lock=device.uuid, environment=device.environment, cores=part)
            for device, part in zip(self.devices, cores, strict=True)
        ]
        threads = [threading.Thread(target=self._try_on, args=(bench,)) for bench in benches]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _try_on(self, bench: Bench) -> None:
        with taken([bench]):
            while time.monotonic() < self.until:
                try:
                    task = self._waiting.get_nowait()
                except queue.Empty:
                    return
                self._try(task, bench)

    def _try(self, task: Task, bench: Bench) -> None:
        """Keep what its trial comes to; where the judge fails, say so and leave it untried."""
        command = (sys.executable, "-m", "evaluation", "admit", task.operator.name)
        more = (task.track.slug, "--json", "--cache", str(self.cache))
        started = time.perf_counter()
        environment = {**os.environ, **bench.environment}
        done = subprocess.run(
            (*command, *more), cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True
        )
        try:
            admission = json.loads(done.stdout.splitlines()[-1])
        except (IndexError, ValueError):
            print(f"{task.slug}: not tried; exit code {done.returncode}", file=sys.stderr)
            return
        self._keep(task, admission, bench, time.perf_counter() - started)

    def _keep(self, task: Task, admission: dict[str, Any], bench: Bench, seconds: float) -> None:
        said = {
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
            "seconds": round(seconds, 1),
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            **({"uuid": bench.lock} if bench.lock else {}),
        }
        print(task.slug, json.dumps(said), flush=True)
        model = {k: v for k, v in to_json(self.devices[0].fingerprint).items() if k != "uuid"}
        with self._writing:
            self.found[task.slug] = said
            told = {
                "command": "python benchmarks/admission.py",
                "device": model,
                "torch": torch.__version__,
                "tasks": dict(sorted(self.found.items())),
            }
            self.output.parent.mkdir(parents=True, exist_ok=True)
            self.output.write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
