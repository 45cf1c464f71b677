"""Memory of a judge over many mixed verdicts, which must stay flat.

    python benchmarks/soak.py [PATTERN ...] [--verdicts 300] [--device gpu|cpu]
                              [--scope round|final] [--within SECONDS] [--cache FOLDER]
                              [--output FILE]

Judges the baselines of operators that match a PATTERN (`softmax`), and between them sources that do
not build, that compute nothing and that end their process, in one process with a warm fork server.
After each verdict it notes this process's resident memory and, on a GPU, the device's used memory.
Python does not collect cycles meanwhile: what a cycle keeps counts as kept. It fails where the last
quarter of the verdicts has more memory than the second one, by more than MAX_GROWTH_BYTES, or where
a verdict is broken.
"""

from __future__ import annotations

import gc
import os
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
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
from evaluation.device_kind import CPU, GPU
from evaluation.judge.request import SCOPES, Request
from evaluation.judge.verdict_queue import warm_fork_server
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
MAX_GROWTH_BYTES = 64 << 20
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    """Judge, and write and print what memory was used."""
    parser = resumable_parser(__doc__.partition("\n")[0])
    parser.add_argument("--verdicts", type=int, default=300)
    device = GPU if torch.cuda.is_available() else CPU
    parser.add_argument("--device", choices=(GPU, CPU), default=device)
    parser.add_argument("--scope", choices=SCOPES, default="round")
    options = parser.parse_args()
    sources = list(mixed(options.patterns, options.device))
    end, rows = time.monotonic() + options.within, list[dict[str, Any]]()
    gc.collect()
    gc.disable()
    with warm_fork_server(options.device) as fork_server:
        for task, name, source in islice(cycle(sources), options.verdicts):
            if time.monotonic() > end:
                break
            request = Request(task, {task.target_file: source}, options.cache, scope=options.scope)
            report = kernel_judge.evaluate(request, fork_server=fork_server)
            rows.append(row(report, name, options.device))
            print(rows[-1], flush=True)
    found = {
        "at": now(),
        "judge": JUDGE_VERSION,
        "device": options.device,
        "verdicts": len(rows),
        "growth_bytes": growth(rows),
        "rows": rows,
    }
    if options.output:
        write_json(options.output, found)
    print({name: found[name] for name in ("verdicts", "growth_bytes")})
    broken = [each for each in rows if each["verdict"] == Verdict.BROKEN.value]
    if broken or max(found["growth_bytes"].values(), default=0) > MAX_GROWTH_BYTES:
        raise SystemExit(f"memory grew, or {len(broken)} verdicts were broken")


def mixed(patterns: Sequence[str], device: str) -> Iterator[tuple[Task, str, str]]:
    """Yield tasks with names and sources: baselines, and after some of them a faulty one."""
    number = 0
    for operator in find_operators(ROOT / "tasks"):
        if not any(fnmatchcase(operator, pattern) for pattern in patterns):
            continue
        for language in LANGUAGES[device]:
            folder = folder_of(ROOT / "tasks", operator)
            for path in sorted(folder.glob(f"baseline/{language}.*")):
                task = load_task(ROOT / "tasks", operator, f"{language}-to-{language}", device)
                yield task, path.name, path.read_text()
                number += 1
                if number % (FAULTY_ONE_IN - 1) == 0:
                    names = list(FAULTS)
                    name = names[number // (FAULTY_ONE_IN - 1) % len(names)]
                    yield task, name, faulty(task, FAULTS[name])


def faulty(task: Task, fault: str | dict[str, str]) -> str:
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


def row(report: Report, name: str, device: str) -> dict[str, Any]:
    """Return a verdict, and the memory that is used after it."""
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES
    used = {"resident_bytes": resident}
    if device == GPU:
        free, total = torch.cuda.mem_get_info()
        used["gpu_bytes"] = total - free
        used["gpu_peak_bytes"] = torch.cuda.max_memory_reserved()
    verdict = {"verdict": report.verdict.value, "message": report.message}
    seconds = report.seconds["total"]
    return {"task": report.task, "source": name, **verdict, "seconds": seconds, **used}


def growth(rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Return by how much the last quarter's median memory exceeds that of the second quarter.

    It is nothing for fewer than eight verdicts.
    """
    if len(rows) < 8:
        return {}
    quarter = len(rows) // 4
    return {
        name: statistics.median(each[name] for each in rows[-quarter:])
        - statistics.median(each[name] for each in rows[quarter : 2 * quarter])
        for name in rows[0]
        if name.endswith("_bytes") and "peak" not in name
    }


if __name__ == "__main__":
    main()
