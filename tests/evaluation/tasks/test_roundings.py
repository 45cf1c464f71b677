"""Tests of the size of roundings: honest float32 results are a few of them off, wrong ones more."""

from __future__ import annotations

import gc
from collections.abc import Callable
from itertools import accumulate

import pytest
import torch
import torch.nn.functional as F

from evaluation.bench.memory.verify import MAX_ESTIMATES
from evaluation.tasks.float64 import lifted
from evaluation.tasks.roundings import (
    MAX_BATCHED,
    PROBES,
    UNIT,
    Disturbed,
    disturbed_by,
    operands_cut,
    products_rounded_to,
    size_of_roundings,
)
from evaluation.tasks.tolerance import Tolerance

Function = Callable[[torch.Tensor], torch.Tensor]
FUNCTIONS: dict[str, Function] = {
    "gelu": F.gelu,
    "silu": F.silu,
    "log_softmax": lambda x: F.log_softmax(x, -1),
    "softmax": lambda x: torch.softmax(x.float(), -1),
    "layer_norm": lambda x: F.layer_norm(x, x.shape[-1:]),
    "product": lambda x: x @ x.mT,
    "linear of one term": lambda x: F.linear(x[:, :1], x[:5, :1], x[0, :5]),
    "convolution": lambda x: F.conv1d(x[:4, None], x[:3, None, :5]),
    "transposed": lambda x: F.conv_transpose1d(x[:4, None], x[:1, None, :5]),
    "mean": lambda x: x.mean(),
    "means of cells": lambda x: F.adaptive_avg_pool2d(x[None], (3, 4)),
    "resized": lambda x: F.interpolate(x[None, None], (40, 129), mode="bilinear"),
    "cumsum": lambda x: x.cumsum(-1),
    "attention": lambda x: F.scaled_dot_product_attention(*[x[None, None, :, :32]] * 3),
    "in place": lambda x: x.clone().mul_(3).add_(1),
}


def sized(function: Function, x: torch.Tensor) -> torch.Tensor:
    generator = torch.Generator().manual_seed(3)
    (size,) = size_of_roundings(lifted(lambda x: function(x)), {"x": x.double()}, generator)
    return size


@pytest.mark.parametrize("scale", [1.0, 32.0])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_float32_result_is_within_some_roundings_and_bfloat16_is_not(
    name: str, scale: float
) -> None:
    function = FUNCTIONS[name]
    x = torch.randn((24, 65), generator=torch.Generator().manual_seed(1)) * scale
    exact, size = lifted(function)(x.double()), sized(function, x)
    assert exact.dtype is torch.float64
    allowed = Tolerance(4.0, 10.0).allowed(exact, size, 1, "float32")
    assert ((function(x).double() - exact).abs() <= allowed).all()
    coarse = function(x.bfloat16().float()).double()
    assert ((coarse - exact).abs() > 3 * allowed).any()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_no_tensor_stays_until_python_collects_cycles(name: str, dtype: str) -> None:
    def tensors() -> int:
        return sum(issubclass(type(each), torch.Tensor) for each in gc.get_objects())

    x = torch.randn((24, 65), generator=torch.Generator().manual_seed(1))
    sized(FUNCTIONS[name], x)  # what PyTorch keeps of a first call
    gc.collect()
    gc.disable()
    try:
        before = tensors()
        with products_rounded_to(dtype):
            sized(FUNCTIONS[name], x)
        assert tensors() == before
    finally:
        gc.enable()


def test_exact_operations_have_no_roundings() -> None:
    x = torch.randn((8, 9))
    for function in (torch.relu, lambda x: x.flip(0), lambda x: x.amax(-1), lambda x: x.sort()[0]):
        assert not sized(function, x).any()
    assert not sized(lambda x: x.argmax(-1), x).any()


def test_operation_in_place_changes_its_tensor_and_rounds_as_another_does() -> None:
    def in_place(x: torch.Tensor) -> torch.Tensor:
        y = x * 1.0
        y.sigmoid_()
        return y

    x = torch.linspace(-4, 4, 200, dtype=torch.float64)
    found, wanted = sized(in_place, x), sized(lambda x: torch.sigmoid(x * 1.0), x)
    torch.testing.assert_close(found, wanted)
    assert 0 < found.max() < 8


@pytest.mark.parametrize("network", [torch.nn.GRU, torch.nn.LSTM])
def test_recurrent_network_is_off_by_a_few_roundings(network: type[torch.nn.RNNBase]) -> None:
    module = network(4, 5).double().requires_grad_(False)
    x = torch.randn(7, 3, 4, generator=torch.Generator().manual_seed(2))
    size = sized(lambda x: module(x)[0], x)
    assert size.min() > 0 and size.max() < 64


def test_sums_grow_with_their_terms() -> None:
    x = torch.ones((2, 1024))
    assert sized(lambda x: x.sum(-1), x).max() > 20 * sized(lambda x: x[:, :2].sum(-1), x).max()


def test_statistics_of_a_batch_may_come_from_one_float32_sum_of_its_rows() -> None:
    rows = torch.arange(4096) % 7 - 3.0  # a few values, whose roundings add up
    x = (rows[:, None] + torch.randn(3, generator=torch.Generator().manual_seed(1))) / 3
    total = squares = torch.zeros(3)
    for row in x:
        total = total + row
    mean = total / len(x)
    for row in x:
        squares = squares + (row - mean) ** 2
    got = (x - mean) / (squares / len(x) + 1e-5).sqrt()

    def normalised(x: torch.Tensor) -> torch.Tensor:
        return F.batch_norm(x, None, None, training=True)

    exact, size = normalised(x.double()), sized(normalised, x)
    allowed = Tolerance(4.0, 10.0).allowed(exact, size, 1, "float32")
    assert ((got - exact).abs() <= allowed).all()
    assert ((got * 1.001 - exact).abs() > allowed).any()


@pytest.mark.parametrize("function", [torch.exp, torch.sigmoid, F.silu])
def test_a_power_of_two_in_place_of_an_exp_is_right(function: Function) -> None:
    x = torch.linspace(-60.0, -15.0, 200)
    power = torch.exp2(x * 1.4426950408889634)  # what GPUs compute; the product is rounded
    got = x * power if function is F.silu else power
    exact, size = lifted(function)(x.double()), sized(function, x)
    assert ((got - exact).abs() <= Tolerance(4.0, 2.0).allowed(exact, size, 1, "float32")).all()
    near = Tolerance(4.0, 2.0).allowed(exact, torch.zeros_like(size), 1, "float32")
    assert ((got - exact).abs() > near).any(), "roundings of the result alone do not allow it"


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_product_may_be_rounded_to_16_bits_before_its_addend(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(5)
    x = torch.randn((24, 65), generator=generator).to(dtype)
    product = (x.float() @ x.float().mT).to(dtype)
    bias = -product[0]  # cancels in the first row
    exact = torch.addmm(bias.double(), x.double(), x.double().mT)
    got = (product.float() + bias.float()).to(dtype).double()
    name = str(dtype).removeprefix("torch.")

    def largest_share() -> float:
        (size,) = size_of_roundings(
            torch.addmm,
            {"input": bias.double(), "mat1": x.double(), "mat2": x.double().mT},
            generator,
        )
        return float(
            ((got - exact).abs() / Tolerance(2.5, 2.0).allowed(exact, size, 1, name)).max()
        )

    assert largest_share() > 1, "it is not rounded in float32"
    with products_rounded_to(name):
        assert largest_share() <= 1
    with products_rounded_to("float32"):
        assert largest_share() > 1


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_few_partial_sums_of_a_product_may_be_rounded_and_not_each_one(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(6)
    a = torch.randn((16, 1024), generator=generator).to(dtype)
    b = torch.randn((1024, 24), generator=generator).to(dtype)
    name = str(dtype).removeprefix("torch.")
    given = {"input": a.double(), "mat2": b.double()}
    exact = torch.mm(**given)

    def is_right(parts: int, in_float32: bool) -> bool:
        total = torch.zeros(exact.shape)
        for x, y in zip(a.tensor_split(parts, 1), b.tensor_split(parts, 0), strict=True):
            product = x.float() @ y.float()
            total = total + product.to(dtype) if in_float32 else (total + product).to(dtype).float()
        allowed = Tolerance(2.5, 2.0).allowed(exact, size, 1, name)
        return bool(((total.to(dtype).double() - exact).abs() <= allowed).all())

    def size_of_many() -> torch.Tensor:
        sizes = [size_of_roundings(torch.mm, given, generator)[0] for _ in range(MAX_ESTIMATES)]
        return torch.stack(sizes).amax(0)

    size = size_of_many()
    assert not is_right(4, in_float32=True), "roundings of float32 do not allow it"
    with products_rounded_to(name):
        size = size_of_many()
    for parts in (1, 2, 4, 8):
        assert is_right(parts, in_float32=True), f"cuBLAS splits a product in {parts}"
    for parts in (128, 1024):
        assert not is_right(parts, in_float32=False), f"a sum of {dtype} over {parts} parts"


def test_infinities_of_a_mask_are_not_disturbed() -> None:
    """They would be no numbers then, and what they make so was given no roundings."""
    x = torch.randn((9, 9), generator=torch.Generator().manual_seed(8))
    mask = torch.full((9, 9), -torch.inf).triu(1)
    masked = sized(lambda x: torch.softmax(x + mask, -1), x)
    assert torch.equal(masked[1:] > 0, (mask == 0)[1:])
    written = sized(lambda x: (x + mask).add_(1).exp(), x)
    assert ((written > 0) == (mask == 0)).all()


def test_factorisation_is_off_by_roundings_of_its_largest_element() -> None:
    generator = torch.Generator().manual_seed(9)
    x = torch.randn((12, 8), generator=generator) * torch.logspace(0, -4, 8)
    exact, size = (
        torch.linalg.qr(x.double()),
        size_of_roundings(torch.linalg.qr, {"A": x.double()}, generator),
    )
    got = torch.linalg.qr(x)
    for y, s, z in zip(exact, size, got, strict=True):
        assert ((z - y).abs() <= Tolerance(4.0, 2.0).allowed(y, s, 1, "float32")).all()
    (lower,) = size_of_roundings(torch.linalg.cholesky, {"input": torch.eye(3).double()}, generator)
    assert (lower.fill_diagonal_(0) == 0).all(), "a factor of Cholesky keeps its zeros"


def test_more_roundings_at_once_reach_over_the_corner_of_a_clamp() -> None:
    below = torch.full((100,), 1 - 1.5 * UNIT, dtype=torch.float64)  # its square is 1 - 3 roundings
    above = torch.full((100,), 2.0, dtype=torch.float64)
    squares = lifted(lambda x: torch.relu(x * x - 1))

    def size(x: torch.Tensor) -> torch.Tensor:
        return size_of_roundings(squares, {"x": x}, torch.Generator().manual_seed(3))[0]

    assert not size(below).any(), "one rounding keeps it on the flat side"
    usual = size(above).mean()
    with disturbed_by(8.0):
        assert 0.1 < size(below).mean() < 5 / 8
        assert float(size(above).mean()) == pytest.approx(float(usual), rel=0.1)


def test_runs_on_large_tensors_end_once_their_sizes_are_enough() -> None:
    x = torch.ones(MAX_BATCHED + 1, dtype=torch.float64)
    runs, sizes = 0, list[torch.Tensor]()

    def doubled(x: torch.Tensor) -> torch.Tensor:
        nonlocal runs
        runs += 1
        return x * 2

    def sized(asked: int = 0, exact: tuple[torch.Tensor, ...] = ()) -> tuple[torch.Tensor, int]:
        """Return the size, and the runs that it took; it is enough once asked so often."""

        def enough(found: tuple[torch.Tensor, ...]) -> bool:
            sizes.append(found[0].mean())
            return len(sizes) == asked

        before, generator = runs, torch.Generator().manual_seed(3)
        sizes.clear()
        with disturbed_by(1.0, enough if asked else None, exact):
            (size,) = size_of_roundings(lifted(doubled), {"x": x}, generator)
        return size, runs - before

    whole, without = sized()
    assert without == PROBES + 1, "one run is not disturbed"
    found, some = sized(4)
    assert some == 3 + 1 and 0 == sizes[0] < sizes[1] < sizes[2] < sizes[3] == found.mean()
    assert found.mean() < whole.mean()
    assert sized(4, exact=(x * 2,))[1] == 3, "outputs that are known are not computed"
    right, none = sized(1, exact=(x * 2,))
    assert none == 0 == right.abs().max(), "within the roundings of the outputs alone"


def test_mean_of_a_bag_grows_with_its_longest_bag() -> None:
    """One operation, though it gathers: without it, tensors of all rows would be disturbed."""

    def mean(table: torch.Tensor, length: int) -> torch.Tensor:
        first = torch.tensor([0, length])
        return F.embedding_bag(torch.arange(length + 1) % len(table), table, first, mode="mean")

    table = torch.ones((8, 32))
    short, long = sized(lambda t: mean(t, 1), table), sized(lambda t: mean(t, 1024), table)
    assert long.max() > 20 * short.max() > 0


def test_places_that_no_input_moves_are_disturbed_in_every_run() -> None:
    x = torch.randn((3, 1000), generator=torch.Generator().manual_seed(1))
    size = sized(lambda x: x + torch.arange(1, 1001) / 3.0, x)
    assert (size > 0.1 * torch.arange(1, 1001)).float().mean() > 0.99


def test_addend_of_a_contraction_rounds_with_its_terms() -> None:
    x = torch.randn((40, 400), generator=torch.Generator().manual_seed(1)) * 1e-3
    for function in (
        lambda x: F.linear(x[:20], x[20:], torch.ones(20, dtype=x.dtype)),
        lambda x: F.conv1d(x[:20, :, None], x[20:, :, None], torch.ones(20, dtype=x.dtype)),
    ):
        assert sized(function, x).min() > 5


SMALL_SUMS: dict[str, Function] = {
    "product": lambda x: x[:20] @ x[20:].mT + torch.ones_like(x[:20, :20]),
    "product of a batch": lambda x: torch.einsum("bi,ci->bc", x, x) - torch.ones_like(x[0, 0]),
    "sum": lambda x: torch.ones_like(x[0, :1]) + (x * x).sum(-1),
    "in place": lambda x: (x[:20] @ x[20:].mT).add_(torch.ones_like(x[0, 0])),
    "in turn": lambda x: (x @ x.mT + torch.zeros_like(x[0, 0])) + torch.ones_like(x[0, 0]),
    "views": lambda x: (x @ x.mT).view(2, -1).unbind()[0] + torch.ones_like(x[0, 0]),
}


@pytest.mark.parametrize("copies", [1, 9])
@pytest.mark.parametrize("name", SMALL_SUMS)
def test_addend_after_a_sum_rounds_as_an_accumulator_that_begins_with_it(
    name: str, copies: int
) -> None:
    x = torch.randn((40, 400), generator=torch.Generator().manual_seed(1)) * 1e-3
    x = x.repeat(1, copies)
    assert (x.numel() > MAX_BATCHED) == (copies > 1)
    assert sized(SMALL_SUMS[name], x).min() > 3


def test_other_additions_round_once() -> None:
    x = torch.randn((40, 400), generator=torch.Generator().manual_seed(1)) * 1e-3
    one = torch.ones((), dtype=torch.float64)
    for function in (
        lambda x: x + one,
        lambda x: (x @ x.mT).relu() + one,  # of the whole sum
        lambda x: (x @ x.mT).mul_(2) + one,
        lambda x: x.mean(-1) + one,
        lambda x: x.sum(-1) + 1e-3 + one,
    ):
        assert 0.1 < sized(function, x).median() < 3


def test_sums_in_a_loop_round_as_one_long_sum() -> None:
    x = torch.randn((8, 64), generator=torch.Generator().manual_seed(1))

    def loop(x: torch.Tensor) -> torch.Tensor:
        total = torch.zeros_like(x[:, 0, None])
        for _ in range(64):
            total = total + (x * x).sum(-1, keepdim=True)
        return total

    once = sized(lambda x: x.repeat(1, 64).square().sum(-1, keepdim=True), x)
    assert (sized(loop, x) < 4 * once).all()


def test_float64_reference_lifts_its_casts_and_keeps_those_to_integers() -> None:
    def reference(x: torch.Tensor) -> torch.Tensor:
        whole = (x.float() * 3).to(torch.int8)
        third = torch.tensor(1.0) / torch.full((1,), 3.0)
        return torch.sum(x.half() * third, -1, dtype=torch.float32) + whole.sum(-1) / 2

    x = torch.rand((4, 7), dtype=torch.float64)
    expected = (x / 3).sum(-1) + (x * 3).to(torch.int8).sum(-1) / 2
    assert torch.get_default_dtype() is torch.float32
    torch.testing.assert_close(lifted(reference)(x), expected, rtol=1e-14, atol=0)
    assert torch.get_default_dtype() is torch.float32
    assert UNIT == 2.0**-24


def test_bessel_function_beside_its_zero_is_off_by_a_rounding_of_its_argument():
    zero = torch.full((64,), 3.8317059702, dtype=torch.float64)
    generator = torch.Generator().manual_seed(0)

    (size,) = size_of_roundings(torch.special.bessel_j1, {"input": zero}, generator)

    slope = 3.8317 * 0.4028  # of J1 there, for a relative change
    assert 0.5 * slope < float(size.min()) and float(size.max()) < 1.01 * slope


def test_overlapping_windows_of_adaptive_pooling_are_sums():
    x = torch.tensor([[[[1.0, -1.0], [1.0, -1.0]]]], dtype=torch.float64)
    generator = torch.Generator().manual_seed(0)

    (size,) = size_of_roundings(lambda x: F.adaptive_avg_pool2d(x, 3), {"x": x}, generator)

    assert float(size[0, 0, 1, 1]) > 0.1, "the middle of three windows is over all, which cancel"


def test_operands_of_ten_bits_are_right_by_the_rule_tf32_alone() -> None:
    """Tensor cores cut them, which shifts a sum of positive products; bfloat16 is coarser."""
    generator = torch.Generator().manual_seed(11)
    c2 = 8.0
    for draw in (torch.randn, torch.rand):
        a, b = draw((64, 512), generator=generator), draw((512, 48), generator=generator)
        given = {"input": a.double(), "mat2": b.double()}
        exact = torch.mm(**given)

        def is_right(x: torch.Tensor, y: torch.Tensor, size: torch.Tensor) -> bool:
            allowed = Tolerance(4.0, c2).allowed(exact, size, 1, "float32")  # noqa: B023
            return bool(((x.double() @ y.double() - exact).abs() <= allowed).all())  # noqa: B023

        cut = [(x.view(torch.int32) & -(1 << 13)).view(torch.float32) for x in (a, b)]
        (ieee,) = size_of_roundings(torch.mm, given, generator)
        assert not is_right(*cut, ieee)
        with operands_cut(c2):
            (tf32,) = size_of_roundings(torch.mm, given, generator)
        assert is_right(*cut, tf32)
        if draw is torch.randn:
            assert not is_right(a.bfloat16().float(), b.bfloat16().float(), tf32)


@pytest.mark.parametrize("transposed", [False, True])
def test_each_gradient_of_a_convolution_is_a_sum_of_its_own_length(transposed: bool) -> None:
    x, weight, gradient = torch.ones(64, 2, 6), torch.ones(2, 2, 3), torch.ones(64, 2, 6)

    def gradients(x, weight, gradient):
        strides = [1], [1], [1], transposed, [0], 1
        wanted = [True, True, True]
        return torch.ops.aten.convolution_backward(gradient, x, weight, [2], *strides, wanted)

    given = {"x": x.double(), "weight": weight.double(), "gradient": gradient.double()}
    generator = torch.Generator().manual_seed(3)
    sizes = size_of_roundings(lifted(gradients), given, generator)
    exact = lifted(gradients)(**given)
    relative = [float((size / y).mean()) for size, y in zip(sizes, exact, strict=True)]
    # Six terms of an input's gradient; hundreds of that of the weight and of the bias.
    assert relative[1] > 3 * relative[0]
    assert relative[2] > 3 * relative[0]


def test_a_result_is_disturbed_in_its_memory_and_an_argument_is_not() -> None:
    x = torch.rand(6, 4, dtype=torch.float64) + 1
    before = x.clone()
    with Disturbed(torch.Generator().manual_seed(3), 1.0):
        torch.unsafe_split(x, 2)  # like a view, which these are not for PyTorch
        torch.ops.aten.reshape(x.T, (24,))
        product = x * 3
    assert torch.equal(x, before)
    assert 0 < float((product / 3 - x).abs().max()) < 8 * UNIT


def test_interpolation_of_some_planes_at_a_time_equals_that_of_all() -> None:
    x = torch.rand(2, 5, 16, 16, dtype=torch.float64)
    with Disturbed(torch.Generator().manual_seed(3), 0.0):
        found = F.interpolate(x, (512, 512), mode="bilinear")
    torch.testing.assert_close(found, F.interpolate(x, (512, 512), mode="bilinear"))


def test_estimate_of_an_interpolation_takes_six_times_its_output() -> None:
    x = torch.rand(1, 8, 16, 16, dtype=torch.float64)
    resized = lifted(lambda x: F.interpolate(x, (512, 512), mode="bilinear"))
    generator = torch.Generator().manual_seed(3)
    with torch.profiler.profile(profile_memory=True) as profile:
        size_of_roundings(resized, {"x": x}, generator)
    events = profile.profiler.kineto_results.events()  # type: ignore[union-attr]
    changes = sorted((e.start_ns(), e.nbytes()) for e in events if e.name() == "[memory]")
    peak = max(accumulate(size for _, size in changes))
    assert peak < 6 * x[0, :, 0, 0].numel() * 512 * 512 * 8
