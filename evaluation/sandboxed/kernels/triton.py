"""UNTRUSTED: loading of a host function and its Triton kernels, compiled or interpreted."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from evaluation.code.building import triton_cache
from evaluation.sandboxed import build_triton
from evaluation.sandboxed.graph_kernels import functions_of
from evaluation.sandboxed.kernels import Kernel, Loader
from evaluation.sandboxed.kernels.python_file import load_function
from evaluation.types import Argument, BufferSet, Launch, calling_order

# torch and triton are imported in functions, because that takes seconds.

INTERPRETED = ("cuda", 90, 32, 232_448)
"""Backend, architecture, threads of a warp, bytes of shared memory: an H100, for autotuners."""


class TritonLoader(Loader):
    def prepare(self) -> None:
        """Import Triton and compute its cache key, a digest of all its files."""
        from triton.runtime.cache import triton_key

        triton_key()

    def load(self, folder: Path, entry: str) -> Kernel:
        import torch

        if torch.cuda.is_available():
            self.add_compiled(folder)
        interpret_without_gpu()
        path = folder / f"{entry}.py"
        return TritonKernel(load_function(path, entry), functions_of(path))

    def add_compiled(self, folder: Path) -> None:
        triton_cache.restore(folder / triton_cache.FOLDER, Path.home() / ".triton" / "cache")


class TritonKernel:
    """A host function: it gets all tensors in calling order, then scalars, and launches kernels."""

    def __init__(self, function: Callable[..., Any], functions: frozenset[str]) -> None:
        self.function = function
        self.functions = functions
        """Names of the functions in the source, of which alone a captured launch may be."""

    def bind(self, arguments: Sequence[Argument], slots: Sequence[BufferSet]) -> Launch:
        names = [a.name for a in calling_order(arguments)]
        calls = [[slot[name] for name in names] for slot in slots]

        def run(first: int, count: int) -> None:
            for index in range(first, first + count):
                self.function(*calls[index % len(calls)])

        return run


def interpret_without_gpu() -> None:
    """Let this process interpret every kernel, unless it has a GPU."""
    import torch

    if torch.cuda.is_available():
        return
    os.environ["TRITON_INTERPRET"] = "1"
    from triton.backends.compiler import GPUTarget
    from triton.runtime import driver

    backend, arch, warp, shared = INTERPRETED
    # Only autotuners need a driver.
    driver.set_active(build_triton.CompilingDriver(GPUTarget(backend, arch, warp), shared))


LOADER = TritonLoader()
