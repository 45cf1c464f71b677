"""Tests of the buffer ring: fresh inputs for every window, and checks of outputs."""

from __future__ import annotations

import dataclasses
import gc
import random
import weakref
from pathlib import Path

import pytest
import torch

from evaluation.bench.memory.input_pool import InputPool
from evaluation.bench.memory.ring import MAX_POLLED, MAX_SLOTS, BufferRing, ring_slots
from evaluation.bench.memory.secret_draws import below
from evaluation.bench.memory.workload import slot_bytes
from evaluation.errors import SubmissionError
from evaluation.kinds.kernel.load import load_operator
from evaluation.kinds.kernel.workload import OperatorWorkload, families_of, values_of
from evaluation.tasks.defaults import bounds_of
from evaluation.tasks.spec import Task
from evaluation.types import Case, Reason, Split

SHIFT = 0.5
TASKS = Path(__file__).resolve().parents[4] / "tasks"


def case_of(task: Task, rows: int, cols: int) -> Case:
    seen = task.cases(Split.SEEN)[0]
    return dataclasses.replace(seen, symbols={"rows": rows, "cols": cols, "shift": SHIFT})


def compute(ring: BufferRing, slots: range) -> None:
    """Write the right outputs of some slots."""
    for slot in slots:
        inputs = ring.inputs.slot(slot)
        ring.outputs.slot(slot)["out"].copy_(inputs["x"] * inputs["weight"] + SHIFT)


@pytest.mark.parametrize("size", [(8, 32), (128, 1024)], ids=["small", "large"])
def test_refill_repeats_no_slice_of_inputs(
    task: Task, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    # By chance two repeat about once in a thousand times, so the draws are fixed.
    monkeypatch.setattr("secrets.token_bytes", random.Random(1).randbytes)
    with BufferRing(OperatorWorkload(task.operator, case_of(task, *size)), slots=4) as ring:
        seen: list[set[tuple[float, float]]] = []
        for _ in range(2):
            ring.refill(0, 4)
            flat = [views["x"].flatten().tolist() for views in map(ring.inputs.slot, range(4))]
            seen += [set(zip(values[::2], values[1::2], strict=True)) for values in flat]
            seen += [set(zip(values[1::2], values[2::2], strict=False)) for values in flat]
        assert sum(map(len, seen)) == len(set().union(*seen))


def test_slices_and_polled_elements_do_not_follow_from_a_seed_of_32_bits(task: Task) -> None:
    workload = OperatorWorkload(task.operator, case_of(task, 8, 32))
    pools = [workload.pool(torch.Generator().manual_seed(5)) for _ in range(2)]
    starts = [pool.draw("x", 64) for pool in pools]
    assert not torch.equal(*starts)
    polled = [below(32, (64,), torch.Generator().manual_seed(5)) for _ in range(2)]
    assert not torch.equal(*polled)
    assert set(below(3, (9, 11), torch.Generator()).flatten().tolist()) == {0, 1, 2}


@pytest.mark.parametrize("size", [(1, 1), (8, 32), (128, 1024)], ids=["one", "small", "large"])
def test_verify_right_outputs_accepts_them(task: Task, size: tuple[int, int]) -> None:
    with BufferRing(OperatorWorkload(task.operator, case_of(task, *size)), slots=3) as ring:
        for first, count in ((0, 3), (2, 2)):
            ring.refill(first, count)
            compute(ring, range(3))
            ring.verify(first, count, sample=count, where="here")
        assert ring.check_seconds is not None


def test_verify_outputs_for_earlier_inputs_are_wrong(task: Task) -> None:
    with BufferRing(OperatorWorkload(task.operator, case_of(task, 8, 32)), slots=2) as ring:
        ring.refill(0, 2)
        compute(ring, range(2))
        earlier = ring.outputs.slot(1)["out"].clone()
        ring.refill(0, 2)
        compute(ring, range(1))
        ring.outputs.slot(1)["out"].copy_(earlier)
        with pytest.raises(SubmissionError) as caught:
            ring.verify(0, 2, sample=2, where="here")
        assert caught.value.reason is Reason.WRONG_VALUES


def test_verify_changed_input_is_refused(task: Task) -> None:
    with BufferRing(OperatorWorkload(task.operator, case_of(task, 8, 32)), slots=2) as ring:
        ring.refill(0, 2)
        compute(ring, range(2))
        ring.inputs.slot(1)["x"][3, 3] = torch.nan
        with pytest.raises(SubmissionError) as caught:
            ring.verify(0, 2, sample=2, where="here")
        assert caught.value.reason is Reason.INPUT_MUTATED


@pytest.mark.parametrize("size", [(1, 1), (8, 32)], ids=["one", "small"])
@pytest.mark.parametrize(("first", "count"), [(0, 5), (3, 4)], ids=["from the first", "round"])
def test_poll_launch_without_outputs_is_refused(
    task: Task, size: tuple[int, int], first: int, count: int
) -> None:
    with BufferRing(OperatorWorkload(task.operator, case_of(task, *size)), slots=5) as ring:
        for late in range(count):
            ring.refill(first, count)
            compute(ring, range(5))
            ring.poll()
            ring.verify(first, count, sample=count, where="here")
            ring.refill(first, count)
            for launch in set(range(count)) - {late}:
                compute(ring, range((first + launch) % 5, (first + launch) % 5 + 1))
            ring.poll()
            compute(ring, range(5))
            with pytest.raises(SubmissionError, match="answered before a timed launch") as caught:
                ring.verify(first, count, sample=count, where="here")
            assert caught.value.reason is Reason.STALE_OUTPUT


def test_select_polled_chooses_one_element_of_each_launch_and_in_time_all(task: Task) -> None:
    with BufferRing(OperatorWorkload(task.operator, case_of(task, 2, 8)), slots=4) as ring:
        ring.refill(0, 4)
        rows = ring.outputs.layout.order
        column = ring.outputs.column("out")
        seen: set[tuple[int, int]] = set()
        for _ in range(300):
            ring.select_polled(0, 4)
            ((memory, chosen),) = ring.polled
            assert memory.data_ptr() == column.data_ptr()
            elements = [divmod(number, column.stride(0)) for number in chosen.tolist()]
            assert [row for row, _ in elements] == list(rows)
            seen |= set(elements)
        assert seen == {(row, element) for row in range(4) for element in range(16)}


def test_poll_of_a_long_window_reads_the_last_launch_and_some_others(task: Task) -> None:
    count = 3 * MAX_POLLED
    with BufferRing(OperatorWorkload(task.operator, case_of(task, 1, 8)), slots=count) as ring:
        rows, stride = ring.outputs.layout.order, ring.outputs.column("out").stride(0)
        seen: set[int] = set()
        for _ in range(50):
            ring.refill(0, count)
            ((_, chosen),) = ring.polled
            read = {number // stride for number in chosen.tolist()}
            assert len(chosen) == MAX_POLLED
            assert rows[count - 1] in read
            seen |= read
        assert seen == set(rows)


def test_poll_empty_outputs_finds_nothing(task: Task) -> None:
    with BufferRing(OperatorWorkload(task.operator, case_of(task, 0, 8)), slots=2) as ring:
        ring.select_polled(0, 2)
        ring.poll()
        assert ring.polled == []
        ring.verify(0, 2, sample=0, where="here")


def test_ring_slots_outgrow_the_cache_within_bounds(task: Task) -> None:
    small, large = case_of(task, 8, 32), case_of(task, 128, 1024)
    slots = ring_slots(OperatorWorkload(task.operator, small), 100_000)
    assert (slots - 1) * slot_bytes(OperatorWorkload(task.operator, small)) < 100_000
    assert slots * slot_bytes(OperatorWorkload(task.operator, small)) >= 100_000
    assert ring_slots(OperatorWorkload(task.operator, large), 1) == 2
    assert ring_slots(OperatorWorkload(task.operator, small), 1 << 40) == MAX_SLOTS


def test_values_of_a_case_have_the_types_of_the_entry_point(task: Task) -> None:
    values = values_of(task.operator, case_of(task, 8, 32))
    assert values == {"rows": 8, "cols": 32, "shift": SHIFT}
    assert [type(value) for value in values.values()] == [int, int, float]


def test_ring_has_one_region_of_each_role_with_rows_in_secret_orders(task: Task) -> None:
    with BufferRing(OperatorWorkload(task.operator, case_of(task, 8, 32)), slots=24) as ring:
        assert ring.regions == [ring.inputs, ring.outputs]
        assert ring.bytes == sum(region.layout.size for region in ring.regions)
        orders = [region.layout.order for region in ring.regions]
    assert orders[0] != orders[1] and all(sorted(order) == [*range(24)] for order in orders)
    assert tuple(range(24)) not in orders


def test_verify_of_undecided_launches_compares_no_values(task: Task) -> None:
    with BufferRing(OperatorWorkload(task.operator, case_of(task, 8, 32)), slots=4) as ring:
        ring.refill(1, 4)
        compute(ring, range(4))
        ring.outputs.slot(3)["out"][0, 0] += 1  # the window's third launch
        ring.verify(1, 4, sample=4, where="here", undecided=[2])
        with pytest.raises(SubmissionError) as caught:
            ring.verify(1, 4, sample=4, where="here", undecided=[1, 3])
        assert caught.value.reason is Reason.WRONG_VALUES
        ring.verify(1, 4, sample=4, where="here", undecided=range(4))


@pytest.mark.parametrize("elements", [1, None], ids=["one place", "all places"])
def test_verify_of_undecided_launches_lets_them_leave_places_unwritten(
    task: Task, elements: int | None
) -> None:
    with BufferRing(OperatorWorkload(task.operator, case_of(task, 8, 32)), slots=4) as ring:
        for _ in range(8):
            ring.refill(1, 4)
            poison = ring.outputs.slot(3)["out"].clone()
            compute(ring, range(4))
            ring.outputs.slot(3)["out"].view(-1)[:elements] = poison.view(-1)[:elements]
            ring.poll()
            ring.verify(1, 4, sample=0, where="here", undecided=[2])  # the window's third launch
        with pytest.raises(SubmissionError) as caught:
            ring.verify(1, 4, sample=4, where="here", undecided=[1, 3])
        assert caught.value.reason is Reason.STALE_OUTPUT


@pytest.mark.parametrize("role", ["inputs", "outputs"])
def test_guard_band_of_any_row_is_checked(task: Task, role: str) -> None:
    with BufferRing(OperatorWorkload(task.operator, case_of(task, 8, 32)), slots=4) as ring:
        ring.refill(0, 4)
        ring.check_guards("here")
        getattr(ring, role).row(2)[0] ^= 1
        with pytest.raises(SubmissionError, match="here: memory before") as caught:
            ring.check_guards("here")
        assert caught.value.reason is Reason.OUT_OF_BOUNDS


PHILOX, DROPOUT = ("Random", "philox_uniform"), ("Random", "dropout")


@pytest.mark.parametrize(
    ("task_of", "name"),
    [(PHILOX, "key"), (DROPOUT, "seed"), (("Loss", "focal_loss"), "label")],
    ids=["two numbers", "one number", "many"],
)
def test_refill_draws_whole_numbers_of_a_range_anew(task_of: tuple[str, str], name: str) -> None:
    """A few drawn sets alone would give a key of two numbers seven values in all launches."""
    operator = load_operator(TASKS.joinpath(*task_of))
    argument = next(a for a in operator.inputs if a.name == name)
    ranges = [(case, bounds_of(argument, case) or (0, 0)) for case in operator.cases]
    wide = [(case, bounds) for case, bounds in ranges if bounds[1] - bounds[0] > 16]
    case, (low, high) = min(wide, key=lambda each: operator.elements(each[0]))
    with BufferRing(OperatorWorkload(operator, case), slots=64) as ring:
        found = []
        for _ in range(3):
            ring.refill(0, 64)
            found += [tuple(ring.inputs.slot(slot)[name].flatten().tolist()) for slot in range(64)]
            ring.check_inputs("here")
    assert all(low <= value < high for values in found for value in values)
    assert len(set(found)) > 0.95 * len(found)


def test_refill_draws_one_number_of_floating_point_anew(task: Task) -> None:
    with BufferRing(OperatorWorkload(task.operator, case_of(task, 1, 1)), slots=64) as ring:
        ring.refill(0, 64)
        assert len({float(ring.inputs.slot(slot)["x"]) for slot in range(64)}) > 58


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int64], ids=str)
def test_pool_shifts_whole_numbers_around_their_range(dtype: torch.dtype) -> None:
    low, high = (-100, 100) if dtype is torch.int8 else (3, 200)
    values = torch.randint(low, high, (5000,)).to(dtype)
    generator = torch.Generator().manual_seed(1)
    pool = InputPool([{"n": values}], 1, generator, ranges={"n": (low, high)})

    starts = pool.draw("n", 8)
    drawn = pool.write("n", starts, torch.empty((8, 5000), dtype=dtype))

    assert int(drawn.min()) >= low and int(drawn.max()) < high
    assert len(drawn.unique()) == high - low, "all numbers of the range"
    assert drawn.equal(pool.write("n", starts, torch.empty((8, 5000), dtype=dtype)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_pool_writes_an_input_of_a_range_into_rows_of_any_order(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(1)
    weights = torch.full((6,), 0.75).to(dtype)
    pool = InputPool([{"weight": weights}], 1, generator, ranges={"weight": (0.5, 1.5)})
    out = torch.zeros(5, 3, dtype=dtype)
    pool.write("weight", pool.draw("weight", 2), out, torch.tensor([4, 1]))
    written = out[[4, 1]]
    assert 0.5 <= written.min() < written.max() <= 1.5
    assert not out[[0, 2, 3]].any()


@pytest.mark.parametrize(
    ("set_bytes", "families"),
    [(0, 4), (1 << 20, 4), (768 << 20, 4), (1 << 30, 3), (2 << 30, 2), (64 << 30, 2)],
)
def test_pool_of_large_inputs_has_fewer_sets(set_bytes: int, families: int) -> None:
    assert len(families_of(set_bytes)) == families


def test_pool_has_no_family_that_an_operator_leaves_out() -> None:
    """With outliers the policy loss exceeds float32, which an honest kernel cannot help."""
    operator = load_operator(TASKS / "Loss/grpo_loss")
    assert operator.input_families == ("nominal", "tiny", "structured")
    with BufferRing(OperatorWorkload(operator, operator.cases[0]), slots=4) as ring:
        ring.refill(0, 4)
        largest = max(float(ring.inputs.slot(n)["log_probs"].abs().max()) for n in range(4))
    assert 0 < largest < 8  # of outliers 40 and more


def test_pool_holds_one_drawn_set_at_a_time() -> None:
    drawn: list[weakref.ref[torch.Tensor]] = []

    def draw(number: int) -> dict[str, torch.Tensor]:
        assert not any(each() is not None for each in drawn), "the last one is gone"
        found = {"x": torch.full((8,), 1.0 + number), "y": torch.randn(4)}
        drawn.extend(map(weakref.ref, found.values()))
        return found

    pool = InputPool(map(draw, range(3)), 3, torch.Generator().manual_seed(1))
    assert len(drawn) == 6
    out = pool.write("y", pool.draw("y", 3), torch.zeros(3, 4))
    assert bool(out.all())


def test_ring_frees_its_pool_when_it_closes_without_a_collection(task: Task) -> None:
    class Pooled(OperatorWorkload):
        def pool(self, generator: torch.Generator) -> InputPool:
            made = super().pool(generator)
            pools.append(weakref.ref(made))
            return made

    pools: list[weakref.ref[InputPool]] = []
    workload = Pooled(task.operator, case_of(task, 8, 32))
    gc.disable()
    try:
        with BufferRing(workload, slots=4) as ring:
            ring.refill(0, 4)
            compute(ring, range(4))
            ring.verify(0, 4, sample=4, where="here")
            assert pools[0]() is not None
        assert pools[0]() is None, "freed though the ring is still referenced"
        gone = weakref.ref(ring)
        del ring
        assert gone() is None
    finally:
        gc.enable()
