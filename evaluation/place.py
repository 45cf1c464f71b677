"""Where kernels run: a GPU of this machine, or its processor."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

CPU, GPU = "cpu", "gpu"


@cache
def gpu_vendor() -> str:
    """`nvidia`, `amd`, or nothing where this machine has no GPU. `ARENA_GPU=none` leaves a GPU
    alone. Device files are looked at, no driver is asked: who asks holds a context from then on.
    """
    if os.environ.get("ARENA_GPU") == "none":
        return ""
    if any(Path("/dev").glob("nvidia[0-9]*")):
        return "nvidia"
    return "amd" if Path("/dev/kfd").exists() else ""


def kind_of(kinds: tuple[str, ...]) -> str:
    """Of the kinds of device a language runs on, best first, the one that this machine offers;
    where it offers none, the first.
    """
    here = (GPU, CPU) if gpu_vendor() else (CPU,)
    return next((kind for kind in kinds if kind in here), kinds[0])
