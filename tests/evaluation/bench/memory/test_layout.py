"""Tests of shared memory: layout, guard bands, poison, and where regions come from."""

from __future__ import annotations

import os

import pytest
import torch

from evaluation.bench.memory.cuda_ipc import LARGE_PAGE, allocation_bytes
from evaluation.bench.memory.host import HostMemory, HostRegion
from evaluation.bench.memory.layout import Layout, TensorSpec, map_region
from evaluation.bench.memory.poison import poison, unwritten

SPECS = (TensorSpec("x", (3, 5), "float32"), TensorSpec("labels", (7,), "int64"))


def test_region_is_seen_alike_by_both_processes() -> None:
    layout = Layout.of(SPECS, slots=3)
    region = HostRegion(layout)
    other = Layout.from_json(layout.to_json())
    shared = map_region(os.dup(region.descriptor), other.size)
    region.slot(2)["x"].copy_(torch.arange(15.0).view(3, 5))
    region.slot(2)["labels"].fill_(9)
    views = other.views(shared, 2)
    assert torch.equal(views["x"], torch.arange(15.0).view(3, 5))
    assert views["labels"].tolist() == [9] * 7
    assert all(tensor.data_ptr() % 256 == views["x"].data_ptr() % 256 for tensor in views.values())
    region.close()


def test_shuffled_layout_has_no_constant_stride_between_slots() -> None:
    layout = Layout.of(SPECS, slots=64).shuffled()
    assert sorted(layout.order) == [*range(64)] and layout.order != layout.shuffled().order
    region, other = HostRegion(layout), Layout.from_json(layout.to_json())
    shared = map_region(os.dup(region.descriptor), other.size)
    for slot in range(64):
        region.slot(slot)["labels"].fill_(slot)
    for slot in range(64):
        assert other.views(shared, slot)["labels"].tolist() == [slot] * 7
        assert (
            region.row(slot).data_ptr()
            == region.bytes[layout.order[slot] * layout.stride :].data_ptr()
        )
    column = region.column("labels")[region.rows_of(torch.arange(64))]
    assert column[:, 0].tolist() == [*range(64)]
    assert len({a - b for a, b in zip(layout.order, layout.order[1:], strict=False)}) > 16
    region.close()


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int64", "int32"])
def test_poison_differs_from_every_output(dtype: str) -> None:
    region = HostRegion(Layout.of([TensorSpec("y", (33,), dtype)], 1))
    y = region.slot(0)["y"]
    poison(y, 0x1234_5678_9ABC)
    assert bool(unwritten(y, 0x1234_5678_9ABC).all())
    assert not bool(unwritten(y, 0x1234_5678_9ABD << 8).any())
    y[:10] = 0
    y[10:20] = 1
    if y.dtype.is_floating_point:
        y[20:30] = float("nan")
        assert bool(torch.isnan(y[30:]).all())
        assert unwritten(y, 0x1234_5678_9ABC).tolist() == [False] * 30 + [True] * 3
    region.close()


@pytest.mark.parametrize(
    ("offset", "place"),
    [(-1, "before x"), (60, "after x"), (1023, "after x")],
    ids=["one byte before", "one byte after", "far after"],
)
def test_overwritten_guard_band_is_found(offset: int, place: str) -> None:
    layout = Layout.of(SPECS, slots=2)
    region = HostRegion(layout)
    assert region.overwritten() == ""
    position = layout.stride + layout.offsets[0] + offset
    region.bytes[position] ^= 0xFF
    assert region.overwritten() == place
    region.close()


def test_host_region_cannot_be_resized() -> None:
    region = HostRegion(Layout.of(SPECS, 1))
    for size in (0, 1 << 30):
        with pytest.raises(PermissionError):
            os.ftruncate(region.descriptor, size)
    region.close()


def test_empty_tensor_has_a_slot() -> None:
    region = HostRegion(Layout.of([TensorSpec("x", (0, 4), "float32")], 2))
    assert region.slot(1)["x"].shape == (0, 4)
    assert region.overwritten() == ""
    region.close()


def test_host_memory_is_shared_by_descriptor_and_reused_by_a_role() -> None:
    memory = HostMemory()
    layout = Layout.of(SPECS, slots=2)
    first, other = memory.region("inputs", layout), memory.region("outputs", layout)
    first.slot(0)["x"].fill_(7.0)
    assert float(other.slot(0)["x"].abs().max()) == 0.0
    description, (descriptor,) = first.share()
    shared = map_region(os.dup(descriptor), layout.size)
    assert torch.equal(Layout.from_json(description).views(shared, 0)["x"], first.slot(0)["x"])
    first.close()
    again = memory.region("inputs", layout)
    assert again.share()[1] == [descriptor] and float(again.slot(0)["x"].max()) == 7.0
    larger = memory.region("inputs", Layout.of(SPECS, slots=20))
    assert float(larger.slot(0)["x"].abs().max()) == 0.0
    shared.fill_(1)
    assert float(larger.slot(0)["x"].abs().max()) == 0.0, "the old one is another's"
    memory.close()
    memory.close()
    with pytest.raises(OSError, match="descriptor"):
        os.fstat(larger.share()[1][0])
    assert memory.device.type == "cpu"


@pytest.mark.parametrize("size", [1, 4096, LARGE_PAGE, LARGE_PAGE + 1, 3_000_000_001])
def test_allocation_bytes_are_whole_large_pages_with_room_to_grow(size: int) -> None:
    allocated = allocation_bytes(size)
    assert allocated % (2 << 20) == 0
    assert size + size // 4 <= allocated < size + size // 4 + LARGE_PAGE
