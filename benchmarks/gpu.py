"""How well the judge measures on this machine's GPU: its clock, its repeatability, its speed.

    python benchmarks/gpu.py [clock repeatability speed queue] [--output FILE]

clock: microseconds per launch as the judge measures them, beside CUPTI's for the same launches and
beside what the usual ways say of the same kernels (see exactness.py). repeatability: the same
submission measured again and again by fresh contestants. speed: seconds from source to verdict,
cold and warm, beside load_inline with 5 checks and 100 timed calls in a fresh process. queue:
verdicts a minute over a queue of submissions, and how busy the GPU was.

Run it on a machine that does nothing else.
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
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import torch  # noqa: E402 - the path comes first

from benchmarks import exactness, throughput  # noqa: E402
from benchmarks.exactness import KERNELS, events_each, measured, task_of  # noqa: E402
from evaluation import hardware, pipeline  # noqa: E402
from evaluation.contestants.zygote import Zygote  # noqa: E402
from evaluation.task import Task  # noqa: E402
from evaluation.types import Split, to_json  # noqa: E402

REPEATED = (*KERNELS[2:4], *KERNELS[5:7], KERNELS[10])
REPEATS = 10
QUEUE = 40


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("parts", nargs="*", default=["clock", "repeatability", "speed", "queue"])
    parser.add_argument("--cache", type=Path, default=None)
    parser.add_argument("--output", type=Path, default=ROOT / "benchmarks/results/judge-gpu.json")
    parser.add_argument("--inline", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inline:
        inline(Path(options.inline))
        return
    with tempfile.TemporaryDirectory() as folder:
        cache = options.cache or Path(folder)
        device = hardware.device_for("gpu", cache)
        found = json.loads(options.output.read_text()) if options.output.is_file() else {}
        found |= {
            "device": to_json(device.fingerprint),
            "peaks": to_json(device.peaks),
            "torch": torch.__version__,
        }
        for part in options.parts:
            measure: Callable[[Path, hardware.Device], Any] = globals()["measure_" + part]
            results = measure(cache, device)
            found[part] = {
                "command": f"python benchmarks/gpu.py {part}",
                "at": datetime.now(UTC).isoformat(timespec="seconds"),
                "now": hardware.state(device),
                "results": results,
            }
            options.output.parent.mkdir(parents=True, exist_ok=True)
            options.output.write_text(json.dumps(found, indent=2) + "\n")
            print(part, json.dumps(results, indent=1), flush=True)


def measure_clock(cache: Path, device: hardware.Device) -> dict[str, Any]:
    """The judge's clock beside CUPTI's and the usual ways."""
    return exactness.measure(cache, device)


def measure_repeatability(cache: Path, device: hardware.Device) -> list[dict[str, Any]]:
    """Coefficients of variation of the speedup and the time over REPEATS measurements."""
    rows = []
    for operator, language, name in REPEATED:
        with Zygote() as zygote:
            found = [
                measured(zygote, operator, language, name, cache, device) for _ in range(REPEATS)
            ]
        rows.append(
            {
                "kernel": f"{operator}/{language}/{name}",
                "us": statistics.median(m.candidate_us for m in found),
                "speedup_cv": variation([m.speedup for m in found]),
                "time_cv": variation([m.candidate_us for m in found]),
                "intervals_with_1": sum(m.low <= 1 <= m.high for m in found),
            }
        )
        print(rows[-1], flush=True)
    return rows


def variation(values: list[float]) -> float:
    """Standard deviation over mean."""
    return statistics.stdev(values) / statistics.fmean(values)


def verdict(task: Task, source: str, cache: Path, scope: str = "final") -> dict[str, float]:
    """Seconds of one verdict by part."""
    started = time.perf_counter()
    request = pipeline.Request(task, {task.target_file: source}, cache, scope=scope)
    report = pipeline.evaluate(request)
    if report.verdict != "passed":
        raise SystemExit(f"{task.slug}: {report.verdict} {report.reason}: {report.message}")
    return {**report.seconds, "wall": time.perf_counter() - started}


def measure_speed(cache: Path, device: hardware.Device) -> dict[str, Any]:
    """Source to full verdict, cold (nothing built, a new process for the zygote) and warm."""
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        unbuilt = Path(folder)  # other parts build the same source
        shutil.copytree(cache / "peaks", unbuilt / "peaks")
        for language in ("triton", "cuda"):
            task = task_of("rms_norm", language)
            source = task.operator.baseline(language)
            for state in ("cold", "warm"):
                found[f"{language} {state}"] = verdict(task, source, unbuilt)
                print(language, state, found[f"{language} {state}"], flush=True)
            found[f"{language} round"] = verdict(task, source, unbuilt, "round")
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        subprocess.run([sys.executable, __file__, "--inline", folder], check=True)
        found["load_inline"] = {"wall": time.perf_counter() - started}
    found["cuda cold, times faster"] = found["load_inline"]["wall"] / found["cuda cold"]["wall"]
    return found


def inline(folder: Path) -> None:
    """The usual way: load_inline of the same CUDA kernel, 5 checks, 100 timed calls."""
    from torch.utils.cpp_extension import load_inline

    from evaluation.building.headers import header

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


def measure_queue(cache: Path, device: hardware.Device) -> dict[str, Any]:
    """Verdicts a minute over QUEUE submissions, as an arena works them off."""
    task = task_of("rms_norm", "cuda")
    return throughput.measure(task, task.operator.baseline("cuda"), QUEUE, cache, device)


if __name__ == "__main__":
    main()
