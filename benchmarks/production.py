"""Verdicts on production tasks of some architectures: each module alone and deployed.

    python benchmarks/production.py [PATTERN ...] [--within SECONDS] [--cache FOLDER]
                                    [--output FILE]

Judges submissions for one module of each architecture: the library's own source, the same
below `torch.compile`, and a Triton kernel where there is one. PATTERNS choose among
`task/submission`. A final verdict measures each alone and deployed, in eager, compiled and as a
CUDA graph. No verdict is started later than SECONDS after the start; those in FILE are skipped.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.shared import ROOT, now, provenance, resumable_parser, write_json
from evaluation.device_kind import CPU, GPU
from evaluation.devices import detect
from evaluation.process.fork_server import ForkServer
from evaluation.production import judge as production_judge
from evaluation.production import library_source, phases
from evaluation.production.architectures import Architecture, ModuleTask, find_task
from evaluation.production.composition import Part
from evaluation.types import Report

COMMAND = "python benchmarks/production.py"
KERNELS = ROOT / "benchmarks/production_kernels"
TASKS = {
    "dit_layer_norm": "layer_norm",
    "llama_rms_norm": "rms_norm",
    "qwen3_moe_rms_norm": "rms_norm",
}
"""Tasks, and the Triton kernel of each; empty for none."""
DEPTHS = ("num_hidden_layers", "num_layers")
MAX_LAYERS = 4
"""Layers of a model on a GPU, whose width is the architecture's: each takes time to compile."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Judge the chosen submissions; the exit code is 0 if all passed."""
    parser = resumable_parser(__doc__.partition("\n")[0])
    options = parser.parse_args(arguments)
    started, cache = time.monotonic(), options.cache.absolute()
    gpus = [device for device in detect.devices(cache, (GPU,)) if not device.unjudged]
    device = (gpus or detect.devices(cache, (CPU,)))[0]
    output = options.output or ROOT / f"benchmarks/results/production-{device.kind}.json"
    found = json.loads(output.read_text())["verdicts"] if output.is_file() else {}
    with ForkServer() as fork_server:
        for slug, (architecture, task, source) in submissions(device.kind).items():
            chosen = any(fnmatchcase(slug, pattern) for pattern in options.patterns)
            if slug in found or not chosen or time.monotonic() - started > options.within:
                continue
            began = time.perf_counter()
            try:
                result = verdict(architecture, task, source, device.kind, cache, fork_server)
            except Exception as error:  # of one architecture; the others are judged
                result = {"error": f"{type(error).__name__}: {error}", "trace": last_lines(error)}
            found[slug] = {"at": now(), **result, "wall": time.perf_counter() - began}
            print(slug, json.dumps(found[slug], indent=1), flush=True)
            write_json(output, {"command": COMMAND, **provenance(device), "verdicts": found})
    wrong = [slug for slug, each in found.items() if each.get("verdict") != "passed"]
    print(f"{len(found) - len(wrong)} of {len(found)} passed; not: {', '.join(wrong)}")
    return 1 if wrong else 0


def submissions(kind: str) -> dict[str, tuple[Architecture, ModuleTask, str]]:
    """Return the submissions of all tasks, by `task/submission`."""
    found = {}
    for name, kernel in TASKS.items():
        architecture, task = find_task(name)
        architecture = shallow(architecture, kind) if kind == GPU else architecture
        for submission, source in sources(task, kernel):
            if submission != "triton" or kind == GPU:
                found[f"{name}/{submission}"] = architecture, task, source
    return found


def shallow(architecture: Architecture, kind: str) -> Architecture:
    """Return an architecture of at most MAX_LAYERS layers, with a hash of its own."""
    size = architecture.sizes[kind]
    settings = {
        name: min(value, MAX_LAYERS) if name in DEPTHS else value[:MAX_LAYERS]
        for name, value in size.settings.items()
        if name in (*DEPTHS, "layer_types")
    }
    merged = {**size.settings, **settings}
    digest = hashlib.sha256(f"{architecture.hash}{sorted(settings.items())}".encode()).hexdigest()
    sizes = {**architecture.sizes, kind: dataclasses.replace(size, settings=merged)}
    return dataclasses.replace(architecture, sizes=sizes, hash=digest)


def sources(task: ModuleTask, kernel: str) -> Iterator[tuple[str, str]]:
    """Yield the names and texts of a task's submissions."""
    library = library_source.copied(task.module)
    yield "library", library
    yield "compile", compiled(library)
    if kernel:
        yield "triton", (KERNELS / f"{kernel}.py").read_text()


def compiled(source: str) -> str:
    """Return a copy of a library's class whose forward is compiled."""
    head, found, rest = source.rpartition("    def forward(self")
    return f"{head}    @torch.compile(dynamic=False)\n{found}{rest}"


def verdict(
    architecture: Architecture,
    task: ModuleTask,
    source: str,
    kind: str,
    cache: Path,
    fork_server: ForkServer,
) -> dict[str, Any]:
    """Return the figures of a final verdict."""
    report = production_judge.judge(
        architecture,
        [Part(task, {task.target_file: source})],
        kind,
        cache,
        phases.extent(kind, True, architecture.name),
        fork_server=fork_server,
    )
    return figures(report)


def figures(report: Report) -> dict[str, Any]:
    """Return all that a verdict has measured, and the error of a judge that failed."""
    last = report.gates[-1]
    correctness = next((g.detail for g in report.gates if g.gate == "correctness"), {})
    return {
        "verdict": report.verdict.value,
        "reason": report.reason and report.reason.value,
        "message": report.message,
        **({"error": last.private} if last.private else {}),
        "seconds": report.seconds,
        "errors": correctness.get("phases"),
        **{name: value for name, value in last.detail.items() if "deployed" in last.detail},
    }


def last_lines(error: Exception) -> str:
    return "".join(traceback.format_exception(error))[-3000:]


if __name__ == "__main__":
    sys.exit(main())
