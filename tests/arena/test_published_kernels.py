"""Tests of published kernels: loading, outcomes of claims, and figures by model."""

from __future__ import annotations

import json
import lzma
import math
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from arena.errors import UserError
from arena.leaderboard.kernels.claim_charts import STYLES, claims_chart
from arena.leaderboard.kernels.claims import by_model, finding, geomean
from arena.leaderboard.kernels.suite_boards import MIN_SHARED, suite_boards, wilson
from arena.published.kernels import KernelFilters, kernels, selected
from arena.published.loading import load
from arena.published.models import PublishedFile, PublishedKernel
from arena.published.outcomes import OUTCOMES, Outcome, Status, outcome_of, same_device
from evaluation.importers.generations import records, verdicts
from evaluation.importers.generations.generation import Claim, Generation
from tests.arena.published import (
    HEADER,
    kernel_line,
    load_claims,
    one_of_each_outcome,
    write_claims,
)

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("claimed", "speedup", "high", "outcome"),
    [
        (2.0, 1.75, 1.8, Outcome.HOLDS),
        (2.0, 1.75, 1.79, Outcome.SMALLER),
        (1.05, 0.97, 0.99, Outcome.SLOWER),
        (0.5, 0.46, 0.47, Outcome.HOLDS),
        (0.9, 0.5, 0.6, Outcome.SMALLER),
        (None, 1.5, 1.6, Outcome.RIGHT),
        (2.0, 1.9, None, Outcome.HOLDS),
        (2.0, None, None, Outcome.NOT_JUDGEABLE),
    ],
)
def test_outcome_of_a_passed_kernel_compares_the_upper_end_with_the_claim(
    claimed: float | None, speedup: float | None, high: float | None, outcome: Outcome
) -> None:
    assert outcome_of("passed", claimed, speedup, high) == outcome


def test_advice_of_cuda_is_shown_as_the_error_that_it_stands_for() -> None:
    advice = "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions."
    assert PublishedKernel(message=advice).shown_message.startswith("A CUDA error")
    assert PublishedKernel(message="ended by SIGSEGV").shown_message == "ended by SIGSEGV"


def test_each_status_and_outcome_has_a_class() -> None:
    found = {outcome_of(status, 2.0, 1.0, 3.0) for status in Status}
    assert found == set(Outcome) - {Outcome.SMALLER, Outcome.SLOWER, Outcome.RIGHT}
    assert set(OUTCOMES) == set(Outcome) == set(STYLES)


@pytest.mark.parametrize(
    ("claimed", "judged", "same"),
    [
        ("H100", "NVIDIA H100 80GB HBM3", True),
        ("NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3", False),
        ("RTX 4090", "NVIDIA GeForce RTX 4090", True),
        ("L40S", "NVIDIA L40", False),
        ("", "NVIDIA H100", None),
        ("a GPU", "NVIDIA H100", None),
    ],
)
def test_same_device_compares_the_model_of_a_device(
    claimed: str, judged: str, same: bool | None
) -> None:
    assert same_device(claimed, judged) is same


def test_load_keeps_the_ids_of_kernels_and_replaces_the_rows_of_a_changed_file(
    tmp_path: Path,
) -> None:
    load_claims(tmp_path, [kernel_line(1, speedup=1.9), kernel_line(2)])
    before = {each.problem: each.pk for each in kernels()}
    assert load(tmp_path / "claims-test.jsonl").known
    packed = tmp_path / "claims-test.jsonl.xz"
    lines = [{**HEADER, "judge_version": "8"}, kernel_line(1, speedup=0.5), kernel_line(3)]
    packed.write_bytes(lzma.compress("".join(f"{json.dumps(e)}\n" for e in lines).encode()))
    assert load(packed).rows == 2
    after = {each.problem: each for each in kernels()}
    assert set(after) == {"1", "3"} and after["1"].pk == before["1"]
    assert after["1"].speedup == 0.5 and after["1"].judge_version == "8"
    assert PublishedFile.objects.count() == 1


def test_load_refuses_a_line_with_its_number_and_loads_the_others(tmp_path: Path) -> None:
    bad = [
        kernel_line(2, source="javascript:alert(1)"),
        kernel_line(3, judged_status="perfect"),
        kernel_line(4, claimed_speedup=1e300),
        kernel_line(1),
    ]
    found = load(write_claims(tmp_path, [kernel_line(1), *bad]))
    assert found.rows == 1
    reasons = ("source should be a web address", "judged.status", "claimed.speedup", "same kernel")
    for number, (message, reason) in enumerate(zip(found.refused, reasons, strict=True), start=3):
        assert message.startswith(f"claims-test.jsonl:{number}: ") and reason in message


@pytest.mark.parametrize("first", ['{"format": 2}', "{", ""])
def test_load_refuses_a_file_without_a_header_and_keeps_its_rows(
    tmp_path: Path, first: str
) -> None:
    load_claims(tmp_path, [kernel_line(1)])
    path = tmp_path / "claims-test.jsonl"
    path.write_text(f"{first}\n{json.dumps(kernel_line(2))}\n")
    with pytest.raises(UserError, match="no header"):
        load(path)
    assert [each.problem for each in kernels()] == ["1"]


def test_load_takes_a_ratio_that_is_not_positive_for_none(tmp_path: Path) -> None:
    load_claims(tmp_path, [kernel_line(1, -1.0, "wrong"), kernel_line(2, 0, "wrong")])
    assert [each.claimed_speedup for each in kernels()] == [None, None]


def test_each_outcome_is_that_of_its_line(tmp_path: Path) -> None:
    load_claims(tmp_path, one_of_each_outcome())
    found = {int(each.problem): each.outcome for each in PublishedKernel.objects.all()}
    assert [found[line["problem"]] for line in one_of_each_outcome()] == list(OUTCOMES)


def test_filters_select_by_every_name(tmp_path: Path) -> None:
    load_claims(tmp_path, one_of_each_outcome())
    every = kernels()
    assert [each.claimed_speedup for each in every][:3] == [368.0, 80.0, 20.0]
    for filters, problems in (
        (KernelFilters(model="Model B"), {"6", "7"}),
        (KernelFilters(collection="second"), {"8", "9"}),
        (KernelFilters(outcome="specialised"), {"5"}),
        (KernelFilters(suite="kernelbench", level="1", outcome="wrong"), {"6"}),
        (KernelFilters(level="2"), set()),
        (KernelFilters(device="NVIDIA H100 80GB HBM3", model="Model A", outcome="holds"), {"1"}),
    ):
        assert {each.problem for each in selected(every, filters)} == problems


def test_finding_counts_judged_kernels_that_are_claimed_right(tmp_path: Path) -> None:
    lines = [*one_of_each_outcome(), kernel_line(20, None, "wrong", claimed_right=False)]
    load_claims(tmp_path, lines)
    found = finding(kernels())
    assert found is not None
    assert (found.models, found.kernels, found.right, found.specialised) == (2, 9, 4, 1)
    assert (found.suite_right, found.neither, found.faster, found.holds) == (1, 3, 8, 1)
    assert found.other_devices == 7 and found.devices == ("NVIDIA H100 80GB HBM3",)


def test_finding_leaves_out_ratios_that_are_no_claim_of_a_speedup(tmp_path: Path) -> None:
    slow = [kernel_line(1, 0.5, speedup=0.5), kernel_line(2, 1.0, speedup=4.0)]
    load_claims(tmp_path, [*slow, kernel_line(3, 9.0, speedup=2.0)])
    found = finding(kernels())
    assert found is not None
    assert (found.kernels, found.faster, found.holds, found.other_devices) == (3, 1, 0, 1)


def test_finding_without_a_claim_is_none(tmp_path: Path) -> None:
    assert finding(kernels()) is None
    load_claims(tmp_path, [kernel_line(1, status="unsupported")])
    assert finding(kernels()) is None


def test_figures_of_a_model_compare_the_same_kernels(tmp_path: Path) -> None:
    load_claims(tmp_path, one_of_each_outcome())
    one, other = by_model(kernels())
    assert (one.model, one.kernels, one.judged) == ("Model A", 8, 7)
    assert (one.claimed_right, one.right_at_suite_size, one.right) == (7, 5, 4)
    assert one.compared == 4 and one.claimed is not None and one.measured is not None
    assert one.claimed.value == pytest.approx((2.0 * 20.0 * 1.4 * 8.0) ** 0.25)
    assert one.measured.value == pytest.approx((1.9 * 1.5 * 0.7 * 3.0) ** 0.25)
    assert one.fast_one == pytest.approx(3 / 7)
    assert other.judged == 2 and other.measured is None and other.fast_one == 0


def test_board_of_a_suite_has_both_rules_and_gives_each_problem_one_weight(
    tmp_path: Path,
) -> None:
    lines = [
        kernel_line(1, speedup=1.6, sample=0),
        kernel_line(1, status="wrong", sample=1),
        kernel_line(2, status="specialised", speedup=3.0),
        kernel_line(3, status="unsupported"),
        kernel_line(1, speedup=0.9, model="Model B"),
        kernel_line(2, status="failed", model="Model B"),
        kernel_line(4, speedup=1.1, model="Model B"),
        kernel_line(1, speedup=1.2, suite="kernelbench-v0"),
        kernel_line(1, speedup=1.2, suite="other"),
    ]
    load_claims(tmp_path, lines)
    first, second = suite_boards(kernels())
    assert (first.suite, second.suite) == ("kernelbench", "kernelbench-v0")
    other, one = first.scores
    assert (one.model, one.problems, one.samples) == ("Model A", 2, 3)
    assert one.suite == pytest.approx((0.75, 0.75, 0.75, 0.75, 0.75, 0.5))
    assert one.strict == pytest.approx((0.25, 0.25, 0.25, 0.25, 0.25, 0.0))
    assert other.suite[0] == pytest.approx(2 / 3) and other.suite[3] == pytest.approx(1 / 3)
    assert first.shared == 2 < MIN_SHARED and not first.ranks
    assert [each.rank for each in first.scores] == [None, None]


def test_models_are_ranked_over_the_problems_of_two_thirds_of_the_models(tmp_path: Path) -> None:
    def lines(model: str, problems: range, fast: int) -> list[dict[str, Any]]:
        return [kernel_line(n, model=model, speedup=2.0 if n <= fast else 0.5) for n in problems]

    every = [
        *lines("Best", range(1, 13), 12),
        *lines("Equal to second", range(1, 13), 3),
        *lines("Second", range(1, 13), 3),
        *lines("Half", range(1, 7), 0),
        *lines("Few", range(1, 4), 3),
        *lines("Best", range(20, 30), 29),
    ]
    load_claims(tmp_path, every)
    (board,) = suite_boards(kernels())
    assert (board.shared, board.needed, board.over_shared) == (12, 6, True)
    assert [(each.model, each.rank, each.problems, each.tied) for each in board.scores] == [
        ("Best", 1, 12, False),
        ("Equal to second", 2, 12, False),
        ("Second", 2, 12, True),
        ("Half", 4, 6, True),
        ("Few", None, 3, False),
    ]
    (over_all,) = suite_boards(kernels(), shared=False)
    assert over_all.scores[0].problems == 22 and {each.rank for each in over_all.scores} == {None}


def test_problems_of_half_of_the_models_are_not_shared(tmp_path: Path) -> None:
    """As while a campaign runs, in which four models of eight are ahead."""
    ahead = [(f"Ahead {n}", 20) for n in range(4)]
    every = [
        kernel_line(problem, model=model, speedup=2.0)
        for model, problems in [*ahead, *((f"Behind {n}", 11) for n in range(4))]
        for problem in range(1, problems + 1)
    ]
    load_claims(tmp_path, every)
    (board,) = suite_boards(kernels())
    assert (board.shared, board.needed) == (11, 6)
    assert {each.rank for each in board.scores} == {1}


@pytest.mark.parametrize(("count", "total"), [(0, 14), (3, 14), (14, 14), (1, 1)])
def test_interval_of_a_share_is_wilsons(count: int, total: int) -> None:
    from statsmodels.stats.proportion import proportion_confint

    found = wilson(count / total, total)
    low, high = proportion_confint(count, total, method="wilson")
    assert found.low == pytest.approx(low, abs=1e-4) and found.high == pytest.approx(high, abs=1e-4)


def test_geomean_has_the_interval_of_students_t() -> None:
    from scipy import stats

    for count in (5, 8, 30, 400):
        logs = [math.sin(each) for each in range(count)]
        found = geomean(logs)
        wanted = stats.ttest_1samp(logs, 0.0).confidence_interval(0.95)
        assert found is not None and found.low is not None and found.high is not None
        assert math.log(found.low) == pytest.approx(wanted.low, abs=0.006)
        assert math.log(found.high) == pytest.approx(wanted.high, abs=0.006)
    assert geomean([]) is None
    few = geomean([0.0, 1.0])
    assert few is not None and few.low is None and few.value == pytest.approx(math.e**0.5)


def test_chart_has_every_kernel_once_with_the_address_of_its_page(tmp_path: Path) -> None:
    load_claims(tmp_path, one_of_each_outcome())
    every = kernels()
    drawn = claims_chart(every)
    assert drawn is not None
    points = [
        (x, address)
        for trace in drawn["data"]
        for x, address in zip(trace["x"], trace["customdata"], strict=True)
    ]
    (unclaimed,) = [each for each in every if not each.claimed_speedup]
    left, right = drawn["layout"]["xaxis"]["range"]
    (place,) = [x for x, address in points if address == unclaimed.get_absolute_url()]
    assert 10**left < place < min(each.claimed_speedup or place + 1 for each in every)
    assert drawn["layout"]["xaxis"]["ticktext"][0] == "none" and 10**right > 368
    assert sorted(points) == sorted(
        (e.claimed_speedup or place, e.get_absolute_url()) for e in every
    )
    low = 10 ** drawn["layout"]["yaxis"]["range"][0]
    assert all(low < y for trace in drawn["data"] for y in trace["y"])
    assert "wrong" in drawn["layout"]["yaxis"]["ticktext"]
    assert "suite alone" in drawn["layout"]["yaxis"]["ticktext"]
    room = 0.03 * (right - left)
    assert all(math.log10(x) <= right - room for trace in drawn["data"] for x in trace["x"])
    assert claims_chart([]) is None


def test_file_of_a_campaign_loads_as_the_campaign_writes_it(tmp_path: Path) -> None:
    claim = Claim(True, 3.0, "A100", "eager")
    source = "https://example.org/first/blob/0/1.py"
    generation = Generation(
        "first", "Model A", "kernelbench", 1, 19, 0, source, "import torch", claim
    )
    judged = verdicts.unjudged("NO_TASK", "There is no task.")
    file = records.RecordFile(tmp_path / "claims-test.jsonl", {**HEADER, "ended_at": None}, [])
    file.add(records.record_of(generation, "kb1_19_relu", judged))
    file.close("2026-11-27T20:00:00+00:00")
    found = load(file.path)
    assert found.refused == [] and found.rows == 1
    (kernel,) = kernels()
    assert (kernel.task, kernel.sha256) == ("kb1_19_relu", generation.sha256)
    assert kernel.outcome == Outcome.NOT_JUDGEABLE and kernel.reason == "NO_TASK"


def test_kernel_over_the_limits_of_the_judge_is_not_judgeable_and_counts_in_no_share(
    tmp_path: Path,
) -> None:
    limits = [
        kernel_line(1, 9.0, "not_judged", judged_reason="OVER_TIME_LIMIT"),
        kernel_line(2, 9.0, "not_judged", judged_reason="JUDGE_ERROR"),
        kernel_line(3, 9.0, "failed", judged_reason="OUT_OF_MEMORY"),
        kernel_line(5, 9.0, "inconclusive", judged_reason="FASTER_THAN_ROOFLINE"),
    ]
    load_claims(tmp_path, [*limits, kernel_line(4, speedup=1.9)])
    undecided = {each.reason: each for each in kernels() if each.undecided}
    assert set(undecided) == {
        "OVER_TIME_LIMIT", "JUDGE_ERROR", "OUT_OF_MEMORY", "FASTER_THAN_ROOFLINE",
    }  # fmt: skip
    assert {each.outcome for each in undecided.values()} == {Outcome.NOT_JUDGEABLE}
    assert {each.why for each in undecided.values()} == {
        "time limit of the judge", "error of the judge", "memory limit of the judge",
        "faster than the device",
    }  # fmt: skip
    (model,) = by_model(kernels())
    assert (model.judged, model.claimed_right, model.fast_one) == (1, 1, 1.0)
    found = finding(kernels())
    assert found is not None and (found.kernels, found.neither, found.faster) == (1, 0, 1)


def test_kernel_names_the_judge_of_its_verdict_and_else_that_of_its_file(tmp_path: Path) -> None:
    lines = [kernel_line(1, speedup=1.9), kernel_line(2, speedup=1.9, judged_judge_version="8")]
    load_claims(tmp_path, lines)
    assert {each.problem: each.judge_version for each in kernels()} == {"1": "5", "2": "8"}


def test_import_results_loads_a_file_of_claims_and_reports_a_refused_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_claims(tmp_path, [kernel_line(1), kernel_line(2, judged_status="perfect")])
    with pytest.raises(SystemExit):
        call_command("import_results", str(path))
    told = capsys.readouterr()
    assert "1 rows loaded, 1 lines refused" in told.out and "judged.status" in told.err
    call_command("import_results", str(path))
    assert "loaded before" in capsys.readouterr().out
