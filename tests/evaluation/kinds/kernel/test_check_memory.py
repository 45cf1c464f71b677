"""Memory of a check on a GPU, computed: a problem with huge inputs has its launches one by one."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch

from evaluation.bench.memory.cuda_ipc import allocation_bytes
from evaluation.bench.memory.layout import Layout
from evaluation.bench.memory.workload import Workload
from evaluation.device_kind import GPU
from evaluation.kinds.kernel.load import load_task
from evaluation.kinds.kernel.session import CHECKED_TOGETHER, checked_together
from evaluation.kinds.kernel.workload import OperatorWorkload
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
