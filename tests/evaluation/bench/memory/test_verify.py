"""Tests of checks of several launches: at once where none is in doubt, else one by one."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from evaluation.bench.memory.poison import poison
from evaluation.bench.memory.verify import compare_launch, compare_launches
from evaluation.errors import SubmissionError
from evaluation.tasks.reference import ExpectedOutput, Reference
from evaluation.tasks.spec import Task
from evaluation.types import Reason, Split

SECRET, COUNT, SHIFT = 0x1234_5678_9ABC, 3, 0.5
WHERE = [f"launch {number}" for number in range(COUNT)]
Launches = list[dict[str, torch.Tensor]]


@pytest.fixture(params=[(8, 32), (1024, 1024)], ids=["small", "large"])
def reference(request: pytest.FixtureRequest, task: Task) -> Reference:
    rows, cols = request.param
    case = task.cases(Split.SEEN)[0]
    symbols = {"rows": rows, "cols": cols, "shift": SHIFT}
    return Reference(task.operator, dataclasses.replace(case, symbols=symbols))


@pytest.fixture
def inputs(reference: Reference) -> Launches:
    return reference.draws(COUNT)


@pytest.fixture
def outputs(inputs: Launches) -> Launches:
    return [{"out": each["x"] * each["weight"] + SHIFT} for each in inputs]


def test_right_launches_have_the_error_of_the_worst(
    reference: Reference, inputs: Launches, outputs: Launches
) -> None:
    each = [
        compare_launch(reference, given, written, SECRET, "alone")
        for given, written in zip(inputs, outputs, strict=True)
    ]
    together = compare_launches(reference, inputs, outputs, SECRET, WHERE)
    assert 0 < together <= 1
    assert together == pytest.approx(max(each), rel=1)


def test_wrong_launch_is_refused_by_its_name(
    reference: Reference, inputs: Launches, outputs: Launches
) -> None:
    outputs[1]["out"][2, 3] += 1
    with pytest.raises(SubmissionError, match="launch 1") as caught:
        compare_launches(reference, inputs, outputs, SECRET, WHERE)
    assert caught.value.reason is Reason.WRONG_VALUES


def test_launch_that_wrote_nothing_is_refused(
    reference: Reference, inputs: Launches, outputs: Launches
) -> None:
    poison(outputs[2]["out"], SECRET)
    with pytest.raises(SubmissionError, match="launch 2") as caught:
        compare_launches(reference, inputs, outputs, SECRET, WHERE)
    assert caught.value.reason is Reason.STALE_OUTPUT


class CountedEstimates:
    """A reference that counts how often its roundings were estimated."""

    def __init__(self, reference: Reference) -> None:
        self._reference, self.count = reference, 0

    def estimates(self, *given: Any) -> Iterator[dict[str, ExpectedOutput]]:
        for found in self._reference.estimates(*given):
            self.count += 1
            yield found


def estimates_until_refused(reference: Reference, given: Any, written: Any) -> int:
    counted: Any = CountedEstimates(reference)
    with pytest.raises(SubmissionError) as caught:
        compare_launch(counted, given, written, SECRET, "alone")
    assert caught.value.reason is Reason.WRONG_VALUES
    found: int = counted.count
    return found


ONE, ROW, ALL = (slice(1), slice(1)), (slice(1),), ()


@pytest.mark.parametrize(("wrong", "estimates"), [(ONE, 9), (ROW, 9), (ALL, 2)], ids=str)
def test_output_that_is_far_off_is_estimated_no_more_than_twice(
    reference: Reference, inputs: Launches, outputs: Launches, wrong: Any, estimates: int
) -> None:
    """A row alone may follow from a choice that roundings decide, such as of the nearest code."""
    outputs[0]["out"][wrong] += 1
    assert estimates_until_refused(reference, inputs[0], outputs[0]) == estimates


@pytest.mark.parametrize(("wrong", "estimates"), [(ROW, 9), (ALL, 3)], ids=str)
def test_output_that_is_several_times_the_allowed_error_off_is_estimated_no_more_than_three_times(
    reference: Reference, inputs: Launches, outputs: Launches, wrong: Any, estimates: int
) -> None:
    allowed = reference.expected(inputs[0])["out"].allowed
    outputs[0]["out"][wrong] += (8 * allowed).to(outputs[0]["out"].dtype)[wrong]
    assert estimates_until_refused(reference, inputs[0], outputs[0]) == estimates


def test_output_of_infinities_that_are_right_is_not_far_off(
    reference: Reference, inputs: Launches
) -> None:
    x = torch.zeros_like(inputs[0]["x"])
    x[1:] = 1e30
    given = {**inputs[0], "x": x, "weight": torch.full_like(inputs[0]["weight"], 1e30)}
    written = {"out": given["x"] * given["weight"] + SHIFT}
    assert bool(written["out"][1:].isinf().all())
    compare_launch(reference, given, written, SECRET, "alone")
    written["out"][0, 0] += 1
    assert estimates_until_refused(reference, given, written) == 9
