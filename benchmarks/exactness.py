"""Exactness of the judge's GPU clock, beside other ways to time the same kernels.

The judge and CUPTI time the same windows: the judge from outside, CUPTI in the process that
launches them. Each row also has the time of a verdict without a profiler, and times from a fresh
process: CUPTI over a replayed graph, CUDA events around such a replay, around each call and around
100 calls, and triton.testing.do_bench.

`python benchmarks/gpu.py clock` runs it. Run by itself it is the fresh process.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch

from benchmarks.cupti_process import CuptiForkServer, last_window_us
from benchmarks.shared import ROOT, bind, case_of, run_json, session
from evaluation.bench.devices.device import Device
from evaluation.bench.memory.cuda_ipc import DeviceMemory
from evaluation.bench.memory.ring import BufferRing, ring_slots
from evaluation.bench.memory.workload import slot_bytes
from evaluation.bench.process.fork_server import ForkServer
from evaluation.bench.timing.plan import GPU_FINAL_PLAN, plan_for
from evaluation.code.languages import languages
from evaluation.kinds.kernel.builds import Build, build
from evaluation.kinds.kernel.load import load_task
from evaluation.kinds.kernel.workload import OperatorWorkload
from evaluation.sandboxed.kernels import loader
from evaluation.tasks.loaded_code import run_here
from evaluation.tasks.spec import Task
from evaluation.types import Measurement

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
    ("matmul", "cuda", "square-8k"),
    ("matmul", "hip", "llama-8b-mlp-up"),
)
"""Operator, language and case."""
WINDOWS, REPLAYS, CALLS = 15, 12, 100
MAX_SLOTS, MAX_RING_BYTES = 4096, 32 << 30


def task_of(operator: str, language: str) -> Task:
    """Return the task of an operator from a language to itself."""
    return load_task(ROOT / "tasks", operator, f"{language}-to-{language}", "gpu")


def build_baseline(task: Task, cache: Path) -> Build:
    """Build the baseline of a task's target language as a candidate."""
    language = task.track.target
    return build(task, language, {task.target_file: task.operator.baseline(language)}, cache)


def measure_baseline(
    fork_server: ForkServer, operator: str, language: str, name: str, cache: Path, device: Device
) -> Measurement:
    """Measure one case of a baseline against itself, with new processes."""
    task = task_of(operator, language)
    with session(task, build_baseline(task, cache), fork_server, cache, device) as judge:
        return judge.measure(case_of(task, name), plan_for("gpu", final=True))


def measure(cache: Path, device: Device) -> dict[str, Any]:
    """Time each kernel by the judge, by CUPTI on the same launches, and in a fresh process."""
    rows, requests = [], []
    with ForkServer() as fork_server, CuptiForkServer() as cupti_fork_server:
        for kernel in KERNELS:
            operator, language, name = kernel
            verdict = measure_baseline(fork_server, *kernel, cache, device)
            rows.append(
                {
                    "kernel": "/".join(kernel),
                    **by_both_clocks(cupti_fork_server, *kernel, cache, device),
                    "verdict_us": verdict.candidate_us,
                    "verdict_eager_us": verdict.eager_us,
                }
            )
            requests.append(
                {
                    "operator": operator,
                    "language": language,
                    "name": name,
                    "folder": str(build_baseline(task_of(operator, language), cache).folder),
                    "microseconds": verdict.candidate_us,
                    "cache_bytes": device.last_level_cache_bytes,
                }
            )
            print(rows[-1], flush=True)
    alone = run_json([sys.executable, __file__, json.dumps(requests)])
    for row, times in zip(rows, alone, strict=True):
        row["alone"] = times
    deviations = sorted(abs(row["deviation"]) for row in rows)
    return {
        "kernels": rows,
        "median_deviation": statistics.median(deviations),
        "worst": deviations[-1],
    }


def by_both_clocks(
    fork_server: ForkServer, operator: str, language: str, name: str, cache: Path, device: Device
) -> dict[str, Any]:
    """Time WINDOWS windows of a baseline by the judge's clock and by CUPTI in its process."""
    task = task_of(operator, language)
    # A profiler starts processes, which only a trusted build may do.
    trusted = dataclasses.replace(build_baseline(task, cache), trusted=True)
    plan = plan_for("gpu", final=True)
    with (
        session(task, trusted, fork_server, cache, device) as judge,
        judge.bench(case_of(task, name), plan, ("candidate",)) as (timer,),
    ):
        timer.trusted = True  # a profiler's start is more overhead than a candidate may have
        # The profiler's first recordings count as slow launches, so the windows are too short.
        wanted = round(plan.window_seconds * 1e9 / timer.window())
        timer.capture(max(timer.launches, min(wanted, timer.ring.slots)))
        # The last time counts for a window that was repeated.
        pairs = [(timer.window() / 1e3, last_window_us(timer.process)) for _ in range(WINDOWS)]
    deviations = [judge_us / cupti_us - 1 for judge_us, cupti_us in pairs]
    judged, cupti = zip(*pairs, strict=True)
    return {
        "launches": timer.launches,
        "judge_us": statistics.median(judged),
        "cupti_us": statistics.median(cupti),
        "deviation": statistics.median(deviations),
        "worst_window": max(deviations, key=abs),
    }


def in_this_process(
    operator: str, language: str, name: str, folder: str, microseconds: float, cache_bytes: int
) -> dict[str, float]:
    """Time a kernel in this process by a replayed graph, CUDA events and do_bench."""
    import triton.testing
    from torch.profiler import ProfilerActivity, profile

    run_here()  # this process judges nothing
    task = task_of(operator, language)
    case = case_of(task, name)
    kernel = loader(languages()[language].loader).load(Path(folder), operator)
    planned = GPU_FINAL_PLAN.window_seconds * 1e6 / microseconds
    memory = DeviceMemory()
    workload = OperatorWorkload(task.operator, case, memory.device)
    slots = max(3, round(planned), ring_slots(workload, 2 * cache_bytes))
    slots = min(slots, MAX_SLOTS, max(3, MAX_RING_BYTES // slot_bytes(workload)))
    with (
        contextlib.closing(memory),
        BufferRing(workload, slots, memory) as ring,
    ):
        launch = bind(kernel, task.operator.arguments, ring)
        launch(0, min(slots, 3))
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            launch(0, slots)
        with profile(activities=[ProfilerActivity.CUDA]) as profiler:
            launch(0, 1)
            torch.cuda.synchronize()
        own = {event.name for event in profiler.events()}
        # Refilled between replays and never idle for long: the GPU's clocks are as when judging.
        with profile(activities=[ProfilerActivity.CUDA]) as profiler:
            for _ in range(REPLAYS):
                ring.refill(0, slots)
                graph.replay()
                torch.cuda.synchronize()
        spans = sorted(
            (event.time_range.start, event.time_range.end)
            for event in profiler.events()
            if event.device_type.name == "CUDA" and event.name in own
        )
        each = len(spans) // REPLAYS
        replays = [spans[turn * each : (turn + 1) * each] for turn in range(1, REPLAYS)]
        totals = [(replay[-1][1] - replay[0][0]) / slots for replay in replays]
        # The judge times all launches but the first, which finds the caches full of poison.
        timed = [replay[each // slots :] for replay in replays]
        kernels = [sum(end - start for start, end in replay) / (slots - 1) for replay in timed]

        def replay_refilled() -> float:
            ring.refill(0, slots)
            return events_us(graph.replay) / slots

        whole = [replay_refilled() for _ in range(REPLAYS)]
        single = events_each_us(lambda call: launch(call % slots, 1))
        many = events_us(lambda: launch(0, CALLS)) / CALLS
        bench = triton.testing.do_bench(lambda: launch(0, 1), return_mode="median") * 1e3
    return {
        "launches": slots,
        "cupti_us": statistics.median(totals),
        "cupti_kernels_us": statistics.median(kernels),
        "events_of_graph_us": statistics.median(whole),
        "events_each_us": single,
        "events_of_100_us": many,
        "do_bench_us": bench,
    }


def events_us(call: Callable[[], None]) -> float:
    """Return the microseconds between CUDA events around a call."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in "ab")
    start.record()
    call()
    end.record()
    torch.cuda.synchronize()
    return float(start.elapsed_time(end)) * 1e3


def events_each_us(call: Callable[[int], Any]) -> float:
    """Return the median microseconds between CUDA events around each of CALLS calls."""
    pairs = [[torch.cuda.Event(enable_timing=True) for _ in "ab"] for _ in range(CALLS)]
    for index, (start, end) in enumerate(pairs):
        start.record()
        call(index)
        end.record()
    torch.cuda.synchronize()
    return statistics.median(float(start.elapsed_time(end)) * 1e3 for start, end in pairs)


if __name__ == "__main__":
    print(json.dumps([in_this_process(**request) for request in json.loads(sys.argv[1])]))
