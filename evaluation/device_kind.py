"""Where kernels run: a GPU of this machine, or its processor."""

from __future__ import annotations

import os
import runpy
from functools import cache
from importlib.util import find_spec
from pathlib import Path

CPU, GPU = "cpu", "gpu"
VENDORS = {"nvidia": ("nvidia[0-9]*", "cuda"), "amd": ("kfd", "hip")}
"""The device files of a vendor's GPUs, and what PyTorch calls a build for them."""
JUDGED = ("nvidia",)
"""Vendors whose GPUs are judged on; on others a language is interpreted if it can be."""
DEVICES = Path("/dev")


@cache
def gpu_vendor() -> str:
    """The vendor of this machine's GPUs; empty where it has none that its PyTorch was built for.
    `ARENA_GPU=none` leaves a GPU alone. Files are looked at, no driver is asked: who asks holds a
    context from then on.
    """
    if os.environ.get("ARENA_GPU") == "none":
        return ""
    for vendor, (files, toolkit) in VENDORS.items():
        if any(DEVICES.glob(files)) and _torch_is_built_for(toolkit):
            return vendor
    return ""


def _torch_is_built_for(toolkit: str) -> bool:
    """Whether PyTorch names a version of `cuda` or `hip`. To import it would take seconds."""
    found = find_spec("torch")
    if found is None or found.origin is None:
        return False
    return bool(runpy.run_path(str(Path(found.origin).with_name("version.py"))).get(toolkit))


def kind_of(kinds: tuple[str, ...]) -> str:
    """Of the kinds of device a language runs on, best first, the one that this machine offers;
    where it offers none, the first.
    """
    here = (GPU, CPU) if gpu_vendor() in JUDGED else (CPU,)
    return next((kind for kind in kinds if kind in here), kinds[0])


def contestant_cores() -> list[int]:
    """The cores that contestants run on: all but the first, which is left to the judge and the
    machine.
    """
    cores = sorted(os.sched_getaffinity(0))
    return cores[1:] or cores
