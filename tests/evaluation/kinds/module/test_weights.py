"""Weights of a live model: other processes can read them and never write."""

from __future__ import annotations

import mmap
import os
import signal

import pytest

from evaluation.bench.memory.host import HostRegion
from evaluation.bench.memory.layout import Layout, TensorSpec, map_region


@pytest.fixture
def weights() -> HostRegion:
    region = HostRegion(Layout.of([TensorSpec("weight", (4,), "float32")], 1), read_only=True)
    region.slot(0)["weight"].fill_(3.0)
    return region


def test_sealed_weights_are_read_through_another_mapping(weights: HostRegion) -> None:
    mapped = map_region(weights.descriptor, weights.layout.size, read_only=True)
    assert weights.layout.views(mapped, 0)["weight"].tolist() == [3.0] * 4


def test_writable_mapping_of_sealed_weights_is_refused(weights: HostRegion) -> None:
    with pytest.raises(PermissionError):
        mmap.mmap(weights.descriptor, weights.layout.size, flags=mmap.MAP_SHARED)
    with pytest.raises(PermissionError):
        os.pwrite(weights.descriptor, b"x", 0)


def test_write_to_mapped_weights_ends_the_process(weights: HostRegion) -> None:
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGSEGV, signal.SIG_DFL)
        mapped = map_region(weights.descriptor, weights.layout.size, read_only=True)
        weights.layout.views(mapped, 0)["weight"].fill_(4.0)
        os._exit(0)
    assert os.WTERMSIG(os.waitpid(pid, 0)[1]) == signal.SIGSEGV
    assert weights.slot(0)["weight"].tolist() == [3.0] * 4
