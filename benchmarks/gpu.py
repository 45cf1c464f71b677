"""Benchmarks of the judge on this machine's GPU.

    python benchmarks/gpu.py [clock repeatability speed warm queue queues isolation]
                             [--verdicts 40] [--output FILE]

- clock: microseconds per launch by the judge, by CUPTI and by other ways (see exactness.py)
- repeatability: variation over final verdicts on the same submission, each in a new process
- speed: seconds of a verdict in a new process, cold and warm, beside load_inline with 5 checks and
  100 timed calls
- warm: seconds of rounds and final verdicts in one process with a warm fork server
- queue: final verdicts per minute over a queue of mixed submissions on one GPU, its utilization
- queues: the same over all GPUs of the machine
- isolation: isolation features with which CUDA IPC works (as root)

Run it on an idle machine. Each part of FILE has its own provenance.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch

from benchmarks import exactness, isolation, throughput
from benchmarks.exactness import events_each_us, task_of
from benchmarks.shared import ROOT, provenance, run_json, variation, write_json
from evaluation.bench.devices import detect
from evaluation.bench.devices.device import Device
from evaluation.bench.process.fork_server import ForkServer
from evaluation.code.languages import languages
from evaluation.device_kind import GPU
from evaluation.judge.request import Request
from evaluation.kinds.kernel import judge as kernel_judge
from evaluation.tasks.spec import Task
from evaluation.types import Split

SUBMISSIONS = (
    ("rms_norm", "cuda", "shared_row"),
    ("layer_norm", "triton", "whole_row"),
    ("softmax", "cuda", "base_two"),
)
"""Honest implementations that differ from their baselines."""
WARM_SUBMISSIONS = (
    ("rms_norm", "cuda", "shared_row"),
    ("softmax", "triton", "whole_row"),
    ("matmul", "cuda", "baseline"),
)
MIXED_SUBMISSIONS = (
    ("rms_norm", "cuda", "shared_row"),
    ("layer_norm", "triton", "whole_row"),
    ("matmul", "cuda", "shared_tiles"),
    ("swiglu", "triton", "persistent"),
    ("cross_entropy", "cuda", "two_loops"),
    ("rope", "torch", "complex"),
    ("moe_topk_softmax", "cuda", "keys"),
    ("attention", "triton", "two_passes"),
    ("softmax", "cuda", "three_loops"),
    ("int8_matmul", "triton", "fused"),
)
"""Those of a queue: honest implementations of many operators and languages."""
REPEATS = 10


def main() -> None:
    """Run the chosen parts and write each to the file of results."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("parts", nargs="*", default=list(PARTS), metavar="PART")
    parser.add_argument("--verdicts", type=int, default=40, help="of a queue")
    parser.add_argument("--cache", type=Path, default=None)
    parser.add_argument("--output", type=Path, default=ROOT / "benchmarks/results/judge-gpu.json")
    parser.add_argument("--inline", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inline:
        inline(Path(options.inline))
        return
    with tempfile.TemporaryDirectory() as folder:
        cache = (options.cache or Path(folder)).absolute()
        device = detect.device_for("gpu", cache)
        for part in options.parts:
            more = {"verdicts": options.verdicts} if part in QUEUES else {}
            results = PARTS[part](cache, device, **more)
            entry = {
                "command": f"python benchmarks/gpu.py {part}",
                **provenance(device),
                "results": results,
            }
            # Read now: another process may have written another part meanwhile.
            parts = json.loads(options.output.read_text()) if options.output.is_file() else {}
            write_json(options.output, {**parts, part: entry})
            print(part, json.dumps(results, indent=1), flush=True)


def measure_repeatability(cache: Path, device: Device) -> list[dict[str, Any]]:
    """Return coefficients of variation over REPEATS final verdicts on the same submission."""
    rows = []
    for operator, language, name in SUBMISSIONS:
        source = implementation(operator, language, name)
        reports = [judge(operator, language, source, cache) for _ in range(REPEATS)]
        cases = [report["gates"][3]["measurements"] for report in reports]
        rows.append(
            {
                "submission": f"{operator}/{language}/{name}",
                "seen": speedup_variation([report["seen"] for report in reports]),
                "unseen": speedup_variation([report["unseen"] for report in reports]),
                "cases": {
                    repeats[0]["case"]: {
                        "us": statistics.median(m["candidate_us"] for m in repeats),
                        "time_cv": variation([m["candidate_us"] for m in repeats]),
                        **speedup_variation(repeats),
                    }
                    for repeats in zip(*cases, strict=True)
                },
            }
        )
        print(json.dumps(rows[-1]), flush=True)
    return rows


def implementation(operator: str, language: str, name: str) -> str:
    """Return the source of an honest implementation kept beside an operator, or its baseline."""
    known = task_of(operator, language).operator
    if name == "baseline":
        return known.baseline(language)
    return next(a.source for a in known.honest() if (a.language, a.name) == (language, name))


def speedup_variation(intervals: Sequence[dict[str, float]]) -> dict[str, float]:
    """Return the variation of a speedup, and the number of intervals that hold the mean."""
    speedups = [each["speedup"] for each in intervals]
    mean = statistics.fmean(speedups)
    return {
        "speedup": mean,
        "speedup_cv": variation(speedups),
        "intervals_with_mean": sum(each["low"] <= mean <= each["high"] for each in intervals),
    }


def judge(
    operator: str, language: str, source: str, cache: Path, scope: str = "final"
) -> dict[str, Any]:
    """Return the report of `python -m evaluation judge`, with the process's `wall` seconds.

    Raises: SystemExit for a source that does not pass.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"{operator}{languages()[language].suffix}"
        file.write_text(source)
        submission = (operator, f"{language}-to-{language}", str(file))
        options = ("--json", "--scope", scope, "--cache", str(cache))
        started = time.perf_counter()
        report = run_json((sys.executable, "-m", "evaluation", "judge", *submission, *options))
        return {**report, "wall": time.perf_counter() - started}


def measure_speed(cache: Path, device: Device) -> dict[str, Any]:
    """Return the seconds of a verdict in a new process, cold (nothing built) and warm.

    The device's peaks are known before: they are measured once on a machine.
    """
    seconds: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        empty_cache = Path(folder)  # other parts build the same source
        shutil.copytree(cache / "peaks", empty_cache / "peaks")
        for language in ("triton", "cuda"):
            source = implementation("rms_norm", language, "baseline")
            for state, scope in (("cold", "final"), ("warm", "final"), ("round", "round")):
                report = judge("rms_norm", language, source, empty_cache, scope)
                seconds[f"{language} {state}"] = {**report["seconds"], "wall": report["wall"]}
                print(language, state, seconds[f"{language} {state}"], flush=True)
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        subprocess.run([sys.executable, __file__, "--inline", folder], check=True)
        seconds["load_inline"] = {"wall": time.perf_counter() - started}
    ratio = seconds["load_inline"]["wall"] / seconds["cuda cold"]["wall"]
    return {**seconds, "cuda cold, times faster": ratio}


def measure_warm(cache: Path, device: Device) -> list[dict[str, Any]]:
    """Return seconds and speedups of verdicts in this process, three of each scope.

    The first verdict on a submission builds it.
    """
    rows: list[dict[str, Any]] = []
    with ForkServer() as fork_server:
        for operator, language, name in WARM_SUBMISSIONS:
            task = task_of(operator, language)
            files = {task.target_file: implementation(operator, language, name)}
            for scope in ("final", "final", "final", "round", "round", "round"):
                report = kernel_judge.evaluate(
                    Request(task, files, cache, scope=scope), fork_server=fork_server
                )
                rows.append(
                    {
                        "submission": f"{operator}/{language}",
                        "scope": scope,
                        "verdict": report.verdict,
                        "seconds": dict(report.seconds),
                        "seen": report.seen and report.seen.speedup,
                        "unseen": report.unseen and report.unseen.speedup,
                    }
                )
                print(json.dumps(rows[-1]), flush=True)
    return rows


def inline(folder: Path) -> None:
    """Run load_inline of the same CUDA kernel, 5 checks and 100 timed calls."""
    from torch.utils.cpp_extension import load_inline  # only in the process that is timed

    task = task_of("rms_norm", "cuda")
    case = task.cases(Split.SEEN)[0]
    head = languages()["cuda"].header(task.operator)
    source = task.operator.baseline("cuda").replace('#include "rms_norm.h"', head)
    glue = """
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
torch::Tensor forward(torch::Tensor x, torch::Tensor weight, double eps) {
    auto out = torch::empty_like(x);
    rms_norm_args args{(const arena_t*)x.data_ptr(), (const arena_t*)weight.data_ptr(),
                       (arena_t*)out.data_ptr(), x.size(0), x.size(1), (float)eps};
    rms_norm(&args, at::cuda::getCurrentCUDAStream());
    return out;
}
"""
    module = load_inline(
        "inlined",
        cpp_sources="torch::Tensor forward(torch::Tensor, torch::Tensor, double);",
        cuda_sources=source + glue,
        functions=["forward"],
        build_directory=str(folder),
        extra_cuda_cflags=[f"-DARENA_{case.dtype.upper()}=1", "-O3"],
    )
    rows, cols = case["rows"], case["cols"]
    dtype = getattr(torch, case.dtype)
    for seed in range(5):
        torch.manual_seed(seed)
        x = torch.randn(rows, cols, device="cuda").to(dtype)
        weight = torch.rand(cols, device="cuda").to(dtype)
        expected = torch.nn.functional.rms_norm(x.float(), (cols,), weight.float(), case["eps"])
        torch.testing.assert_close(module.forward(x, weight, case["eps"]).float(), expected,
                                   atol=1e-2, rtol=1e-2)  # fmt: skip
    events_each_us(lambda call: module.forward(x, weight, case["eps"]))


def measure_queue(cache: Path, device: Device, verdicts: int = 40) -> dict[str, Any]:
    """Return verdicts per minute over mixed submissions, judged as an arena does on one GPU."""
    return throughput.measure(mixed_submissions(), verdicts, cache, [device])


def measure_queues(cache: Path, device: Device, verdicts: int = 40) -> dict[str, Any]:
    """Return verdicts per minute as `measure_queue` does, over all GPUs like this one."""
    alike = [each for each in detect.devices(cache, (GPU,)) if each.slug == device.slug]
    return throughput.measure(mixed_submissions(), verdicts, cache, alike)


def mixed_submissions() -> list[tuple[Task, str]]:
    return [
        (task_of(operator, language), implementation(operator, language, name))
        for operator, language, name in MIXED_SUBMISSIONS
    ]


def measure_isolation(cache: Path, device: Device) -> list[dict[str, Any]]:
    """Return the isolation features with which a process still reaches the GPU."""
    return isolation.measure()


PARTS: dict[str, Callable[..., Any]] = {
    "clock": exactness.measure,
    "repeatability": measure_repeatability,
    "speed": measure_speed,
    "warm": measure_warm,
    "queue": measure_queue,
    "queues": measure_queues,
    "isolation": measure_isolation,
}

QUEUES = ("queue", "queues")

if __name__ == "__main__":
    main()
