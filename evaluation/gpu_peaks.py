"""What a GPU does at best, measured by PyTorch's own kernels: reading and writing all of a tensor,
multiplying matrices. The same code measures every vendor that PyTorch is built for.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from evaluation.building.builds import replace_text

COPY_BYTES = 1 << 30
PRODUCTS = {"float32": 4096, "float16": 8192, "bfloat16": 8192, "int8": 8192}
"""The side of the square matrices whose product gives the peak of a dtype."""
RUNS, ROUNDS = 5, 4
"""The best of so many rounds of so many runs is the peak: other work only makes them slower."""


def measured(cache: Path, model: Mapping[str, Any], index: int, again: bool) -> dict[str, float]:
    """Peaks in GB/s and TFLOP/s, the best ever seen of one `model`: all that is known of a device
    but which one it is, with driver and runtime. Measured on PyTorch's device `index`, if at all.
    """
    identity = json.dumps(model, sort_keys=True)
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


def _measure(l2_bytes: int) -> Iterator[tuple[str, float]]:
    import torch

    def copied(size: int) -> float:
        source = torch.randn(size // 4, device="cuda")
        target = torch.empty_like(source)
        return 2 * size / _best_seconds(lambda: torch.neg(source, out=target)) / 1e9

    yield "memory_gbps", copied(COPY_BYTES)
    yield "l2_gbps", copied(max(1 << 20, l2_bytes // 8))
    precise = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = False
    for dtype, side in PRODUCTS.items():
        rate = 2 * side**3 / _best_seconds(_product(dtype, side)) / 1e12
        yield f"{dtype}_tflops", rate
    torch.backends.cuda.matmul.allow_tf32 = precise
    torch.cuda.empty_cache()


def _product(dtype: str, side: int) -> Callable[[], Any]:
    import torch

    if dtype == "int8":
        a = torch.randint(-128, 128, (side, side), dtype=torch.int8, device="cuda")
        b = torch.randint(-128, 128, (side, side), dtype=torch.int8, device="cuda").t()
        return lambda: torch._int_mm(a, b)
    a, b = (torch.randn(side, side, device="cuda").to(getattr(torch, dtype)) for _ in "ab")
    return lambda: torch.mm(a, b)


def _best_seconds(call: Callable[[], Any]) -> float:
    """Seconds of one call: the fastest of ROUNDS, each a graph of RUNS calls in a row."""
    import torch

    call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(RUNS):
            call()
    best = float("inf")
    for _ in range(ROUNDS):
        start = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        end = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        best = min(best, start.elapsed_time(end) / 1e3 / RUNS)
        time.sleep(0.01)
    return best
