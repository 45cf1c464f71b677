"""Whether the judge's clock is exact, and what the usual ways say of the same kernels.

For each kernel the same windows are clocked twice: by the judge, from outside, and by CUPTI (the
PyTorch profiler), in the contestant that launches them. Beside them stand the time of a verdict,
with no profiler at work, and what a fresh process says of the same kernel: CUPTI over a replayed
graph, CUDA events around such a replay, around each call and around 100 calls, and
triton.testing.do_bench. `python benchmarks/gpu.py clock` runs it; by itself it is that fresh
process.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import torch  # noqa: E402 - the path comes first

from benchmarks import watched  # noqa: E402
from evaluation.devices.device import Device  # noqa: E402
from evaluation.languages import languages  # noqa: E402
from evaluation.memory.cuda_ipc import DeviceMemory  # noqa: E402
from evaluation.memory.ring import BufferRing, ring_slots, slot_bytes  # noqa: E402
from evaluation.process.fork_server import ForkServer  # noqa: E402
from evaluation.session import MeasurementSession  # noqa: E402
from evaluation.tasks.spec import Task  # noqa: E402
from evaluation.timing import estimates  # noqa: E402
from evaluation.tracks.builds import Build, baselines, build  # noqa: E402
from evaluation.tracks.load import load_task  # noqa: E402
from evaluation.types import Case, Measurement, Split  # noqa: E402

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
WINDOWS, REPLAYS, CALLS = 15, 12, 100


def task_of(operator: str, language: str) -> Task:
    return load_task(ROOT / "tasks", operator, f"{language}-to-{language}", "gpu")


def case_of(task: Task, name: str) -> Case:
    cases = (*task.cases(Split.SEEN), *task.cases(Split.UNSEEN))
    return next(case for case in cases if case.name == name)


def built(task: Task, cache: Path) -> Build:
    language = task.track.target
    return build(task, language, {task.target_file: task.operator.baseline(language)}, cache)


def measured(
    fork_server: ForkServer, operator: str, language: str, name: str, cache: Path, device: Device
) -> Measurement:
    """One case of a baseline against itself, by fresh contestants."""
    task = task_of(operator, language)
    made = built(task, cache)
    with MeasurementSession(task, fork_server, baselines(task, cache), cache).meet(
        made, device
    ) as judge:
        return judge.measure(case_of(task, name), estimates.plan_for("gpu", final=True))


def measure(cache: Path, device: Device) -> dict[str, Any]:
    """Each kernel by the judge, by CUPTI on the same launches, and by the usual ways."""
    rows, requests = [], []
    with ForkServer() as fork_server, watched.Watched() as watching:
        for kernel in KERNELS:
            operator, language, name = kernel
            verdict = measured(fork_server, *kernel, cache, device)
            rows.append(
                {
                    "kernel": "/".join(kernel),
                    **by_both_clocks(watching, *kernel, cache, device),
                    "verdict_us": verdict.candidate_us,
                    "verdict_eager_us": verdict.eager_us,
                }
            )
            requests.append(
                {
                    "operator": operator,
                    "language": language,
                    "name": name,
                    "folder": str(built(task_of(operator, language), cache).folder),
                    "microseconds": verdict.candidate_us,
                    "cache_bytes": device.last_level_cache_bytes,
                }
            )
            print(rows[-1], flush=True)
    for row, within in zip(rows, in_fresh_process(requests), strict=True):
        row["alone"] = within
    off = sorted(abs(row["deviation"]) for row in rows)
    return {"kernels": rows, "median_deviation": statistics.median(off), "worst": off[-1]}


def by_both_clocks(
    fork_server: ForkServer, operator: str, language: str, name: str, cache: Path, device: Device
) -> dict[str, Any]:
    """WINDOWS windows of a baseline, by the judge's clock and by CUPTI in its contestant."""
    task = task_of(operator, language)
    # A profiler starts processes, which only what we trust may do.
    made = dataclasses.replace(built(task, cache), trusted=True)
    plan = estimates.plan_for("gpu", final=True)
    with (
        MeasurementSession(task, fork_server, baselines(task, cache), cache).meet(
            made, device
        ) as judge,
        judge.bench(case_of(task, name), plan, ("candidate",)) as (timer,),
    ):
        # Of a window that was run again, the last time counts.
        pairs = [(timer.window() / 1e3, watched.last(timer.arm)) for _ in range(WINDOWS)]
    off = [ours / theirs - 1 for ours, theirs in pairs]
    judged, cupti = zip(*pairs, strict=True)
    return {
        "launches": timer.launches,
        "judge_us": statistics.median(judged),
        "cupti_us": statistics.median(cupti),
        "deviation": statistics.median(off),
        "worst_window": max(off, key=abs),
    }


def in_fresh_process(requests: list[dict[str, Any]]) -> list[dict[str, float]]:
    command = [sys.executable, __file__, json.dumps(requests)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr[-2000:])
    found: list[dict[str, float]] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def by_usual_ways(
    operator: str, language: str, name: str, folder: str, microseconds: float, cache_bytes: int
) -> dict[str, float]:
    """In a process of its own: CUPTI's time per launch of a replayed graph, and the usual ways."""
    import triton.testing
    from torch.profiler import ProfilerActivity, profile

    task = task_of(operator, language)
    case = case_of(task, name)
    kernel = languages()[language].load(Path(folder), operator)
    planned = estimates.GPU_FINAL_PLAN.window_seconds * 1e6 / microseconds
    slots = max(3, round(planned), ring_slots(task.operator, case, 2 * cache_bytes))
    slots = min(slots, 4096, max(3, (32 << 30) // slot_bytes(task.operator, case)))
    with (
        contextlib.closing(DeviceMemory()) as memory,
        BufferRing(task.operator, case, slots, 1, memory) as rig,
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


def events_around(graph: torch.cuda.CUDAGraph, rig: BufferRing, slots: int) -> float:
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


if __name__ == "__main__":
    print(json.dumps([by_usual_ways(**request) for request in json.loads(sys.argv[1])]))
