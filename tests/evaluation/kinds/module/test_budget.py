"""Error ratios, drop reasons and the prediction of a model's speedup."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

import pytest
import torch
from torch import nn

from evaluation.errors import SubmissionError
from evaluation.kinds.module import budget, drops, limits, tape
from evaluation.kinds.module.drops import Drop, Facts, Reported
from evaluation.kinds.module.limits import Ratios
from evaluation.tasks.input_families import torch_dtype
from evaluation.types import Interval


def test_row_errors_of_equal_outputs_are_0() -> None:
    values = torch.randn(4, 64)
    assert budget.row_errors(values, values).tolist() == [0.0] * 4


def test_row_error_of_a_value_that_is_not_finite_is_infinite() -> None:
    want = torch.randn(4, 64)
    got = want.clone()
    got[2, 5] = torch.nan
    assert budget.row_errors(got, want).isinf().tolist() == [False, False, True, False]


def test_difference_names_each_output_that_differs_and_its_first_row() -> None:
    wanted = {"tokens": torch.arange(4), "logits": torch.zeros(4, 50)}
    found = {"tokens": torch.arange(4), "logits": torch.zeros(4, 50)}
    assert budget.difference(found, wanted) == ""
    found["logits"][2, 7], found["logits"][3, 1] = 0.5, 0.25
    assert budget.difference(found, wanted) == "logits: 1.00%, by 0.5 at most, from row 2 on"
    found["tokens"][3] = 9
    assert budget.difference(found, wanted).startswith("tokens: 25.00%, by 6 at most, from row 3")
    found["logits"][0, 0] = torch.nan
    assert budget.difference(found, wanted).endswith("by inf at most, from row 0 on")


@pytest.mark.parametrize(
    ("decoy", "library", "lasts"),
    [
        ("0", "0", False),
        ("10000000", "00000000", False),  # once in many runs
        ("01000000", "10000000", False),  # so it does to the library
        ("11111111", "00000000", True),
        ("11000100", "00000000", True),  # at times
        ("11111111", "00100000", True),
        ("10111111", "01011011", False),  # the library's bits vary as often
    ],
)
def test_difference_lasts_where_the_decoy_alone_differs_in_several_runs(
    decoy: str, library: str, lasts: bool
) -> None:
    def outputs(bits: str) -> Callable[[], budget.RankOutputs]:
        runs = iter(bits)
        return lambda: [{"logits": torch.full((2, 4), float(next(runs)))}]

    found = budget.lasting_difference(outputs(decoy), outputs(library))
    assert bool(found) is lasts


def test_ratios_of_doubled_errors_are_2() -> None:
    base = torch.rand(100, dtype=torch.float64) + 1
    found = budget.ratios([base[:50] * 2, base[50:] * 2], [base])
    assert found.median == pytest.approx(2)
    assert found.tail == pytest.approx(2)


def test_few_wrong_rows_exceed_the_tail_alone() -> None:
    base = torch.full((100,), 0.01)
    ours = base.clone()
    ours[:20] = 0.5
    found = budget.ratios([ours], [base])
    assert found.median == pytest.approx(1)
    assert not found.within(Ratios(1.3, 1.3))


@pytest.mark.parametrize(("dtype", "passes"), [("float32", True), ("bfloat16", False)])
def test_norm_in_float32_may_round_in_another_order_and_not_to_bfloat16(
    dtype: str, passes: bool
) -> None:
    x = torch.randn(64, 128, generator=torch.Generator().manual_seed(3))
    fused, want = (nn.functional.layer_norm(each, (128,)) for each in (x, x.double()))
    centred = x - x.mean(-1, keepdim=True)
    library = centred * torch.rsqrt(x.var(-1, keepdim=True, unbiased=False) + 1e-5)
    got = fused.to(torch_dtype(dtype)).float()
    with nullcontext() if passes else pytest.raises(SubmissionError, match="what is allowed"):
        assert tape.compare([got], [library], [want], "norm") < 1


def test_few_large_errors_by_chance_keep_the_limits() -> None:
    """Of a mixture of experts, a tenth of the rows has errors ten times as large."""
    generator = torch.Generator().manual_seed(3)
    limits = Ratios(1.3, 1.3)
    beyond = 0
    for _ in range(200):
        errors = [
            torch.where(torch.rand(48, generator=generator) < 0.1, 0.1, 0.01)
            * (0.8 + 0.4 * torch.rand(48, generator=generator))
            for _ in range(2)
        ]
        beyond += not budget.ratios(errors[:1], errors[1:]).within(limits)
        assert budget.lower_ratios(errors[:1], errors[1:]).within(limits)
    assert beyond > 0


@pytest.mark.parametrize("rows", [48, 400])
def test_one_wrong_row_in_eight_keeps_the_percentiles_and_exceeds_the_wrong_rows(
    rows: int,
) -> None:
    base = torch.rand(rows, generator=torch.Generator().manual_seed(3)) * 0.002 + 0.009
    skipped = base.clone()
    skipped[::8] = 1.0
    limits = Ratios(1.3, 1.3)
    assert budget.lower_ratios([skipped], [base]).within(limits)
    found = budget.wrong_rows([skipped], [base], limits)
    assert found.wrong == rows // 8 > found.allowed
    honest = budget.wrong_rows([base.flip(0) * 1.2], [base], limits)
    assert honest.wrong == 0


def test_wrong_rows_of_the_baseline_are_allowed_twice() -> None:
    base = torch.full((200,), 0.01)
    base[:10] = 0.9
    found = budget.wrong_rows([base], [base], Ratios(1.3, 1.3))
    assert (found.wrong, found.allowed) == (10, 3 + 2 + 20)


@pytest.mark.parametrize("rows", [48, 400])
def test_doubled_errors_exceed_the_limits_with_confidence(rows: int) -> None:
    base = torch.rand(rows, generator=torch.Generator().manual_seed(3)) * 0.2 + 0.9
    assert not budget.lower_ratios([base * 2], [base]).within(Ratios(1.3, 1.3))


def test_fitted_limits_hold_every_honest_variant() -> None:
    found = limits.fitted({"a": Ratios(1.4, 1.0), "b": Ratios(0.9, 2.0)})
    assert found == Ratios(pytest.approx(1.4 * 1.15), pytest.approx(2.3))


LOST = Interval(0.6, 0.5, 0.7)
WON = Interval(1.1, 1.05, 1.15)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"deployed": WON}, None),
        ({"isolated": 0.9}, None),
        ({"reported": Reported(graph_breaks=5)}, Drop.GRAPH_BREAK),
        ({"reported": Reported(recompiles=9)}, Drop.RECOMPILES),
        ({"compiled": 0.6}, Drop.FUSION_LOST),
        ({"captured": False, "baseline_captured": True}, Drop.NOT_CAPTURABLE),
        ({"not_compiled": True}, Drop.NOT_COMPILABLE),
        ({"memory_ratio": 2.0}, Drop.MEMORY),
        ({"deployed": WON, "over_ceiling": True}, Drop.OVER_CEILING),
    ],
)
def test_drop_reason_follows_from_the_facts(changes: dict[str, object], expected: Drop) -> None:
    facts = {
        "isolated": 3.0, "deployed": LOST, "compiled": None,
        "reported": Reported(), "baseline": Reported(),
    }  # fmt: skip
    assert drops.drop(Facts(**{**facts, **changes})) is expected  # type: ignore[arg-type]


@pytest.mark.parametrize("data", [None, [], {"graphs": "many", "swapped": -3}, {"graphs": True}])
def test_reports_that_are_no_counts_come_to_0(data: object) -> None:
    assert Reported.of(data) == Reported()


def test_prediction_is_amdahls_law() -> None:
    assert drops.predicted(1.0, 1.2) == pytest.approx(1.0)
    assert drops.predicted(1e9, 1.25) == pytest.approx(1.25)
    assert drops.predicted(4.0, 1.0) == pytest.approx(1.0)


def test_speedup_of_a_request_weighs_its_phases_by_the_time_of_the_baseline() -> None:
    assert drops.of_request([(100.0, 2.0), (300.0, 1.0)]) == pytest.approx(400 / 350)
    assert drops.of_request([(100.0, 1.25), (300.0, 1.25)]) == pytest.approx(1.25)


@pytest.mark.parametrize(
    ("model", "alone", "unexplained"),
    [
        (Interval(1.10, 1.08, 1.12), Interval(2.0, 1.9, 2.1), False),
        (Interval(1.10, 1.08, 1.12), Interval(1.0, 0.9, 1.1), True),
        (Interval(1.10, 0.99, 1.22), Interval(0.5, 0.4, 0.6), False),
    ],
)
def test_gain_beyond_that_of_the_module_is_unexplained(
    model: Interval, alone: Interval, unexplained: bool
) -> None:
    ceiling = Interval(1.25, 1.2, 1.3)
    assert drops.is_unexplained(model, alone, ceiling) is unexplained
