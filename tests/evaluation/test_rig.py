"""Timed launches get inputs that were never seen before, and answers to them are known."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from evaluation.errors import SubmissionError
from evaluation.rig import Rig
from evaluation.task import Task
from evaluation.types import Case, Reason, Split

SHIFT = 0.5


def case_of(task: Task, rows: int, cols: int) -> Case:
    seen = task.cases(Split.SEEN)[0]
    return dataclasses.replace(seen, symbols={"rows": rows, "cols": cols, "shift": SHIFT})


def answer(rig: Rig, slots: range) -> None:
    for slot in slots:
        given = rig.inputs.slot(slot)
        rig.outputs[0].slot(slot)["out"].copy_(given["x"] * given["weight"] + SHIFT)


@pytest.mark.parametrize("size", [(8, 32), (128, 1024)], ids=["small", "large"])
def test_no_stretch_of_inputs_comes_twice(task: Task, size: tuple[int, int]) -> None:
    with Rig(task.operator, case_of(task, *size), slots=4, arms=1) as rig:
        seen: list[set[tuple[float, float]]] = []
        for _ in range(2):
            rig.refill(0, 0, 4)
            flat = [views["x"].flatten().tolist() for views in map(rig.inputs.slot, range(4))]
            seen += [set(zip(values[::2], values[1::2], strict=True)) for values in flat]
            seen += [set(zip(values[1::2], values[2::2], strict=False)) for values in flat]
        assert sum(map(len, seen)) == len(set().union(*seen))


@pytest.mark.parametrize("size", [(1, 1), (8, 32), (128, 1024)], ids=["one", "small", "large"])
def test_right_answers_to_a_window_are_accepted(task: Task, size: tuple[int, int]) -> None:
    with Rig(task.operator, case_of(task, *size), slots=3, arms=1) as rig:
        for first, count in ((0, 3), (2, 2)):
            rig.refill(0, first, count)
            answer(rig, range(3))
            rig.verify(0, first, count, sample=count, where="here")


def test_an_answer_to_other_values_is_refused(task: Task) -> None:
    with Rig(task.operator, case_of(task, 8, 32), slots=2, arms=1) as rig:
        rig.refill(0, 0, 2)
        answer(rig, range(2))
        kept = rig.outputs[0].slot(1)["out"].clone()
        rig.refill(0, 0, 2)
        answer(rig, range(1))
        rig.outputs[0].slot(1)["out"].copy_(kept)
        with pytest.raises(SubmissionError) as caught:
            rig.verify(0, 0, 2, sample=2, where="here")
        assert caught.value.reason is Reason.WRONG_VALUES


def test_a_timed_launch_that_changes_its_input_is_refused(task: Task) -> None:
    with Rig(task.operator, case_of(task, 8, 32), slots=2, arms=1) as rig:
        rig.refill(0, 0, 2)
        answer(rig, range(2))
        rig.inputs.slot(1)["x"][3, 3] = torch.nan
        with pytest.raises(SubmissionError) as caught:
            rig.verify(0, 0, 2, sample=2, where="here")
        assert caught.value.reason is Reason.INPUT_MUTATED
