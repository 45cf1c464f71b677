"""What a GPU does at best, measured by PyTorch's own kernels: reading and writing all of a tensor,
multiplying matrices. The same code measures every vendor that PyTorch is built for, and says what a
device of theirs is.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from evaluation.building.cache_folder import replace_text
from evaluation.device_kind import GPU
from evaluation.devices.device import Device, Level, slug_of
from evaluation.sandbox.features import isolation_features

ON = "cuda"
COPY_BYTES = 1 << 30
PRODUCTS = {"float32": 4096, "float16": 8192, "bfloat16": 8192, "int8": 8192}
"""The side of the square matrices whose product gives the peak of a dtype."""
EIGHT_BIT_ALIKE = ((8, 9), (10, 3))
"""From the one compute capability of NVIDIA's to before the other, 8-bit floats are multiplied as
fast as 8-bit integers. Source: data sheets of Ada, Hopper and Blackwell; Blackwell Ultra differs.
"""
TF32_PRODUCTS = 3
"""Of TF32 are as accurate as one of float32, near enough. Source: `tf32x3` of Triton's `tl.dot`."""
RUNS, ROUNDS = 5, 4
"""The best of so many rounds of so many runs is the peak: other work only makes them slower."""
METHOD = 2
"""Of measuring: what another way was measured is not known."""
SHORT_RUNS = 200
"""Of what takes microseconds: to launch a round of them takes tens."""


def measured(cache: Path, model: Mapping[str, Any], index: int, again: bool) -> dict[str, float]:
    """Peaks in GB/s and TFLOP/s, the best ever seen of one `model`: all that is known of a device
    but which one it is, with driver and runtime. Measured on PyTorch's device `index`, if at all.
    """
    identity = json.dumps({**model, "measured": METHOD}, sort_keys=True)
    kept = cache / "peaks" / f"gpu-{hashlib.sha256(identity.encode()).hexdigest()[:20]}.json"
    known: dict[str, float] = json.loads(kept.read_text()) if kept.is_file() else {}
    if again or not known:
        import torch

        with torch.cuda.device(index):
            found = dict(_measure(int(model["l2_bytes"])))
        known = {name: max(value, known.get(name, 0.0)) for name, value in found.items()}
        kept.parent.mkdir(parents=True, exist_ok=True)
        replace_text(kept, json.dumps(known))
    return known


def device(
    model: Mapping[str, Any],
    peaks: Mapping[str, float],
    *,
    vendor: str,
    arch: str,
    uuid: str,
    environment: Mapping[str, str],
    unjudged: str = "",
) -> Device:
    """One GPU of a `model` that was measured, with what PyTorch tells of it."""
    slug, l2 = slug_of(model["name"]), model["l2_bytes"]
    return Device(
        slug=slug,
        kind=GPU,
        vendor=vendor,
        name=model["name"],
        arch=arch,
        queue=f"hw.{slug}",
        cores=model["multiprocessors"],
        threads=model["multiprocessors"],
        memory_bytes=model["memory_bytes"],
        last_level_cache_bytes=l2,
        levels=(Level("L2", l2, peaks["l2_gbps"]), Level("memory", 0, peaks["memory_gbps"])),
        peaks=peaks,
        isolation=dataclasses.asdict(isolation_features()),
        fingerprint={**model, "uuid": uuid},
        environment=environment,
        unjudged=unjudged,
    )


def _measure(l2_bytes: int) -> Iterator[tuple[str, float]]:
    import torch

    def copied(size: int, runs: int = RUNS) -> float:
        source = torch.randn(size // 4, device=ON)
        target = torch.empty_like(source)
        return 2 * size / _best_seconds(lambda: torch.neg(source, out=target), runs) / 1e9

    yield "memory_gbps", copied(COPY_BYTES)
    yield "l2_gbps", copied(max(1 << 20, l2_bytes // 4), SHORT_RUNS)
    precise = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = False
    for dtype, side in PRODUCTS.items():
        seconds = min(times * _best_seconds(call) for times, call in _products(dtype, side))
        yield f"{dtype}_tflops", 2 * side**3 / seconds / 1e12
    torch.backends.cuda.matmul.allow_tf32 = precise
    torch.cuda.empty_cache()


def _products(dtype: str, side: int) -> Iterator[tuple[int, Callable[[], Any]]]:
    """Ways to multiply two square matrices of a dtype, of which the fastest shows its peak: a call,
    and how many of it are one product.
    """
    import torch

    if dtype == "int8":
        a = torch.randint(-128, 128, (side, side), dtype=torch.int8, device=ON)
        b = torch.randint(-128, 128, (side, side), dtype=torch.int8, device=ON).t()
        yield 1, lambda: torch._int_mm(a, b)
        first, last = EIGHT_BIT_ALIKE
        if torch.version.cuda and first <= torch.cuda.get_device_capability() < last:
            yield 1, _product_of_8_bit_floats(side)
        return
    x, y = (torch.randn(side, side, device=ON).to(getattr(torch, dtype)) for _ in "ab")
    yield 1, lambda: torch.mm(x, y)
    if dtype == "float32":
        yield TF32_PRODUCTS, _in_tf32(lambda: torch.mm(x, y))


def _in_tf32(call: Callable[[], Any]) -> Callable[[], Any]:
    """A product of float32 in the shorter precision of tensor cores."""
    import torch

    def shortened() -> None:
        torch.backends.cuda.matmul.allow_tf32 = True
        call()
        torch.backends.cuda.matmul.allow_tf32 = False

    return shortened


def _product_of_8_bit_floats(side: int) -> Callable[[], Any]:
    """A product of 8-bit floats, for want of a fast one of 8-bit integers: on an H200 PyTorch's own
    reaches 967 TOP/s, a kernel in Triton 1247, and this 1515.
    """
    import torch

    x, y = (torch.randn(side, side, device=ON).to(torch.float8_e4m3fn) for _ in "ab")
    one, sums = torch.ones((), device=ON), torch.bfloat16
    return lambda: torch._scaled_mm(x, y.t(), one, one, out_dtype=sums, use_fast_accum=True)


def _best_seconds(call: Callable[[], Any], runs: int = RUNS) -> float:
    """Seconds of one call: the fastest of ROUNDS, each a graph of so many `runs` in a row."""
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
