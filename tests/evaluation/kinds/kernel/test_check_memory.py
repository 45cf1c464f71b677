"""Memory of a check on a GPU, computed: a problem with huge inputs has its launches one by one."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch

from evaluation.bench.memory.cuda_ipc import LARGEST_RING_BYTES, allocation_bytes
from evaluation.bench.memory.layout import Layout
from evaluation.bench.memory.workload import Workload, slot_bytes
from evaluation.bench.turns import MAX_RING_BYTES
from evaluation.device_kind import GPU
from evaluation.kinds.kernel.load import load_task
from evaluation.kinds.kernel.session import CHECKED_TOGETHER, checked_together
from evaluation.kinds.kernel.workload import OperatorWorkload, families_of
from evaluation.tasks.spec import Task, find_operators
from evaluation.types import Split

TASKS = Path(__file__).resolve().parents[4] / "tasks"
CARD = 40_000_000_000
"""Bytes of the smallest card that all is to fit."""


def check_bytes(workload: Workload) -> int:
    """Return the bytes of a check: drawn inputs, a copy while one is drawn, and shared memory."""
    slots = checked_together(workload)
    shared = (Layout.of(specs, slots).size for specs in (workload.inputs, workload.outputs))
    drawn = sum(spec.bytes for spec in workload.inputs)
    return sum(map(allocation_bytes, shared)) + (slots + 1) * drawn


def on_gpu(task: Task, **symbols: int) -> OperatorWorkload:
    case = task.cases(Split.SEEN)[0]
    case = dataclasses.replace(case, symbols={**case.symbols, **symbols})
    return OperatorWorkload(task.operator, case, torch.device("cuda"))


def test_small_launches_are_checked_together(task: Task) -> None:
    assert checked_together(on_gpu(task, rows=64, cols=64)) == CHECKED_TOGETHER


def test_huge_launches_are_checked_one_by_one_and_fit_a_card_of_forty_gigabytes(
    task: Task,
) -> None:
    huge = on_gpu(task, rows=1 << 19, cols=4096)  # eight gibibytes of input and of output
    assert checked_together(huge) == 1
    assert check_bytes(huge) < CARD


@pytest.mark.parametrize("operator", ["attention", "cross_entropy", "matmul", "swiglu", "softmax"])
def test_check_of_an_own_task_takes_a_quarter_of_the_card(operator: str) -> None:
    assert operator in find_operators(TASKS)
    task = load_task(TASKS, operator, "triton-to-triton", GPU)
    for case in task.cases(Split.SEEN):
        workload = OperatorWorkload(task.operator, case, torch.device("cuda"))
        assert check_bytes(workload) < CARD / 4


def timed_bytes(workload: Workload, copies: float) -> int:
    """Return the bytes of timing: the ring, a stage of two launches, the pool and a check.

    A check has the inputs of a launch once more, and `copies` of them in float64.
    """
    slots = max(2, MAX_RING_BYTES // slot_bytes(workload))
    ring = sum(
        allocation_bytes(Layout.of(specs, slots).size)
        for specs in (workload.inputs, workload.outputs)
    )
    stage = allocation_bytes(Layout.of(workload.inputs, 2).size)
    inputs = sum(spec.bytes for spec in workload.inputs)
    pool = (len(families_of(inputs)) + 1) * inputs
    wide = sum(
        spec.bytes // spec.itemsize * 8
        for spec in workload.inputs
        if spec.torch_dtype.is_floating_point
    )
    return ring + stage + pool + inputs + int(copies * wide)


def test_largest_case_of_attention_is_timed_on_three_quarters_of_the_card() -> None:
    task = load_task(TASKS, "attention_decode", "cuda-to-cuda", GPU)
    (case,) = (case for case in task.cases(Split.UNSEEN) if case.name == "llama-8b-large-batch")
    workload = OperatorWorkload(task.operator, case, torch.device("cuda"))
    # Keys and values in float64, gathered, and one of both scaled and once more in order.
    assert timed_bytes(workload, 3.1) < CARD * 3 / 4


def test_longest_ring_fits_what_an_allocation_may_spare(task: Task) -> None:
    for cols in (64, 4096):
        workload = on_gpu(task, rows=64, cols=cols)
        slots = MAX_RING_BYTES // slot_bytes(workload)
        assert Layout.of(workload.inputs, min(4096, slots)).size <= LARGEST_RING_BYTES
