"""Timed launches get inputs that were never seen before, and answers to them are known."""

from __future__ import annotations

import dataclasses
import random

import pytest
import torch

from evaluation.errors import SubmissionError
from evaluation.memory.ring import MAX_SLOTS, BufferRing, ring_slots, slot_bytes, values_of
from evaluation.tasks.spec import Task
from evaluation.types import Case, Reason, Split

SHIFT = 0.5


def case_of(task: Task, rows: int, cols: int) -> Case:
    seen = task.cases(Split.SEEN)[0]
    return dataclasses.replace(seen, symbols={"rows": rows, "cols": cols, "shift": SHIFT})


def answer(ring: BufferRing, slots: range) -> None:
    for slot in slots:
        given = ring.inputs.slot(slot)
        ring.outputs[0].slot(slot)["out"].copy_(given["x"] * given["weight"] + SHIFT)


@pytest.mark.parametrize("size", [(8, 32), (128, 1024)], ids=["small", "large"])
def test_no_stretch_of_inputs_comes_twice(
    task: Task, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Two meet by chance about once in a thousand times, so here chance is always the same.
    monkeypatch.setattr("secrets.randbits", random.Random(1).getrandbits)
    with BufferRing(task.operator, case_of(task, *size), slots=4, processes=1) as ring:
        seen: list[set[tuple[float, float]]] = []
        for _ in range(2):
            ring.refill(0, 0, 4)
            flat = [views["x"].flatten().tolist() for views in map(ring.inputs.slot, range(4))]
            seen += [set(zip(values[::2], values[1::2], strict=True)) for values in flat]
            seen += [set(zip(values[1::2], values[2::2], strict=False)) for values in flat]
        assert sum(map(len, seen)) == len(set().union(*seen))


@pytest.mark.parametrize("size", [(1, 1), (8, 32), (128, 1024)], ids=["one", "small", "large"])
def test_right_answers_to_a_window_are_accepted(task: Task, size: tuple[int, int]) -> None:
    with BufferRing(task.operator, case_of(task, *size), slots=3, processes=1) as ring:
        for first, count in ((0, 3), (2, 2)):
            ring.refill(0, first, count)
            answer(ring, range(3))
            ring.verify(0, first, count, sample=count, where="here")


def test_an_answer_to_other_values_is_refused(task: Task) -> None:
    with BufferRing(task.operator, case_of(task, 8, 32), slots=2, processes=1) as ring:
        ring.refill(0, 0, 2)
        answer(ring, range(2))
        kept = ring.outputs[0].slot(1)["out"].clone()
        ring.refill(0, 0, 2)
        answer(ring, range(1))
        ring.outputs[0].slot(1)["out"].copy_(kept)
        with pytest.raises(SubmissionError) as caught:
            ring.verify(0, 0, 2, sample=2, where="here")
        assert caught.value.reason is Reason.WRONG_VALUES


def test_a_timed_launch_that_changes_its_input_is_refused(task: Task) -> None:
    with BufferRing(task.operator, case_of(task, 8, 32), slots=2, processes=1) as ring:
        ring.refill(0, 0, 2)
        answer(ring, range(2))
        ring.inputs.slot(1)["x"][3, 3] = torch.nan
        with pytest.raises(SubmissionError) as caught:
            ring.verify(0, 0, 2, sample=2, where="here")
        assert caught.value.reason is Reason.INPUT_MUTATED


def looked_at(ring: BufferRing, first: int, count: int) -> None:
    """What ends a window on a GPU, by the same steps on a processor."""
    ring._places = list(ring._draw_places(ring.outputs[0], first, count))
    ring.poll()


@pytest.mark.parametrize("size", [(1, 1), (8, 32)], ids=["one", "small"])
@pytest.mark.parametrize(("first", "count"), [(0, 5), (3, 4)], ids=["from the first", "round"])
def test_a_look_finds_a_launch_of_the_window_that_has_not_written(
    task: Task, size: tuple[int, int], first: int, count: int
) -> None:
    with BufferRing(task.operator, case_of(task, *size), slots=5, processes=1) as ring:
        for late in range(count):
            ring.refill(0, first, count)
            answer(ring, range(5))
            looked_at(ring, first, count)
            ring.verify(0, first, count, sample=count, where="here")
            ring.refill(0, first, count)
            for place in set(range(count)) - {late}:
                answer(ring, range((first + place) % 5, (first + place) % 5 + 1))
            looked_at(ring, first, count)
            answer(ring, range(5))
            with pytest.raises(SubmissionError, match="answered before a timed launch") as caught:
                ring.verify(0, first, count, sample=count, where="here")
            assert caught.value.reason is Reason.STALE_OUTPUT


def test_a_look_goes_to_one_secret_element_of_each_launch_and_comes_to_all_in_time(
    task: Task,
) -> None:
    with BufferRing(task.operator, case_of(task, 2, 8), slots=4, processes=1) as ring:
        ring.refill(0, 0, 4)
        column = ring.outputs[0].column("out")
        seen: set[tuple[int, int]] = set()
        for _ in range(300):
            ((flat, places),) = ring._draw_places(ring.outputs[0], 0, 4)
            assert flat.data_ptr() == column.data_ptr()
            seen |= {divmod(place, column.stride(0)) for place in places.tolist()}
        assert seen == {(slot, element) for slot in range(4) for element in range(16)}


def test_nothing_is_looked_at_where_outputs_are_empty(task: Task) -> None:
    with BufferRing(task.operator, case_of(task, 0, 8), slots=2, processes=1) as ring:
        looked_at(ring, 0, 2)
        assert not ring._unwritten


def test_a_ring_outgrows_the_cache_and_has_two_slots_at_least(task: Task) -> None:
    small, large = case_of(task, 8, 32), case_of(task, 128, 1024)
    slots = ring_slots(task.operator, small, 100_000)
    assert (slots - 1) * slot_bytes(task.operator, small) < 100_000
    assert slots * slot_bytes(task.operator, small) >= 100_000
    assert ring_slots(task.operator, large, 1) == 2
    assert ring_slots(task.operator, small, 1 << 40) == MAX_SLOTS


def test_a_scalar_reaches_an_entry_point_in_its_type(task: Task) -> None:
    values = values_of(task.operator, case_of(task, 8, 32))
    assert values == {"rows": 8, "cols": 32, "shift": SHIFT}
    assert [type(value) for value in values.values()] == [int, int, float]


@pytest.mark.parametrize("size", [(8, 32), (128, 1024)], ids=["small", "large"])
def test_strays_are_like_a_slots_inputs_and_leave_the_ring_as_it_is(
    task: Task, size: tuple[int, int]
) -> None:
    with BufferRing(task.operator, case_of(task, *size), slots=4, processes=1) as ring:
        first = ring.decoy_inputs(2)  # before there is anything else
        ring.refill(0, 1, 3)
        before = [region.bytes.clone() for region in ring.regions(0)]
        rows = ring.decoy_inputs(3)
        for region, old in zip(ring.regions(0), before, strict=True):
            assert region.bytes.equal(old)
        layout = dataclasses.replace(ring.inputs.layout, slots=3)
        assert first.shape == (2, layout.stride) and rows.shape == (3, layout.stride)
        for start, end in layout.gaps():
            assert rows[:, start:end].equal(layout.rows(ring.inputs.bytes)[:3, start:end])
        strange, known = layout.columns(rows.flatten()), ring.inputs.column("x")[:, ::7]
        assert set(strange) == {"x", "weight"}
        assert strange["x"].isfinite().all() and len(strange["x"].unique()) > 100
        for row in strange["x"][:, ::7]:
            assert not (known == row).any()
        answer(ring, range(1, 4))
        ring.verify_launches(0, 1, range(3), "here")  # by the values of the refill, not of strays
