"""Device kinds: a GPU of this machine, or its CPU."""

from __future__ import annotations

import os
import runpy
from functools import cache
from importlib.util import find_spec
from pathlib import Path

CPU, GPU = "cpu", "gpu"
VENDORS = {"nvidia": ("nvidia[0-9]*", "cuda"), "amd": ("kfd", "hip")}
"""Device files of a vendor's GPUs, and PyTorch's name of a build for them."""
JUDGED = ("nvidia",)
"""Vendors whose GPUs are judged on; on others a language is interpreted if it can be."""
DEVICES = Path("/dev")


@cache
def gpu_vendor() -> str:
    """Return the vendor of this machine's GPUs; empty where PyTorch does not support one here.

    `ARENA_GPU=none` ignores a GPU. Only files are read: a call of the driver would open a context.
    """
    if os.environ.get("ARENA_GPU") == "none":
        return ""
    for vendor, (files, toolkit) in VENDORS.items():
        if any(DEVICES.glob(files)) and _torch_is_built_for(toolkit):
            return vendor
    return ""


def _torch_is_built_for(toolkit: str) -> bool:
    """Return whether PyTorch's version names `cuda` or `hip`; an import would take seconds."""
    found = find_spec("torch")
    if found is None or found.origin is None:
        return False
    return bool(runpy.run_path(str(Path(found.origin).with_name("version.py"))).get(toolkit))


def kind_of(kinds: tuple[str, ...]) -> str:
    """Return the first of `kinds` that this machine offers, else the first."""
    here = (GPU, CPU) if gpu_vendor() in JUDGED else (CPU,)
    return next((kind for kind in kinds if kind in here), kinds[0])


def candidate_cores(ranks: int = 1) -> list[int]:
    """Return the cores for candidates and baselines: all but the first, which the judge uses.

    It is added where there would be none for each of the ranks.
    """
    cores = sorted(os.sched_getaffinity(0))
    return cores[1:] if judge_has_core(ranks) else cores


def judge_has_core(ranks: int) -> bool:
    """Return whether the judge has a core of its own beside those of the ranks."""
    return len(os.sched_getaffinity(0)) > ranks


def gpu_count() -> int:
    """Return the number of GPUs that the judge sees, without a call of the driver."""
    if gpu_vendor() not in JUDGED:
        return 0
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return len([name for name in visible.split(",") if name.strip()])
    return len([*DEVICES.glob(VENDORS[gpu_vendor()][0])])
