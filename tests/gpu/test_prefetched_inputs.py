"""Prefetch check on a GPU: it tells lines in the L2 cache from lines in DRAM."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from evaluation.bench.anticheat.prefetched_inputs import PrefetchCheck
from evaluation.bench.memory.cuda_ipc import DeviceMemory
from evaluation.bench.memory.layout import Layout, TensorSpec
from evaluation.bench.memory.region import Region
from evaluation.errors import SubmissionError
from evaluation.types import Reason

pytestmark = pytest.mark.gpu

SLOTS, LAUNCHED = 1024, range(100, 164)
ELEMENTS = 1 << 15


@pytest.fixture
def inputs() -> Iterator[Region]:
    memory = DeviceMemory()
    layout = Layout.of([TensorSpec("x", (ELEMENTS,), "float32")], SLOTS).shuffled()
    yield memory.region("inputs", layout)
    memory.close()


def load(region: Region, slots: range, share: float = 1.0) -> None:
    for slot in slots:
        region.slot(slot)["x"][: int(share * ELEMENTS)].sum()
    torch.cuda.synchronize()


def test_launches_that_load_their_own_inputs_pass(inputs: Region) -> None:
    for _ in range(20):
        check = PrefetchCheck(inputs, LAUNCHED, SLOTS)
        load(inputs, LAUNCHED)
        check.check("case c")


@pytest.mark.parametrize("share", [1.0, 0.5, 0.25])
@pytest.mark.parametrize("distance", [1, 2, 4])
def test_a_load_of_a_later_slot_is_refused(inputs: Region, distance: int, share: float) -> None:
    check = PrefetchCheck(inputs, LAUNCHED, SLOTS)
    load(inputs, LAUNCHED)
    load(inputs, range(LAUNCHED[-1] + distance, LAUNCHED[-1] + distance + 1), share)

    with pytest.raises(SubmissionError) as caught:
        check.check("case c")

    assert caught.value.reason is Reason.FORBIDDEN
    assert "case c" in caught.value.message
