"""How well the judge measures on this machine's GPU: its clock, its repeatability, its speed.

    python benchmarks/gpu.py [clock repeatability speed queue] [--output FILE]

clock: microseconds per launch as the judge measures them, beside CUPTI's (the PyTorch profiler) in
a process that replays the same graph over as large a ring, and beside what CUDA events around such
a replay, around each call, around 100 calls and triton.testing.do_bench say of the same kernel.
repeatability: the same submission measured again and again by fresh contestants. speed: seconds
from source to verdict, cold and warm, beside load_inline with 5 checks and 100 timed calls in a
fresh process. queue: verdicts a minute over a queue of submissions, and how busy the GPU was.

Run it on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import contextlib
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

from benchmarks import throughput  # noqa: E402
from evaluation import clock, hardware, pipeline  # noqa: E402
from evaluation.building.builds import Build, baselines, build  # noqa: E402
from evaluation.contestants.zygote import Zygote  # noqa: E402
from evaluation.cuda import DeviceMemory  # noqa: E402
from evaluation.judge import Judge  # noqa: E402
from evaluation.languages import languages  # noqa: E402
from evaluation.rig import Rig, ring_slots, slot_bytes  # noqa: E402
from evaluation.task import Task, load_task  # noqa: E402
from evaluation.types import Case, Measurement, Split, to_json  # noqa: E402

KERNELS = (
    ("rms_norm", "cuda", "single-element"),
    ("softmax", "cuda", "attention-512"),
    ("rms_norm", "cuda", "llama-8b-decode"),
    ("softmax", "triton", "attention-512"),
    ("rope", "cuda", "llama-8b-decode"),
    ("rms_norm", "triton", "llama-8b-prefill"),
    ("swiglu", "cuda", "llama-8b-prefill"),
    ("softmax", "cuda", "attention-4k"),
    ("cross_entropy", "triton", "llama-2-float16"),
    ("matmul", "cuda", "llama-8b-decode"),
    ("matmul", "triton", "llama-8b-qkv"),
    ("matmul", "cuda", "llama-8b-mlp-up"),
    ("softmax", "triton", "attention-16k"),
    ("matmul", "triton", "square-8k"),
)
REPEATED = (*KERNELS[2:4], *KERNELS[5:7], KERNELS[10])
REPEATS, REPLAYS, CALLS = 10, 12, 100
QUEUE = 40


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("parts", nargs="*", default=["clock", "repeatability", "speed", "queue"])
    parser.add_argument("--cache", type=Path, default=None)
    parser.add_argument("--output", type=Path, default=ROOT / "benchmarks/results/judge-gpu.json")
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    parser.add_argument("--inline", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        print(json.dumps([inside(**row) for row in json.loads(options.inside)]))
        return
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
            found[part] = {
                "command": f"python benchmarks/gpu.py {part}",
                "at": datetime.now(UTC).isoformat(timespec="seconds"),
                "now": hardware.state(device),
                "results": measure(cache, device),
            }
            options.output.parent.mkdir(parents=True, exist_ok=True)
            options.output.write_text(json.dumps(found, indent=2) + "\n")
            print(part, json.dumps(found[part]["results"], indent=1), flush=True)


def task_of(operator: str, language: str) -> Task:
    return load_task(ROOT / "tasks", operator, f"{language}-to-{language}", "gpu")


def case_of(task: Task, name: str) -> Case:
    cases = (*task.cases(Split.SEEN), *task.cases(Split.UNSEEN))
    return next(case for case in cases if case.name == name)


def built(task: Task, cache: Path) -> Build:
    language = task.track.target
    return build(task, language, {task.target_file: task.operator.baseline(language)}, cache)


def measured(
    zygote: Zygote, operator: str, language: str, name: str, cache: Path, device: hardware.Device
) -> Measurement:
    """One case of a baseline against itself, by fresh contestants."""
    task = task_of(operator, language)
    made = built(task, cache)
    with Judge(task, zygote, baselines(task, cache), cache).meet(made, device) as judge:
        return judge.measure(case_of(task, name), clock.plan_for("gpu", final=True))


def measure_clock(cache: Path, device: hardware.Device) -> dict[str, Any]:
    """The judge's time of each kernel beside those that a process takes of itself."""
    rows: list[dict[str, Any]] = []
    requests = []
    with Zygote() as zygote:
        for operator, language, name in KERNELS:
            outside = measured(zygote, operator, language, name, cache, device)
            rows.append(
                {
                    "kernel": f"{operator}/{language}/{name}",
                    "judge_us": outside.candidate_us,
                    "judge_eager_us": outside.eager_us,
                }
            )
            requests.append(
                {
                    "operator": operator,
                    "language": language,
                    "name": name,
                    "folder": str(built(task_of(operator, language), cache).folder),
                    "microseconds": outside.candidate_us,
                    "cache_bytes": device.last_level_cache_bytes,
                }
            )
    for row, within in zip(rows, in_fresh_process("--inside", json.dumps(requests)), strict=True):
        row |= within
        row["deviation"] = row["judge_us"] / row["cupti_kernels_us"] - 1
        print(row, flush=True)
    off = sorted(abs(row["deviation"]) for row in rows)
    return {"kernels": rows, "median_deviation": statistics.median(off), "worst": off[-1]}


def in_fresh_process(flag: str, value: str) -> Any:
    done = subprocess.run([sys.executable, __file__, flag, value], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr[-2000:])
    return json.loads(done.stdout.strip().splitlines()[-1])


def inside(
    operator: str, language: str, name: str, folder: str, microseconds: float, cache_bytes: int
) -> dict[str, float]:
    """In a process of its own: CUPTI's time per launch of a replayed graph, and the usual ways."""
    import triton.testing
    from torch.profiler import ProfilerActivity, profile

    task = task_of(operator, language)
    case = case_of(task, name)
    kernel = languages()[language].load(Path(folder), operator)
    planned = clock.GPU_FINAL_PLAN.window_seconds * 1e6 / microseconds
    slots = max(3, round(planned), ring_slots(task.operator, case, 2 * cache_bytes))
    slots = min(slots, 4096, max(3, (32 << 30) // slot_bytes(task.operator, case)))
    with (
        contextlib.closing(DeviceMemory()) as memory,
        Rig(task.operator, case, slots, 1, memory) as rig,
    ):
        bound = [
            {**rig.values, **rig.inputs.slot(i), **rig.outputs[0].slot(i)} for i in range(slots)
        ]
        launch = kernel.bind(task.operator.arguments, bound)
        rig.refill(0, 0, slots)
        launch(0, min(slots, 3))
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            launch(0, slots)
        with profile(activities=[ProfilerActivity.CUDA]) as profiler:
            launch(0, 1)
            torch.cuda.synchronize()
        own = {event.name for event in profiler.events()}
        # Refilled between replays and never idle for long: the GPU's clocks are as when it judges.
        with profile(activities=[ProfilerActivity.CUDA]) as profiler:
            for _ in range(REPLAYS):
                rig.refill(0, 0, slots)
                graph.replay()
                torch.cuda.synchronize()
        spent = sorted(
            (event.time_range.start, event.time_range.end)
            for event in profiler.events()
            if event.device_type.name == "CUDA" and event.name in own
        )
        each = len(spent) // REPLAYS
        replays = [spent[turn * each : (turn + 1) * each] for turn in range(1, REPLAYS)]
        spans = [(found[-1][1] - found[0][0]) / slots for found in replays]
        # The judge's clock spans all launches but the first, which finds the caches full of poison.
        clocked = [found[each // slots :] for found in replays]
        kernels = [sum(end - start for start, end in found) / (slots - 1) for found in clocked]
        whole = [events_around(graph, rig, slots) for _ in range(REPLAYS)]
        single, many = events_each(launch, slots), events_many(launch, slots)
        bench = triton.testing.do_bench(lambda: launch(0, 1), return_mode="median") * 1e3
    return {
        "launches": slots,
        "cupti_us": statistics.median(spans),
        "cupti_kernels_us": statistics.median(kernels),
        "events_of_graph_us": statistics.median(whole),
        "events_each_us": single,
        "events_of_100_us": many,
        "do_bench_us": bench,
    }


def events_around(graph: torch.cuda.CUDAGraph, rig: Rig, slots: int) -> float:
    """Microseconds per launch between CUDA events around one replay, with no profiler at work."""
    rig.refill(0, 0, slots)
    start, end = (torch.cuda.Event(enable_timing=True) for _ in "ab")
    start.record()
    graph.replay()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) * 1e3 / slots


def events_each(launch: Callable[[int, int], None], slots: int) -> float:
    """Median microseconds between CUDA events around each of CALLS calls."""
    pairs = [[torch.cuda.Event(enable_timing=True) for _ in "ab"] for _ in range(CALLS)]
    for index, (start, end) in enumerate(pairs):
        start.record()
        launch(index % slots, 1)
        end.record()
    torch.cuda.synchronize()
    return statistics.median(start.elapsed_time(end) * 1e3 for start, end in pairs)


def events_many(launch: Callable[[int, int], None], slots: int) -> float:
    """Microseconds per call between one pair of CUDA events around CALLS calls."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in "ab")
    start.record()
    launch(0, CALLS)
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) * 1e3 / CALLS


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
