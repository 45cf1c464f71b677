"""Shared device memory, with a CUDA runtime that is made up."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from evaluation.bench.memory import cuda_ipc
from evaluation.errors import Broken


def test_memory_that_pytorch_keeps_is_freed_before_an_allocation_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[str] = []

    def call(name: str, *arguments: Any) -> None:
        calls.append(name)
        if name == "cudaMalloc" and "empty_cache" not in calls:
            raise Broken("cudaMalloc: out of memory")

    monkeypatch.setattr(cuda_ipc, "call", call)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: None)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: calls.append("empty_cache"))
    cuda_ipc.DeviceBlock(1 << 20)
    assert calls == ["cudaMalloc", "empty_cache", "cudaMalloc", "cudaIpcGetMemHandle"]


@pytest.mark.parametrize(
    ("size", "allocated"),
    [
        (1 << 20, 1 << 21),
        (4 << 30, 5 << 30),
        (7 << 30, cuda_ipc.LARGEST_RING_BYTES),
        (9 << 30, 9 << 30),
    ],
)
def test_an_allocation_has_a_quarter_to_spare_up_to_the_longest_ring(
    size: int, allocated: int
) -> None:
    assert cuda_ipc.allocation_bytes(size) == allocated
