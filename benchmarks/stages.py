"""Seconds of a verdict by part and stage, to show where the time of a device goes.

    python benchmarks/stages.py [TASK ...] [--kind gpu|cpu] [--tasks FOLDER] [--source FILE]
                                [--scope final|round] [--repeats 2] [--cache FOLDER] [--output FILE]

Judges an honest answer to each TASK, such as rms_norm/cuda-to-cuda, in one process with a warm fork
server: the baseline itself, or for PyTorch the reference; with `--source` that file. Imported
problems are in FOLDER. The first verdict on a task is a cold one. Its columns are parts of the
verdict: gates, the preparation beside them, the choice of the baseline, and checks of windows. Its
rows are stages, each without the stages within it, so that a column's rows add up. A stage that
does not wait for the GPU leaves its time to the next one that does.
"""

from __future__ import annotations

import argparse
import functools
import json
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.shared import now, write_json
from evaluation import JUDGE_VERSION
from evaluation.bench.anticheat import arriving_inputs, prefetched_inputs, staged_inputs
from evaluation.bench.memory import cuda_ipc, verify
from evaluation.bench.memory.ring import BufferRing
from evaluation.bench.process.handle import ProcessHandle
from evaluation.bench.process.task_process import RemoteLaunches, TaskProcess
from evaluation.bench.timing.window import WindowTimer
from evaluation.bench.turns import Bench
from evaluation.code.cache_folder import default_cache
from evaluation.device_kind import CPU, GPU, gpu_vendor
from evaluation.judge.report_text import table
from evaluation.judge.request import SCOPES, TASKS, Request
from evaluation.judge.verdict_queue import warm_fork_server
from evaluation.kinds.kernel import judge as kernel_judge
from evaluation.kinds.kernel import session, torch_variants, workload
from evaluation.kinds.kernel.gates import Trial, gates
from evaluation.kinds.kernel.gates import compile as compile_gate
from evaluation.kinds.kernel.load import load_task
from evaluation.kinds.kernel.session import MeasurementSession
from evaluation.tasks.loaded_code import LoadedLaunches
from evaluation.tasks.reference import Reference
from evaluation.tasks.spec import Task

DEFAULT = {
    GPU: ("rms_norm/cuda-to-cuda", "softmax/triton-to-triton", "rope/torch-to-torch"),
    CPU: ("rms_norm/cpp-to-cpp", "rope/torch-to-torch"),
}
REST = "rest"
"""The stage of a part's own time, in none of its stages."""
Place = tuple[Any, str]
"""A module or class, and the name of its function."""

PARTS: tuple[tuple[str, Place], ...] = (
    ("preparation", (kernel_judge, "_prepare")),
    *((str(gate.NAME), (gate, "judge")) for gate in gates()),
    ("choice", (MeasurementSession, "baseline_times")),
    ("staged", (staged_inputs, "check")),
    ("arriving", (arriving_inputs.ArrivingInputs, "_launches_ns")),
    ("shortened", (prefetched_inputs, "check_shortened")),
)
STAGES: tuple[tuple[str, Place], ...] = (
    ("wait for the preparation", (Trial, "session")),
    ("build baselines", (kernel_judge, "baselines")),
    ("build", (compile_gate, "build")),
    ("build for hidden cases", (compile_gate, "compile_cases")),
    ("fork a process", (ProcessHandle, "__init__")),
    ("open the device in it", (ProcessHandle, "connect")),
    ("load code", (ProcessHandle, "load")),
    ("load code of hidden cases", (ProcessHandle, "add_compiled")),
    ("end a process", (ProcessHandle, "kill_and_wait")),
    ("start the task's process", (TaskProcess, "__init__")),
    ("make a ring", (BufferRing, "__init__")),
    ("draw a pool", (workload.OperatorWorkload, "pool")),
    ("draw inputs", (Reference, "draws")),
    ("float64 values", (LoadedLaunches, "outputs")),
    ("float64 values", (RemoteLaunches, "outputs")),
    ("compare", (session, "compare_launches")),
    ("compare", (verify, "compare_launch")),
    ("bind memory", (ProcessHandle, "bind")),
    ("capture a graph", (ProcessHandle, "capture")),
    ("copy a graph", (ProcessHandle, "stage")),
    ("shorten a graph", (ProcessHandle, "shorten")),
    ("prepare launches", (ProcessHandle, "prepare")),
    ("launch", (ProcessHandle, "run")),
    ("launch", (ProcessHandle, "run_prepared")),
    ("require an idle device", (ProcessHandle, "require_idle")),
    ("check suspension", (ProcessHandle, "check_suspended")),
    ("suspend", (ProcessHandle, "_wait_suspended")),
    ("ask for memory", (cuda_ipc.MemoryMeter, "begin")),
    ("ask for memory", (cuda_ipc.MemoryMeter, "bytes")),
    ("write inputs", (BufferRing, "write")),
    ("write inputs", (BufferRing, "refill")),
    ("poison outputs", (BufferRing, "poison")),
    ("read outputs", (BufferRing, "poll")),
    ("search for poison", (BufferRing, "verify")),
    ("check values", (BufferRing, "verify_launches")),
    ("check guards and inputs", (BufferRing, "check_guards")),
    ("check guards and inputs", (BufferRing, "check_written")),
    ("probe the cache", (prefetched_inputs.PrefetchCheck, "__init__")),
    ("probe the cache", (prefetched_inputs.PrefetchCheck, "check")),
    ("rest of a window", (WindowTimer, "window")),
    ("rest of blocks", (Bench, "blocks")),
)


class Stopwatch:
    """Seconds and calls by part and stage. Each thread has spans of its own."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._spans = threading.local()
        self.seconds: dict[tuple[str, str], float] = defaultdict(float)
        self.calls: dict[tuple[str, str], int] = defaultdict(int)

    @contextmanager
    def span(self, part: str = "", stage: str = "") -> Iterator[None]:
        """Count the time until the exit, less that of spans within, to a stage of a part.

        Without a part it is that of the span around. Outside of all parts nothing counts.
        """
        stack: list[tuple[str, list[float]]] = self._spans.__dict__.setdefault("stack", [])
        part = part or (stack[-1][0] if stack else "")
        within: list[float] = []
        stack.append((part, within))
        started = self._clock()
        try:
            yield
        finally:
            took = self._clock() - started
            stack.pop()
            if stack:
                stack[-1][1].append(took)
            if part:
                self.seconds[part, stage or REST] += took - sum(within)
                self.calls[part, stage or REST] += 1

    def rows(self, least: float = 0.005) -> list[tuple[str, ...]]:
        """Return a table of seconds, the longest stages first, with the number of calls."""
        parts = [name for name, _ in PARTS if any(part == name for part, _ in self.seconds)]
        stages = dict.fromkeys(stage for _, stage in self.seconds)
        total = {n: sum(self.seconds.get((part, n), 0.0) for part in parts) for n in stages}
        rows = [("stage", *parts, "all", "calls")]
        for stage in sorted((n for n in stages if total[n] >= least), key=lambda n: -total[n]):
            calls = sum(count for (_, name), count in self.calls.items() if name == stage)
            each = [self.seconds.get((part, stage), 0.0) for part in parts]
            rows.append((stage, *map(_text, each), _text(total[stage]), str(calls)))
        sums = [sum(s for (name, _), s in self.seconds.items() if name == part) for part in parts]
        return [*rows, ("all", *map(_text, sums), _text(sum(sums)), "")]


def _text(seconds: float) -> str:
    return f"{seconds:.2f}" if seconds >= 0.005 else ""


@contextmanager
def watched(stopwatch: Stopwatch) -> Iterator[None]:
    """Let a stopwatch time every part and stage meanwhile."""
    places = [(part, "", place) for part, place in PARTS]
    places += [("", stage, place) for stage, place in STAGES]
    before = [(owner, name, vars(owner)[name]) for _, _, (owner, name) in places]
    try:
        for (part, stage, (owner, name)), (_, _, found) in zip(places, before, strict=True):
            setattr(owner, name, _timed(found, stopwatch, part, stage))
        yield
    finally:
        for owner, name, found in before:
            setattr(owner, name, found)


def _timed(found: Any, stopwatch: Stopwatch, part: str, stage: str) -> Any:
    """Return a function, or a property, that is timed."""
    if isinstance(found, property):
        return property(_timed(found.fget, stopwatch, part, stage))

    @functools.wraps(found)
    def call(*args: Any, **kwargs: Any) -> Any:
        with stopwatch.span(part, stage):
            return found(*args, **kwargs)

    return call


def answer_to(task: Task) -> str:
    """Return an honest answer to a task from a language to itself."""
    if task.track.target == "torch":
        return torch_variants.source(task.operator, torch_variants.EAGER)
    return task.operator.baseline(task.track.target)


def main(arguments: Sequence[str] | None = None) -> None:
    """Judge the answers, and print a table for each verdict."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="TASK")
    parser.add_argument("--kind", choices=(GPU, CPU), default=GPU if gpu_vendor() else CPU)
    parser.add_argument("--tasks", type=Path, default=TASKS, metavar="FOLDER")
    parser.add_argument("--source", type=Path, metavar="FILE")
    parser.add_argument("--scope", choices=SCOPES, default="final")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--cache", type=Path, default=default_cache())
    parser.add_argument("--output", type=Path)
    options = parser.parse_args(arguments)
    found = []
    with warm_fork_server(options.kind) as fork_server:
        for name in options.names or DEFAULT[options.kind]:
            operator, _, track = name.partition("/")
            task = load_task(options.tasks.absolute(), operator, track, options.kind)
            text = options.source.read_text() if options.source else answer_to(task)
            files, cache = {task.target_file: text}, options.cache.absolute()
            for number in range(options.repeats):
                stopwatch = Stopwatch()
                with watched(stopwatch):
                    request = Request(task, files, cache, scope=options.scope)
                    report = kernel_judge.evaluate(request, fork_server=fork_server)
                seconds = {k: round(v, 3) for k, v in report.seconds.items()}
                print(f"\n{name}, verdict {number + 1}: {report.verdict}, {report.message}")
                print(json.dumps(seconds), table(stopwatch.rows()), sep="\n", flush=True)
                stages = [
                    {"part": p, "stage": s, "seconds": round(t, 4), "calls": stopwatch.calls[p, s]}
                    for (p, s), t in stopwatch.seconds.items()
                ]
                found.append({"task": name, "seconds": seconds, "stages": stages})
                if options.output:
                    head = {"at": now(), "judge": JUDGE_VERSION, "kind": options.kind}
                    write_json(options.output, {**head, "verdicts": found})


if __name__ == "__main__":
    main()
