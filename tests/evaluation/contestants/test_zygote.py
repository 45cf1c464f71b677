"""What every contestant inherits."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from evaluation.contestants import processes
from evaluation.contestants.zygote import MEMORY, Zygote

CALLS = """
import ctypes, resource

libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.memset.argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t)
libc.free.argtypes = (ctypes.c_void_p,)
size, faults = 48 << 20, []
for _ in range(4):
    place = libc.malloc(ctypes.c_size_t(size))
    libc.memset(place, 1, size)
    libc.free(place)
    faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
print(faults[-1] - faults[0])
"""


@pytest.mark.parametrize(("environment", "again"), [(MEMORY, False), ({}, True)])
def test_large_memory_that_is_freed_is_not_faulted_in_again(
    environment: dict[str, str], again: bool
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CALLS], env=environment, capture_output=True, text=True, check=True
    )
    assert (int(done.stdout) > 3) == again


def test_a_zygote_has_been_started_so(zygote: Zygote) -> None:
    started = [
        Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        for pid in processes.below(os.getpid())
    ]
    wanted = {f"{name}={value}".encode() for name, value in MEMORY.items()}
    assert any(wanted <= set(variables) for variables in started)
