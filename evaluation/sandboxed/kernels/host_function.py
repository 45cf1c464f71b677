"""UNTRUSTED: loading of a host function whose package compiles its kernels when they are called."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from evaluation.sandboxed.graph_kernels import functions_of
from evaluation.sandboxed.kernels import Kernel, Loader
from evaluation.sandboxed.kernels.python_file import load_function
from evaluation.sandboxed.kernels.triton import TritonKernel

CACHES = ("CUTE_DSL_CACHE_DIR", "TILELANG_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR")
"""Environment variables that name folders of compiled kernels."""


class HostFunctionLoader(Loader):
    def load(self, folder: Path, entry: str) -> Kernel:
        for name in CACHES:
            os.environ.setdefault(name, f"{tempfile.gettempdir()}/{name.lower()}")
        path = folder / f"{entry}.py"
        return TritonKernel(load_function(path, entry), functions_of(path))


LOADER = HostFunctionLoader()
