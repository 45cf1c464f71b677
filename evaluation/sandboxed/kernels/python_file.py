"""UNTRUSTED: loading of Python candidates in their processes, and of libraries before a fork."""

from __future__ import annotations

import contextlib
import importlib.util
import linecache
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from evaluation.errors import SubmissionError
from evaluation.sandboxed import build_torch
from evaluation.types import Reason


@contextlib.contextmanager
def imports_for_forks() -> Iterator[None]:
    """Let imports ask for CUDA without starting it, after which no fork could use it."""
    import torch

    settings = f"USE_MKL={'ON' if torch._C.has_mkl else 'OFF'}"  # `show` asks the driver too
    replaced = torch.cuda.is_available, torch.__config__.show
    torch.cuda.is_available, torch.__config__.show = lambda: True, lambda: settings
    try:
        yield
    finally:
        torch.cuda.is_available, torch.__config__.show = replaced
        tempfile.tempdir = None  # an import may have cached our folder; a fork has its own


def load_module(path: Path) -> ModuleType:
    """Run a file as a private module; its exceptions pass through."""
    spec = importlib.util.spec_from_file_location(f"_candidate_{path.stem}", path)
    assert spec is not None and spec.loader is not None, f"{path} is no Python file"
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    build_torch.add_types_of_gpu_mode()
    linecache.checkcache(str(path))
    spec.loader.exec_module(module)
    return module


def load_function(path: Path, entry: str) -> Callable[..., Any]:
    """Run a file as a private module and return its function `entry`; its exceptions pass through.

    Raises: SubmissionError(MISSING_ENTRY) without the function.
    """
    function = getattr(load_module(path), entry, None)
    if not callable(function):
        raise SubmissionError(
            Reason.MISSING_ENTRY, f"no function `{entry}` in {path.name}; define it"
        )
    loaded: Callable[..., Any] = function
    return loaded
