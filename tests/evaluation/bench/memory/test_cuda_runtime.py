"""The memory that PyTorch keeps, with an allocator that is made up."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from evaluation.bench.memory import cuda_runtime


@pytest.mark.parametrize(("unused", "freed"), [(1 << 30, []), (3 << 30, [True])])
def test_memory_that_pytorch_keeps_is_freed_if_it_is_large(unused: int, freed: list[bool]) -> None:
    found: list[bool] = []
    cuda_runtime.free_unused(
        SimpleNamespace(
            memory_allocated=lambda: 5 << 30,
            memory_reserved=lambda: (5 << 30) + unused,
            empty_cache=lambda: found.append(True),
        )
    )
    assert found == freed
