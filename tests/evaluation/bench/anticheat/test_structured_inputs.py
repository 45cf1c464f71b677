"""Structured inputs of a launch arrive late together, for launches far behind the one that runs."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from evaluation.bench.anticheat.late_inputs import MAX_WHOLE_BYTES, LateInputs
from evaluation.bench.memory.layout import Layout
from evaluation.bench.memory.ring import BufferRing
from evaluation.errors import SubmissionError
from evaluation.kinds.kernel.load import load_operator
from evaluation.kinds.kernel.workload import OperatorWorkload
from evaluation.types import Reason
from tests.evaluation.bench.anticheat.test_launch_order import (
    SLOTS,
    STEP_SECONDS,
    UNDISTURBED,
    Window,
    short_turns,
    timer_of,
)

__all__ = ["short_turns"]

TASKS = Path(__file__).resolve().parents[4] / "tasks"


@pytest.fixture
def structured() -> Iterator[BufferRing]:
    """A ring of positive definite matrices."""
    operator = load_operator(TASKS / "LinearAlgebra" / "cholesky")
    case = min(operator.cases, key=operator.elements)
    with BufferRing(OperatorWorkload(operator, case), SLOTS) as ring:
        yield ring


def test_structured_inputs_are_whole_in_every_launch(structured: BufferRing) -> None:
    launches: Counter[int] = Counter()
    for _ in range(20):
        structured.refill(0, SLOTS)
        late = LateInputs(structured, 0, SLOTS)
        late.write_decoys()
        for slot in range(SLOTS):
            assert torch.linalg.cholesky(structured.inputs.slot(slot)["a"]).isfinite().all()
        with pytest.raises(SubmissionError, match="input a was changed"):
            structured.check_inputs("here")
        late.inject_missing()
        structured.check_inputs("here")
        launches.update(late.launches)
    assert min(launches) >= SLOTS // 4 and max(launches) == SLOTS - 1


def test_structured_inputs_that_take_long_to_copy_never_arrive_late() -> None:
    operator = load_operator(TASKS / "LinearAlgebra" / "cholesky")
    case = max(operator.cases, key=operator.elements)
    workload = OperatorWorkload(operator, case)
    assert Layout.of(workload.inputs, 1).stride > MAX_WHOLE_BYTES["cpu"]
    with BufferRing(workload, 3) as ring:
        late = LateInputs(ring, 0, 3)
    assert late.launches == late.moments == late.in_time() == []


def test_inputs_of_an_operator_of_whole_numbers_alone_arrive_late_together() -> None:
    """A counting sort would find other numbers when it places than when it counted."""
    sorting = load_operator(TASKS / "Index" / "moe_sort_tokens")
    reducing = load_operator(TASKS / "Reduce" / "argmax")
    assert not OperatorWorkload(sorting, sorting.cases[0]).late
    assert OperatorWorkload(reducing, reducing.cases[0]).late
    case = min(sorting.cases, key=sorting.elements)
    with BufferRing(OperatorWorkload(sorting, case), SLOTS) as ring:
        ring.refill(0, SLOTS)
        given = {bytes(ring.inputs.row(slot).tolist()) for slot in range(SLOTS)}
        late = LateInputs(ring, 0, SLOTS)
        late.write_decoys()
        assert all(bytes(ring.inputs.row(slot).tolist()) in given for slot in range(SLOTS))
        assert all(launch >= SLOTS // 4 for launch in late.launches)
        late.inject_missing()
        ring.check_inputs("here")


class StructuredAhead(Window):
    """Decomposes all matrices of a window, or of a part of it, when its first launch begins."""

    share = 1.0

    def write(self, first: int, count: int) -> None:
        kept = [self.decomposed((first + n) % SLOTS) for n in range(int(self.share * count))]
        for launch in range(count):
            slot = (first + launch) % SLOTS
            found = kept[launch] if launch < len(kept) else self.decomposed(slot)
            with UNDISTURBED:
                self.ring.outputs.slot(slot)["l"].copy_(found)
            time.sleep(STEP_SECONDS)  # waits: launches that last; longer ones pass too

    def decomposed(self, slot: int) -> torch.Tensor:
        a = self.ring.inputs.slot(slot)["a"]
        found: torch.Tensor = torch.linalg.cholesky(a.double())
        return found.to(a.dtype)


class MostAhead(StructuredAhead):
    share = 0.75


class HonestStructured(StructuredAhead):
    share = 0.0


@pytest.mark.parametrize("cheat", [StructuredAhead, MostAhead])
def test_structured_launches_computed_ahead_are_rejected(
    structured: BufferRing, cheat: type[StructuredAhead]
) -> None:
    timer = timer_of(cheat(structured, 1))
    timer.gpu_clocked = False  # its outputs lie in a random order
    with pytest.raises(SubmissionError, match="inputs that arrive before") as caught:
        _ = [timer.window() for _ in range(60)]
    assert caught.value.reason is Reason.WRONG_VALUES


def test_structured_launches_in_turn_are_accepted(structured: BufferRing) -> None:
    timer = timer_of(HonestStructured(structured, 1))
    timer.gpu_clocked = False
    assert all(timer.window() > 0 for _ in range(8))
