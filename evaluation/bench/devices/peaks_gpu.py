"""Peaks of a GPU, measured with PyTorch: memory bandwidth and matrix products.

The same code measures every vendor that PyTorch supports.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evaluation.bench.devices.device import Device, Level, slug_of
from evaluation.code.cache_folder import replace_text
from evaluation.device_kind import GPU
from evaluation.sandbox.features import isolation_features

# Functions import torch, which takes a second, only where peaks are measured.

EQUAL_8_BIT_PEAKS = ((8, 9), (10, 3))
"""Range of compute capabilities in which 8-bit floats and 8-bit integers have equal peaks.

Source: data sheets of Ada, Hopper and Blackwell; Blackwell Ultra differs.
"""
TF32_PRODUCTS = 3
"""Products of TF32 with about the accuracy of one of float32. Source: `tf32x3` of `tl.dot`."""
RUNS, ROUNDS = 5, 4
"""The best of so many rounds of so many runs is the peak."""
METHOD = 2
"""Version of the measurement; cached peaks of another version are ignored."""
SHORT_RUNS = 200
"""Runs of a call that takes microseconds: a launch of the round takes tens."""


@dataclass(frozen=True)
class Gpu:
    """One GPU as PyTorch numbers them.

    `model` identifies the device but for its UUID, with driver and runtime. It has at least `name`,
    `multiprocessors`, `memory_bytes` and `l2_bytes`. In `environment` no other GPU is visible.
    """

    model: Mapping[str, Any]
    arch: str
    uuid: str
    environment: Mapping[str, str]


def devices(
    gpus: Sequence[Gpu], vendor: str, cache: Path, again: bool, unjudged: str = ""
) -> list[Device]:
    """Return GPUs with their peaks; the first of each model is measured."""
    found: list[Device] = []
    for index, gpu in enumerate(gpus):
        model, l2 = gpu.model, gpu.model["l2_bytes"]
        slug = slug_of(model["name"])
        first = all(other.slug != slug for other in found)
        peaks = _peaks(cache, model, index, again and first)
        found.append(
            Device(
                slug=slug,
                kind=GPU,
                vendor=vendor,
                name=model["name"],
                arch=gpu.arch,
                queue=f"hw.{slug}",
                cores=model["multiprocessors"],
                threads=model["multiprocessors"],
                memory_bytes=model["memory_bytes"],
                last_level_cache_bytes=l2,
                levels=(
                    Level("L2", l2, peaks["l2_gbps"]),
                    Level("memory", 0, peaks["memory_gbps"]),
                ),
                peaks=peaks,
                isolation=dataclasses.asdict(isolation_features()),
                fingerprint={**model, "uuid": gpu.uuid},
                environment=gpu.environment if len(gpus) > 1 else {},
                unjudged=unjudged,
            )
        )
    return found


def _peaks(cache: Path, model: Mapping[str, Any], index: int, again: bool) -> dict[str, float]:
    """Return the peaks in GB/s and TFLOP/s, the best ever measured of one `model`.

    They are measured on PyTorch's device `index` where they are unknown, or `again`.
    """
    identity = json.dumps({**model, "measured": METHOD}, sort_keys=True)
    path = cache / "peaks" / f"gpu-{hashlib.sha256(identity.encode()).hexdigest()[:20]}.json"
    known: dict[str, float] = json.loads(path.read_text()) if path.is_file() else {}
    if again or not known:
        import torch

        with torch.cuda.device(index):
            measured = dict(measured_peaks(int(model["l2_bytes"])))
        known = {name: max(value, known.get(name, 0.0)) for name, value in measured.items()}
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_text(path, json.dumps(known))
    return known


def _best_seconds(call: Callable[[], Any], runs: int = RUNS) -> float:
    """Return the seconds of one call: the fastest of ROUNDS graphs of `runs` calls."""
    import torch

    call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(runs):
            call()
    best = float("inf")
    for _ in range(ROUNDS):
        start = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        end = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        best = min(best, start.elapsed_time(end) / 1e3 / runs)
        time.sleep(0.01)
    return best


@dataclass(frozen=True)
class Sizes:
    """Device and sizes of what is measured, and the function that measures a call."""

    on: str = "cuda"
    copy_bytes: int = 1 << 30
    products: Mapping[str, int] = field(
        default_factory=lambda: {"float32": 4096, "float16": 8192, "bfloat16": 8192, "int8": 8192}
    )
    """Side of the square matrices whose product gives the peak of a dtype."""
    seconds: Callable[..., float] = _best_seconds


def measured_peaks(l2_bytes: int, sizes: Sizes = Sizes()) -> Iterator[tuple[str, float]]:
    """Yield the names and values of the peaks of PyTorch's current device."""
    import torch

    def copy_gbps(size: int, runs: int = RUNS) -> float:
        source = torch.randn(size // 4, device=sizes.on)
        target = torch.empty_like(source)
        return 2 * size / sizes.seconds(lambda: torch.neg(source, out=target), runs) / 1e9

    yield "memory_gbps", copy_gbps(sizes.copy_bytes)
    yield "l2_gbps", copy_gbps(max(1 << 20, l2_bytes // 4), SHORT_RUNS)
    allow_tf32 = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = False
    for dtype, side in sizes.products.items():
        calls = _products(dtype, side, sizes.on)
        seconds = min(times * sizes.seconds(call) for times, call in calls)
        yield f"{dtype}_tflops", 2 * side**3 / seconds / 1e12
    torch.backends.cuda.matmul.allow_tf32 = allow_tf32
    torch.cuda.empty_cache()


def _products(dtype: str, side: int, on: str) -> Iterator[tuple[int, Callable[[], Any]]]:
    """Return ways to multiply two matrices of a dtype: a call, and its number for one product."""
    import torch

    if dtype == "int8":
        a = torch.randint(-128, 128, (side, side), dtype=torch.int8, device=on)
        b = torch.randint(-128, 128, (side, side), dtype=torch.int8, device=on).t()
        yield 1, lambda: torch._int_mm(a, b)
        first, last = EQUAL_8_BIT_PEAKS
        if torch.version.cuda and first <= torch.cuda.get_device_capability() < last:
            yield 1, _product_of_8_bit_floats(side, on)
        return
    x, y = (torch.randn(side, side, device=on).to(getattr(torch, dtype)) for _ in "ab")
    yield 1, lambda: torch.mm(x, y)
    if dtype == "float32":
        yield TF32_PRODUCTS, _in_tf32(lambda: torch.mm(x, y))


def _in_tf32(call: Callable[[], Any]) -> Callable[[], Any]:
    """Return a product of float32 in the tensor cores' TF32."""
    import torch

    def call_in_tf32() -> None:
        torch.backends.cuda.matmul.allow_tf32 = True
        call()
        torch.backends.cuda.matmul.allow_tf32 = False

    return call_in_tf32


def _product_of_8_bit_floats(side: int, on: str) -> Callable[[], Any]:
    """Return a product of 8-bit floats, in place of one of 8-bit integers.

    On an H200 PyTorch's integer product reaches 967 TOP/s, a Triton kernel 1247, and this 1515.
    """
    import torch

    x, y = (torch.randn(side, side, device=on).to(torch.float8_e4m3fn) for _ in "ab")
    one, sums = torch.ones((), device=on), torch.bfloat16
    return lambda: torch._scaled_mm(x, y.t(), one, one, out_dtype=sums, use_fast_accum=True)
