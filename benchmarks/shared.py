"""Shared parts of the benchmarks: sessions, statistics, provenance and result files."""

from __future__ import annotations

import argparse
import hashlib
import json
import statistics
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from evaluation import JUDGE_VERSION, OLDEST_ADMISSION
from evaluation.bench.devices import detect
from evaluation.bench.devices.device import Device
from evaluation.bench.memory.ring import BufferRing
from evaluation.bench.process.fork_server import ForkServer
from evaluation.bench.process.task_host import processes_of
from evaluation.code.cache_folder import default_cache
from evaluation.kinds.kernel.builds import Build, baselines
from evaluation.kinds.kernel.session import MeasurementSession
from evaluation.sandboxed.kernels import Kernel
from evaluation.tasks import task_code
from evaluation.tasks.spec import Task
from evaluation.types import Argument, Case, Launch, Split, to_json

ROOT = Path(__file__).resolve().parent.parent
JUDGE = ROOT / "evaluation"
SOURCE_SUFFIXES = (".py", ".h", ".cpp")


def now() -> str:
    """Return the time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def provenance(device: Device) -> dict[str, Any]:
    """Return time, device with its peaks and state, PyTorch and judge, for a file of results."""
    return {
        "at": now(),
        "device": to_json(device.fingerprint),
        "peaks": to_json(device.peaks),
        "now": detect.state(device),
        "torch": torch.__version__,
        "judge": {"version": JUDGE_VERSION, "source": source_of_judge()},
    }


def source_of_judge() -> str:
    """Return twelve digits of a SHA-256 over the judge's source files."""
    digest = hashlib.sha256()
    files = (path for path in JUDGE.rglob("*.*") if path.suffix in SOURCE_SUFFIXES)
    for path in sorted(files):
        digest.update(path.relative_to(JUDGE).as_posix().encode() + b"\0")
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:12]


def resumable_options(
    description: str, arguments: Sequence[str] | None = None
) -> argparse.Namespace:
    """Return patterns, time, cache and output of a benchmark that can be continued."""
    return resumable_parser(description).parse_args(arguments)


def resumable_parser(description: str) -> argparse.ArgumentParser:
    """Return a parser of these options, for a benchmark that has more of them."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("patterns", nargs="*", default=["*"], metavar="PATTERN")
    parser.add_argument("--within", type=float, default=float("inf"), metavar="SECONDS")
    parser.add_argument("--cache", type=Path, default=default_cache())
    parser.add_argument("--output", type=Path)
    return parser


def is_current(result: Mapping[str, Any], **hashes: str) -> bool:
    """Return whether a result is of these hashes, by a judge whose admissions hold."""
    known = all(result.get(name) == value for name, value in hashes.items())
    return known and int(result.get("judge") or 0) >= int(OLDEST_ADMISSION)


def write_json(path: Path, data: Mapping[str, Any], indent: int = 2) -> None:
    """Write a file of results, with the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data, indent=indent) + "\n")


def run_json(command: Sequence[str]) -> Any:
    """Run a command in the repository and return the JSON in the last line of its output.

    Raises: SystemExit with the end of its output, where it fails.
    """
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if process.returncode:
        raise SystemExit(f"{command}: {process.stdout[-1000:]}{process.stderr[-2000:]}")
    return json.loads(process.stdout.strip().splitlines()[-1])


def variation(values: Sequence[float]) -> float:
    """Return the coefficient of variation: standard deviation over mean."""
    return statistics.stdev(values) / statistics.fmean(values)


def case_of(task: Task, name: str) -> Case:
    """Return the case of a task with a name."""
    cases = (*task.cases(Split.SEEN), *task.cases(Split.UNSEEN))
    return next(case for case in cases if case.name == name)


@contextmanager
def session(
    task: Task, build: Build, fork_server: ForkServer, cache: Path, device: Device
) -> Iterator[MeasurementSession]:
    """Yield a measurement session of a build against the task's baselines."""
    with (
        task_code.hosted(processes_of(lambda: fork_server)),
        MeasurementSession(task, fork_server, baselines(task, cache), cache) as judge,
    ):
        yield judge.set_candidate(build, device)


def bind(kernel: Kernel, arguments: Sequence[Argument], ring: BufferRing) -> Launch:
    """Bind a kernel of this process to the buffer sets of a ring, and fill their inputs."""
    launch = kernel.bind(
        arguments,
        [
            {**ring.workload.values, **ring.inputs.slot(i), **ring.outputs.slot(i)}
            for i in range(ring.slots)
        ],
    )
    ring.refill(0, ring.slots)
    return launch
