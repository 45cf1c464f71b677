"""Tests of expected outputs, and of comparing outputs with them."""

from __future__ import annotations

import dataclasses
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, cast

import pytest
import torch

from evaluation.bench.memory.poison import poison
from evaluation.bench.memory.verify import MAX_ESTIMATES, acceptable, compare, compare_launch
from evaluation.errors import SubmissionError
from evaluation.kinds.kernel.load import load_operator
from evaluation.tasks.defaults import complete
from evaluation.tasks.operator import Operator
from evaluation.tasks.reference import ExpectedOutput, Reference
from evaluation.tasks.roundings import _asked
from evaluation.tasks.spec import Task
from evaluation.tasks.tolerance import UNIT_ROUNDOFF, Tolerance
from evaluation.types import Argument, Case, Reason, Split

TASKS = Path(__file__).resolve().parents[3] / "tasks"
ROWS, COLS, SECRET = 5, 7, 0x1234_5678_9ABC


def row_sums() -> Any:
    """Return a reference that sums integers by row without the last ones, and finds the largest."""

    def reference(x: torch.Tensor, skip: int) -> tuple[torch.Tensor, torch.Tensor]:
        kept = x[:, :-skip]
        return kept.sum(1), kept.argmax(1)

    return SimpleNamespace(
        exact=reference,
        magnitude=lambda x, skip: tuple(abs(y) for y in reference(x, skip)),
        reduction=lambda case: COLS,
        inputs=lambda case, draw: {"x": draw.integers((ROWS, COLS), -100, 100)},
        cost=lambda case: (0, 0),
    )


def with_reference(operator: Operator, reference: Any, **changes: Any) -> Operator:
    """Return a changed operator whose `reference.py` is another."""

    class Changed(Operator):
        def module(self) -> Any:
            return reference

    fields = {f.name: getattr(operator, f.name) for f in dataclasses.fields(operator)}
    return Changed(**{**fields, **changes})


@pytest.fixture
def integers(task: Task) -> Reference:
    arguments = (
        Argument("x", "input", "int64", ("rows", "cols")),
        Argument("total", "output", "int64", ("rows",)),
        Argument("place", "output", "int64", ("rows",)),
        Argument("skip", "scalar", "int64", ()),
    )
    operator = with_reference(task.operator, row_sums(), arguments=arguments)
    symbols = {"rows": ROWS, "cols": COLS, "skip": 2}
    return Reference(operator, Case("mine", Split.SEEN, "nominal", "float32", symbols))


@pytest.fixture
def floats(task: Task) -> Reference:
    return Reference(task.operator, task.cases(Split.SEEN)[0])


def stacked(reference: Reference, launches: int) -> dict[str, torch.Tensor]:
    draws = [reference.draw() for _ in range(launches)]
    return {name: torch.stack([draw[name] for draw in draws]) for name in draws[0]}


@pytest.mark.parametrize("launches", [1, 2, 9])
@pytest.mark.parametrize("kind", ["floats", "integers"])
def test_expected_of_many_equals_expected_of_each(
    launches: int, kind: str, request: pytest.FixtureRequest
) -> None:
    reference = cast(Reference, request.getfixturevalue(kind))
    inputs = stacked(reference, launches)
    expected_of_all = reference.expected_of_many(inputs)
    assert list(expected_of_all) == [argument.name for argument in reference.operator.outputs]
    for index in range(launches):
        alone = reference.expected({name: tensor[index] for name, tensor in inputs.items()})
        for name, expected in alone.items():
            assert expected_of_all[name].dtype is expected.dtype
            assert expected_of_all[name].exact.shape == (launches, *expected.exact.shape)
            torch.testing.assert_close(expected_of_all[name].exact[index], expected.exact)
            torch.testing.assert_close(expected_of_all[name].allowed[index], expected.allowed)


def test_expected_of_many_without_vmap_calls_each_launch(floats: Reference) -> None:
    module, called = floats.operator.module(), []

    def reference(**inputs: Any) -> Any:
        called.append(next(iter(inputs.values())).max().item())  # fails under vmap
        return module.reference(**inputs)

    changed = SimpleNamespace(**{**vars(module), "exact": reference})
    unbatched = Reference(with_reference(floats.operator, changed), floats.case)
    inputs = stacked(floats, 3)
    expected = floats.expected_of_many(inputs)
    for times in (1, 2):
        found = unbatched.expected_of_many(inputs)
        assert len(called) == 3 * times
    for name, output in expected.items():
        torch.testing.assert_close(found[name].exact, output.exact)
        torch.testing.assert_close(found[name].allowed, output.allowed)


def without_memory(reference: Reference, times: int) -> Reference:
    """Return a reference for which a GPU has too little memory the first `times`."""
    module, left = reference.operator.module(), [*range(times)]

    def exact(**inputs: Any) -> Any:
        if left:
            raise torch.OutOfMemoryError(f"CUDA out of memory, {left.pop()} left")
        return module.exact(**inputs)

    changed = SimpleNamespace(**{**vars(module), "exact": exact})
    return Reference(with_reference(reference.operator, changed), reference.case)


def test_expected_outputs_are_computed_again_once_cached_memory_is_free(
    floats: Reference,
) -> None:
    inputs = floats.draw()
    found = without_memory(floats, 1).expected(inputs)
    for name, output in floats.expected(inputs).items():
        assert torch.equal(found[name].exact, output.exact)


def test_expected_outputs_that_never_fit_raise_the_second_error(floats: Reference) -> None:
    with pytest.raises(torch.OutOfMemoryError, match="0 left"):
        without_memory(floats, 2).expected(floats.draw())


def test_integer_outputs_must_be_exact(integers: Reference) -> None:
    inputs = stacked(integers, 3)
    expected_of_all = integers.expected_of_many(inputs)
    right = {name: expected.rounded for name, expected in expected_of_all.items()}
    assert not any(expected.allowed.any() for expected in expected_of_all.values())
    assert acceptable(right, expected_of_all)
    off = {**right, "total": right["total"] + (torch.arange(ROWS) == 2)}
    assert not acceptable(off, expected_of_all)
    with pytest.raises(SubmissionError, match=r"total\[0, 2\] is wrong") as caught:
        compare(off, expected_of_all, SECRET, "here")
    assert caught.value.reason is Reason.WRONG_VALUES


def test_outputs_within_the_allowed_error_are_acceptable(floats: Reference) -> None:
    expected = floats.expected(floats.draw())["out"]
    exact = dataclasses.replace(expected, dtype=torch.float64)
    for share, right in ((0.99, True), (1.01, False)):
        assert acceptable({"out": exact.exact + share * exact.allowed}, {"out": exact}) is right
    assert compare({"out": exact.exact + 0.5 * exact.allowed}, {"out": exact}, SECRET, "here") == (
        pytest.approx(0.5)
    )


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
def test_non_finite_outputs_must_equal_the_expected_ones(value: float) -> None:
    exact = torch.tensor([1.0, value], dtype=torch.float64)
    expected = {"y": ExpectedOutput(exact, torch.full_like(exact, 1e-6), torch.float32)}
    assert compare({"y": exact.float()}, expected, SECRET, "here") == 0.0
    for wrong in (torch.tensor([value, value]), torch.tensor([1.0, 1.0])):
        assert not acceptable({"y": wrong}, expected)
        with pytest.raises(SubmissionError) as caught:
            compare({"y": wrong}, expected, SECRET, "here")
        assert caught.value.reason is Reason.NON_FINITE


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.int64])
def test_poisoned_output_is_stale(dtype: torch.dtype) -> None:
    exact = torch.ones(4, dtype=torch.float64)
    expected = {"y": ExpectedOutput(exact, torch.full_like(exact, 1e9), dtype)}
    got = torch.ones(4, dtype=dtype)
    assert compare({"y": got}, expected, SECRET, "here") == 0.0
    poison(got[3:], SECRET)
    with pytest.raises(SubmissionError, match=r"y\[3\] was not written") as caught:
        compare({"y": got}, expected, SECRET, "here")
    assert caught.value.reason is Reason.STALE_OUTPUT


@pytest.fixture
def estimated(task: Task) -> tuple[Reference, list[float]]:
    """Reference to twice its input, and the sizes of roundings that its next estimates give."""
    sizes: list[float] = []
    reference = SimpleNamespace(
        exact=lambda x: (2 * x,),
        magnitude=lambda x: (torch.full_like(x, sizes.pop(0)),),
        reduction=lambda case: 1,
    )
    arguments = tuple(
        Argument(*each, "float32", ("n",)) for each in [("x", "input"), ("out", "output")]
    )
    operator = with_reference(task.operator, reference, arguments=arguments)
    case = Case("mine", Split.SEEN, "nominal", "float32", {"n": 1})
    return Reference(operator, case), sizes


def launched(reference: Reference, error: float) -> float:
    x = torch.tensor([1.0])
    return compare_launch(reference, {"x": x}, {"out": 2 * x + error}, SECRET, "here")


def test_size_of_roundings_that_was_too_small_by_chance_refuses_nothing(
    estimated: tuple[Reference, list[float]],
) -> None:
    reference, sizes = estimated
    sizes += [*[0.0] * (MAX_ESTIMATES - 1), 1e4]
    assert 0 < launched(reference, 1e-4) <= 1 and not sizes


@pytest.mark.parametrize("needed", [1, 3])
def test_right_values_need_no_more_estimates_than_one_that_is_large_enough(
    estimated: tuple[Reference, list[float]], needed: int
) -> None:
    reference, sizes = estimated
    sizes += [*[0.0] * (needed - 1), 1e4]
    assert launched(reference, 1e-4) <= 1 and not sizes


@pytest.mark.parametrize(("error", "enough"), [(2e-4, True), (9e-4, False)])
def test_estimate_ends_early_for_errors_up_to_half_of_the_allowed(
    estimated: tuple[Reference, list[float]], error: float, enough: bool
) -> None:
    reference, sizes = estimated
    asked: list[bool] = []

    def magnitude(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        size = (torch.full_like(x, sizes.pop(0)),)
        _, ends, _ = _asked.get()
        assert ends is not None
        asked.append(ends(size))
        return size

    reference.operator.module().magnitude = magnitude  # type: ignore[attr-defined]
    sizes += [1e4]
    assert launched(reference, error) <= 1 and asked == [enough]


def test_values_beyond_the_largest_estimate_are_refused(
    estimated: tuple[Reference, list[float]],
) -> None:
    reference, sizes = estimated
    sizes += [1e4] * MAX_ESTIMATES
    with pytest.raises(SubmissionError, match=r"out\[0\] is wrong") as raised:
        launched(reference, 1e-1)
    assert raised.value.reason is Reason.WRONG_VALUES and not sizes


def test_a_rounding_that_crosses_the_corner_of_a_clamp_is_right(task: Task) -> None:
    """The exact value is cut off two roundings below zero; a float32 product comes out above."""
    (x, out) = (Argument(*each, "float32", ("n",)) for each in [("x", "input"), ("out", "output")])
    module: Any = ModuleType("clamped")
    module.reference = lambda x: torch.relu(x * x - 1)
    complete(module, (x, out), Path("reference.py"))
    tolerance = {"float32": Tolerance(4.0, 6.0)}
    operator = with_reference(task.operator, module, arguments=(x, out), tolerance=tolerance)
    reference = Reference(operator, Case("mine", Split.SEEN, "nominal", "float32", {"n": 1}))
    given = torch.full((1,), 1 - UNIT_ROUNDOFF["float32"])
    for roundings, right in [(1.0, True), (100.0, False)]:
        outputs = {"out": torch.full((1,), roundings * UNIT_ROUNDOFF["float32"])}
        with nullcontext() if right else pytest.raises(SubmissionError, match="wrong"):
            compare_launch(reference, {"x": given}, outputs, SECRET, "here")


def test_empty_output_is_acceptable() -> None:
    empty = torch.empty(0, 3, dtype=torch.float64)
    expected = {"y": ExpectedOutput(empty, empty, torch.float32)}
    assert acceptable({"y": empty.float()}, expected)
    assert compare({"y": empty.float()}, expected, SECRET, "here") == 0.0


@pytest.fixture
def half_norm() -> Reference:
    """Return RMS norm in float16, on few rows."""
    operator = load_operator(TASKS / "Normalization" / "rms_norm")
    symbols = {"rows": 64, "cols": 1024, "eps": 1e-5}
    return Reference(operator, Case("half", Split.SEEN, "nominal", "float16", symbols))


def normalised(x: torch.Tensor, precision: torch.dtype) -> torch.Tensor:
    """Return rows over their root mean square, rounded to float16 at the end."""
    wide = x.to(precision)
    return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-5)).half()


def test_norm_rounded_before_its_weight_is_acceptable_below_normal_numbers(
    half_norm: Reference,
) -> None:
    worst = 0.0
    for _ in range(20):
        inputs = half_norm.draw("tiny")
        inputs["x"] *= 2.0**-6  # most results lie below the smallest normal number
        expected = half_norm.expected(inputs)
        got = inputs["weight"] * normalised(inputs["x"], torch.float32)
        worst = max(worst, compare({"out": got}, expected, SECRET, "here"))
    assert 0.5 < worst <= 1.0


def test_floor_of_a_channel_grows_with_its_weight_and_not_below_one(half_norm: Reference) -> None:
    inputs = half_norm.draw()
    inputs["x"].zero_()
    inputs["weight"][:3] = torch.tensor([0.5, 1.0, 1.5])
    spacing = 2.0**-24
    allowed = half_norm.expected(inputs)["out"].allowed[:, :3] / spacing
    assert torch.allclose(allowed, torch.tensor([1.0, 1.0, 1.5]).double(), rtol=1e-6)
    stacked_inputs = {name: tensor[None] for name, tensor in inputs.items()}
    of_many = half_norm.expected_of_many(stacked_inputs)["out"].allowed[0, :, :3] / spacing
    torch.testing.assert_close(of_many, allowed)


@pytest.mark.parametrize("family", ["nominal", "tiny"])
def test_norm_with_sums_in_float16_is_refused(half_norm: Reference, family: str) -> None:
    inputs = half_norm.draw(family)
    got = inputs["weight"] * normalised(inputs["x"], torch.float16)
    assert not acceptable({"out": got}, half_norm.expected(inputs))
