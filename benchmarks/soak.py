"""Memory of the judges of this machine over many mixed verdicts, which must stay flat.

    python benchmarks/soak.py [PATTERN ...] [--verdicts 300] [--device gpu|cpu]
                              [--scope round|final|mixed] [--leave GB] [--within SECONDS]
                              [--cache FOLDER] [--output FILE]

Judges the baselines of operators that match a PATTERN (`softmax`), and between them sources that do
not build, that compute nothing and that end their process. One process for each GPU, or one for the
CPU, judges with a warm fork server, as an arena's do. After each verdict it notes its own resident
memory and, on a GPU, the device's used memory, before Python collects cycles. It fails where the
last quarter of a process's verdicts has more memory than the second one, by more than
MAX_GROWTH_BYTES, where a verdict is broken, or where fewer were reached within the time. With
`--leave` all but so many gigabytes of each GPU are held meanwhile, as if the card had no more.
"""

from __future__ import annotations

import argparse
import dataclasses
import gc
import os
import statistics
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from itertools import cycle, islice
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
os.environ["GOMP_SPINCOUNT"] = "0"  # as for the judge: threads sleep while a candidate is timed
os.environ["ARENA_MEASURE_BUSY"] = "1"  # memory is measured here, on a busy machine too

import torch

from benchmarks.shared import ROOT, now, resumable_parser, write_json
from evaluation import JUDGE_VERSION
from evaluation.bench.devices import detect
from evaluation.bench.process.fork_server import ForkServer
from evaluation.device_kind import CPU, GPU
from evaluation.judge.report import error_of
from evaluation.judge.request import SCOPES, Request
from evaluation.judge.verdict_queue import VerdictQueue, serve
from evaluation.kinds.kernel import judge as kernel_judge
from evaluation.kinds.kernel.load import load_task
from evaluation.tasks.spec import Task, find_operators, folder_of
from evaluation.types import Report, Verdict

LANGUAGES = {CPU: ("cpp",), GPU: ("cuda", "triton")}
FAULTS = {
    "does not build": "this is no source\n",
    "computes nothing": {"cpp": "return 0;", "cuda": "return 0;", "triton": "pass"},
    "ends": {
        "cpp": "__builtin_trap();",
        "cuda": "__builtin_trap();",
        "triton": "import os; os._exit(3)",
    },
}
FAULTY_ONE_IN = 4
FINAL_ONE_IN = 5
"""Of mixed scopes, one verdict in so many is final."""
MAX_GROWTH_BYTES = 64 << 20
MAX_SECONDS = 300.0
"""Time of one verdict, after which its process is ended."""
QUARTERS = 4
SAMPLE_SECONDS = 0.05
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
MIXED = "mixed"


@dataclass(frozen=True)
class Work:
    """One verdict: on the baseline of an operator in a language, or on a source with a fault."""

    operator: str
    language: str
    fault: str
    scope: str
    kind: str

    def request(self, cache: Path) -> Request:
        track = f"{self.language}-to-{self.language}"
        task = load_task(ROOT / "tasks", self.operator, track, self.kind)
        source = task.operator.baseline(self.language)
        source = faulty(task, FAULTS[self.fault]) if self.fault else source
        return Request(task, {task.target_file: source}, cache, scope=self.scope)


def main() -> None:
    """Judge, and write and print what memory was used."""
    options = parser().parse_args()
    cache = options.cache.absolute()
    if options.serve:
        gc.disable()  # what a cycle keeps counts
        serve(lambda data, fork_server: judge(Work(**data), cache, fork_server), options.device)
        return
    devices = [each for each in detect.devices(cache, (options.device,)) if not each.unjudged]
    kinds = work_of(options.patterns, options.device)
    wanted = list(islice(scoped(kinds, options.scope), options.verdicts))
    rows, started, lock = list[dict[str, Any]](), time.monotonic(), threading.Lock()

    held = held_memory(len(devices), options.leave)

    def record(work: Work, result: dict[str, Any]) -> None:
        with lock:
            for name in {"gpu_bytes", "gpu_peak_bytes"} & result.keys() if held else ():
                result[name] -= held[0].numel()
            minutes = (time.monotonic() - started) / 60
            rows.append({**asdict(work), **result, "minute": round(minutes, 3)})
            print(len(rows), rows[-1], flush=True)
            if options.output:
                write_json(options.output, summary(rows, options.verdicts, len(devices)), indent=1)

    serving = ("--serve", "--device", options.device, "--cache", str(cache))
    VerdictQueue(
        devices,
        (sys.executable, __file__, *serving),
        encode=asdict,
        build=lambda work: build_ahead(work, cache),
        record=record,
        lost=lambda message, late: {"verdict": Verdict.BROKEN, "message": message},
        limit_seconds=MAX_SECONDS,
        end=started + options.within,
    ).run(wanted)
    found = summary(rows, options.verdicts, len(devices))
    print({name: value for name, value in found.items() if name != "rows"})
    if failure := failure_of(found):
        raise SystemExit(failure)


def parser() -> argparse.ArgumentParser:
    options = resumable_parser(__doc__.partition("\n")[0])
    options.add_argument("--verdicts", type=int, default=300, help="of all devices together")
    device = GPU if torch.cuda.is_available() else CPU
    options.add_argument("--device", choices=(GPU, CPU), default=device)
    options.add_argument("--scope", choices=(*SCOPES, MIXED), default="round")
    options.add_argument("--leave", type=float, metavar="GB", help="of the memory of each GPU")
    options.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    return options


def held_memory(gpus: int, leave_gb: float | None) -> list[torch.Tensor]:
    """Return memory of each GPU that leaves so many gigabytes to others; none without a number."""
    if leave_gb is None:
        return []
    held = []
    for gpu in range(gpus):
        total = torch.cuda.get_device_properties(gpu).total_memory
        size = int(total - leave_gb * 1e9)
        held.append(torch.empty(size, dtype=torch.uint8, device=f"cuda:{gpu}"))
    return held


def work_of(patterns: Sequence[str], kind: str) -> list[Work]:
    """Return rounds on the baselines of matching operators, and after some a faulty source."""
    found: list[Work] = []
    number = 0
    for operator in find_operators(ROOT / "tasks"):
        if not any(fnmatchcase(operator, pattern) for pattern in patterns):
            continue
        for language in LANGUAGES[kind]:
            if not any(folder_of(ROOT / "tasks", operator).glob(f"baseline/{language}.*")):
                continue
            found.append(Work(operator, language, "", "round", kind))
            number += 1
            if number % (FAULTY_ONE_IN - 1) == 0:
                fault = list(FAULTS)[number // (FAULTY_ONE_IN - 1) % len(FAULTS)]
                found.append(Work(operator, language, fault, "round", kind))
    return found


def scoped(kinds: Sequence[Work], scope: str) -> Iterator[Work]:
    """Yield works in turn, without end; of mixed scopes, one in FINAL_ONE_IN is final."""
    for number, work in enumerate(cycle(kinds)):
        own = scope
        if scope == MIXED:
            own = "final" if number % FINAL_ONE_IN == 0 else "round"
        yield dataclasses.replace(work, scope=own)


def faulty(task: Task, fault: str | Mapping[str, str]) -> str:
    """Return a source of a task with a fault: a whole source, or the body of its entry point."""
    if isinstance(fault, str):
        return fault
    entry, language = task.operator.name, task.track.target
    body = fault[language]
    if language == "triton":
        names = ", ".join(argument.name for argument in task.operator.arguments)
        return f"import triton\n\n\ndef {entry}({names}):\n    {body}\n"
    stream = ", cudaStream_t stream" if language == "cuda" else ""
    head = f'#include "{entry}.h"\n\nextern "C" int {entry}(const {entry}_args* args{stream})'
    return f"{head} {{\n    {body}\n    return 0;\n}}\n"


def build_ahead(work: Work, cache: Path) -> None:
    """Build into the cache what a verdict needs, which reports what fails."""
    kernel_judge.evaluate(dataclasses.replace(work.request(cache), stage="build"))


def judge(work: Work, cache: Path, fork_server: ForkServer) -> dict[str, Any]:
    """Return a verdict, and the memory that is used after it."""
    with peak_of_device(work.kind) as peak:
        report = kernel_judge.evaluate(work.request(cache), fork_server=fork_server)
    used = {"resident_bytes": int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES}
    if work.kind == GPU:
        used |= {"gpu_bytes": used_on_gpu(), "gpu_kept_bytes": torch.cuda.memory_allocated()}
        used["gpu_peak_bytes"] = max(peak)
    return {
        **verdict_of(report),
        "seconds": report.seconds["total"],
        "process": os.getpid(),
        **used,
    }


def verdict_of(report: Report) -> dict[str, str]:
    """Return a verdict with its message, and the cause of a broken one."""
    verdict = {"verdict": report.verdict.value, "message": report.message}
    return verdict | ({"error": error} if (error := error_of(report)) else {})


@contextmanager
def peak_of_device(kind: str) -> Iterator[list[int]]:
    """Sample the GPU's used memory, of all processes, until the context exits."""
    samples, stopped = [0], threading.Event()

    def sample() -> None:
        while not stopped.wait(SAMPLE_SECONDS):
            samples.append(used_on_gpu())

    thread = threading.Thread(target=sample)
    if kind == GPU:
        thread.start()
    try:
        yield samples
    finally:
        stopped.set()
        if kind == GPU:
            thread.join()


def used_on_gpu() -> int:
    free, total = torch.cuda.mem_get_info()
    return total - free


def summary(rows: Sequence[Mapping[str, Any]], wanted: int, devices: int) -> dict[str, Any]:
    """Return the figures of verdicts: their rate, and memory by quarter."""
    by_process: dict[int, list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        if "process" in row:
            by_process[row["process"]].append(row)
    broken = [row for row in rows if row["verdict"] == Verdict.BROKEN.value]
    minutes = rows[-1]["minute"] if rows else 0.0
    seconds = [row["seconds"] for row in rows if "seconds" in row]
    return {
        "at": now(),
        "judge": JUDGE_VERSION,
        "devices": devices,
        "verdicts": len(rows),
        "wanted": wanted,
        "by_verdict": dict(sorted(Counter(row["verdict"] for row in rows).items())),
        "verdicts_per_minute": len(rows) / minutes if minutes else None,
        "median_seconds": statistics.median(seconds) if seconds else None,
        "growth_bytes": growth([*by_process.values()]),
        "quarters": {str(name): quarters(own) for name, own in by_process.items()},
        "broken": [dict(row) for row in broken],
        "rows": [dict(row) for row in rows],
    }


def quarters(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[float]]:
    """Return the median memory of one process's verdicts by quarter, and the highest peaks.

    It is nothing for fewer than eight verdicts.
    """
    if len(rows) < 2 * QUARTERS:
        return {}
    size = len(rows) // QUARTERS
    names = [name for name in rows[0] if name.endswith("_bytes")]
    parts = [rows[n * size : (n + 1) * size] for n in range(QUARTERS)]

    def figure(name: str, part: Sequence[Mapping[str, Any]]) -> float:
        values = [row[name] for row in part]
        return max(values) if "peak" in name else statistics.median(values)

    return {name: [figure(name, part) for part in parts] for name in names}


def growth(processes: Sequence[Sequence[Mapping[str, Any]]]) -> dict[str, float]:
    """Return by how much a last quarter's memory exceeds the second one's, the most of any process.

    Peaks depend on the submission, so they do not count.
    """
    found: dict[str, float] = {}
    for rows in processes:
        for name, each in quarters(rows).items():
            if "peak" not in name:
                found[name] = max(found.get(name, -float("inf")), each[-1] - each[1])
    return found


def failure_of(found: Mapping[str, Any]) -> str:
    """Return why a soak has failed; empty where it has not."""
    if found["broken"]:
        return f"{len(found['broken'])} verdicts were broken"
    if max(found["growth_bytes"].values(), default=0) > MAX_GROWTH_BYTES:
        return f"memory grew: {found['growth_bytes']}"
    if found["verdicts"] < found["wanted"]:
        return f"{found['verdicts']} of {found['wanted']} verdicts within the time"
    return ""


if __name__ == "__main__":
    main()
