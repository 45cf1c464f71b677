"""A library that asks PyTorch for CUDA as it is imported, and what would start the driver."""

from __future__ import annotations

import importlib

import torch

started: list[str] = []


def device_count() -> int:
    started.append("count")
    return 1


def settings() -> str:
    started.append("settings")
    return ""


build = vars(importlib.import_module("torch._C"))
build.update(_cuda_getDeviceCount=device_count, _show_config=settings)
torch.cuda.is_available()  # type: ignore[no-untyped-call]
NO_MKL = "USE_MKL=OFF" in torch.__config__.show()
