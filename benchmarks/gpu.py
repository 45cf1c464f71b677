"""How well the judge measures on this machine's GPU: its clock, its repeatability, its speed.

    python benchmarks/gpu.py [clock repeatability speed queue isolation] [--output FILE]

clock: microseconds per launch as the judge measures them, beside CUPTI's for the same launches and
beside what the usual ways say of the same kernels (see exactness.py). repeatability: the same
submission judged again and again, through every gate, each time by a process of its own. speed:
seconds of such a process from source to verdict, cold and warm, beside load_inline with 5 checks
and 100 timed calls in a fresh process. queue: final verdicts a minute over a queue of submissions
in two languages, and how busy the GPU was, of as many as there are when it is interrupted.
isolation: behind which walls CUDA IPC works (as root).

Run it on a machine that does nothing else. Each part of FILE says by what it was measured.
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
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import torch  # noqa: E402 - the path comes first

from benchmarks import exactness, isolation, provenance, throughput  # noqa: E402
from benchmarks.exactness import events_each, task_of  # noqa: E402
from evaluation.devices import detect  # noqa: E402
from evaluation.languages import languages  # noqa: E402
from evaluation.types import Split  # noqa: E402

REPEATED = (
    ("rms_norm", "cuda", "shared_row"),
    ("layer_norm", "triton", "whole_row"),
    ("softmax", "cuda", "base_two"),
)
"""Honest answers, unlike the baselines that they are timed against."""
REPEATS = 10
QUEUE = 40
PARTS = ("clock", "repeatability", "speed", "queue", "isolation")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("parts", nargs="*", default=list(PARTS))
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
            measure: Callable[[Path, detect.Device], Any] = globals()["measure_" + part]
            results = measure(cache, device)
            told = {
                "command": f"python benchmarks/gpu.py {part}",
                **provenance.of(device),
                "results": results,
            }
            # Read now: another part may have been measured on another GPU meanwhile.
            found = json.loads(options.output.read_text()) if options.output.is_file() else {}
            options.output.parent.mkdir(parents=True, exist_ok=True)
            options.output.write_text(json.dumps({**found, part: told}, indent=2) + "\n")
            print(part, json.dumps(results, indent=1), flush=True)


def measure_clock(cache: Path, device: detect.Device) -> dict[str, Any]:
    """The judge's clock beside CUPTI's and the usual ways."""
    return exactness.measure(cache, device)


def measure_repeatability(cache: Path, device: detect.Device) -> list[dict[str, Any]]:
    """Coefficients of variation over REPEATS final verdicts on the same submission."""
    rows = []
    for operator, language, name in REPEATED:
        source = answer(operator, language, name)
        reports = [judged(operator, language, source, cache) for _ in range(REPEATS)]
        cases = [report["gates"][3]["measurements"] for report in reports]
        rows.append(
            {
                "submission": f"{operator}/{language}/{name}",
                "seen": varied([report["seen"] for report in reports]),
                "unseen": varied([report["unseen"] for report in reports]),
                "cases": {
                    timed[0]["case"]: {
                        "us": statistics.median(m["candidate_us"] for m in timed),
                        "time_cv": variation([m["candidate_us"] for m in timed]),
                        **varied(timed),
                    }
                    for timed in zip(*cases, strict=True)
                },
            }
        )
        print(json.dumps(rows[-1]), flush=True)
    return rows


def answer(operator: str, language: str, name: str) -> str:
    """An honest answer kept beside an operator, or its baseline."""
    kept = task_of(operator, language).operator
    if name == "baseline":
        return kept.baseline(language)
    return next(a.source for a in kept.honest() if (a.language, a.name) == (language, name))


def varied(intervals: list[dict[str, float]]) -> dict[str, float]:
    """How a speedup varied from verdict to verdict, and how often its interval held the mean of
    all.
    """
    speedups = [each["speedup"] for each in intervals]
    mean = statistics.fmean(speedups)
    return {
        "speedup": mean,
        "speedup_cv": variation(speedups),
        "intervals_with_mean": sum(each["low"] <= mean <= each["high"] for each in intervals),
    }


def variation(values: list[float]) -> float:
    """Standard deviation over mean."""
    return statistics.stdev(values) / statistics.fmean(values)


def judged(
    operator: str, language: str, source: str, cache: Path, scope: str = "final"
) -> dict[str, Any]:
    """The report of `python -m evaluation judge` on a source, with the `wall` seconds of that
    process. Ends this one where it did not pass.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"{operator}{languages()[language].suffix}"
        file.write_text(source)
        asked = (operator, f"{language}-to-{language}", str(file))
        options = ("--json", "--scope", scope, "--cache", str(cache))
        command = (sys.executable, "-m", "evaluation", "judge", *asked, *options)
        started = time.perf_counter()
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        wall = time.perf_counter() - started
    if done.returncode:
        raise SystemExit(f"{asked}: {done.stdout[-1000:]}{done.stderr[-1000:]}")
    return {**json.loads(done.stdout.splitlines()[-1]), "wall": wall}


def measure_speed(cache: Path, device: detect.Device) -> dict[str, Any]:
    """Source to full verdict by a process of its own, cold (nothing built) and warm. The device's
    peaks are known: they are measured once on a machine.
    """
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        unbuilt = Path(folder)  # other parts build the same source
        shutil.copytree(cache / "peaks", unbuilt / "peaks")
        for language in ("triton", "cuda"):
            source = answer("rms_norm", language, "baseline")
            for state, scope in (("cold", "final"), ("warm", "final"), ("round", "round")):
                report = judged("rms_norm", language, source, unbuilt, scope)
                found[f"{language} {state}"] = {**report["seconds"], "wall": report["wall"]}
                print(language, state, found[f"{language} {state}"], flush=True)
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        subprocess.run([sys.executable, __file__, "--inline", folder], check=True)
        found["load_inline"] = {"wall": time.perf_counter() - started}
    found["cuda cold, times faster"] = found["load_inline"]["wall"] / found["cuda cold"]["wall"]
    return found


def inline(folder: Path) -> None:
    """The usual way: load_inline of the same CUDA kernel, 5 checks, 100 timed calls."""
    from torch.utils.cpp_extension import load_inline

    from evaluation.building.c_header import header

    task = task_of("rms_norm", "cuda")
    case = task.cases(Split.SEEN)[0]
    head = header(task.operator, "cuda")
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
        right = torch.nn.functional.rms_norm(x.float(), (cols,), weight.float(), case["eps"])
        torch.testing.assert_close(module.forward(x, weight, case["eps"]).float(), right,
                                   atol=1e-2, rtol=1e-2)  # fmt: skip
    events_each(lambda first, count: module.forward(x, weight, case["eps"]), 1)


def measure_queue(cache: Path, device: detect.Device) -> dict[str, Any]:
    """Final verdicts a minute over QUEUE submissions, as an arena works them off."""
    submissions = [
        (task_of(operator, language), answer(operator, language, name))
        for operator, language, name in REPEATED
    ]
    return throughput.measure(submissions, QUEUE, cache, device)


def measure_isolation(cache: Path, device: detect.Device) -> list[dict[str, Any]]:
    """What a contestant may be kept from without being kept from the GPU."""
    return isolation.measure()


if __name__ == "__main__":
    main()
