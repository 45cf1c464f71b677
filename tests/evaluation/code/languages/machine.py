"""What of CUDA this machine has; a toolkit is looked for as the judge looks for it."""

from __future__ import annotations

import os

import pytest

from evaluation import device_kind
from evaluation.code.building import nvcc
from evaluation.errors import Broken


def _without_nvcc() -> str:
    try:
        nvcc.toolkit()
    except Broken as broken:
        return str(broken)
    return ""


# In CI such a test runs, and fails with what is missing.
needs_nvcc = pytest.mark.skipif(
    bool(_without_nvcc()) and not os.environ.get("CI"), reason=_without_nvcc() or "nvcc is here"
)
without_gpu = pytest.mark.skipif(bool(device_kind.gpu_vendor()), reason="a GPU is here")
