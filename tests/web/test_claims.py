"""Tests of the pages and the API of published kernels."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from arena.catalog.models import Operator, Task
from arena.published.loading import load
from arena.published.models import PublishedKernel
from arena.published.outcomes import OUTCOMES
from tests.arena.factories import judged_run
from tests.arena.published import kernel_line, load_claims, one_of_each_outcome

pytestmark = pytest.mark.django_db
ROOT = Path(__file__).resolve().parents[2]


def text_of(client: Any, address: str) -> str:
    answer = client.get(address)
    assert answer.status_code == 200, address
    return re.sub(r"\s+", " ", answer.content.decode().replace("<wbr>", ""))


def test_page_without_kernels_states_that_they_load(client: Any) -> None:
    assert "No published kernel is loaded yet" in text_of(client, "/claims/")
    assert "published as right" not in text_of(client, "/")


def test_page_and_home_have_the_finding_and_the_page_every_class(
    client: Any, tmp_path: Path
) -> None:
    load_claims(tmp_path, one_of_each_outcome())
    page = text_of(client, "/claims/")
    for each in OUTCOMES.values():
        assert each.rule.replace("'", "&#x27;") in page
    assert "Of <strong>9</strong> kernels that 2 models or agents published as right" in page
    shares = "1 only at the sizes of its suite, 1 by the check of its suite alone, and 3 are wrong"
    assert f"<strong>4</strong> are right at any size, {shares}" in page
    faster = "8 claims to be faster than the baseline, <strong>1</strong> holds"
    assert f"Of {faster} on NVIDIA H100 80GB HBM3." in page
    home = text_of(client, "/")
    assert (
        "Of 9 kernels that models published as right, <strong>4</strong> are right at any" in home
    )
    assert f"of {faster} on NVIDIA H100 80GB HBM3" in home
    assert "(7 were claimed on other hardware)" in home
    assert "Language models on" not in home
    assert 'href="/claims/#suites">Published kernels of models</a>' in text_of(
        client, "/leaderboard/"
    )
    assert 'aria-current="page">Claims' in page
    for kernel in PublishedKernel.objects.all():
        assert f'href="/claims/{kernel.pk}/"' in page
    assert "judge 5" in page  # which is not the present one
    assert "right, no ratio claimed" in text_of(client, "/methodology/")


def test_classes_count_kernels_that_their_collection_calls_wrong(
    client: Any, tmp_path: Path
) -> None:
    lines = [*one_of_each_outcome(), kernel_line(10, None, "wrong", claimed_right=False)]
    load_claims(tmp_path, lines)
    page = " ".join(text_of(client, "/claims/").split())
    assert "Of 11 kernels, 1 of which their own collection calls wrong; the first rule" in page
    assert "Of <strong>9</strong> kernels that 2 models or agents published as right" in page


def test_page_has_the_reasons_of_each_class_and_boards_their_precision_rule(
    client: Any, tmp_path: Path
) -> None:
    lines = [
        *one_of_each_outcome(),
        kernel_line(10, 5.0, "forbidden", judged_reason="FORBIDDEN",
                    judged_message="import: a.py:4: `torch._inductor` is no part of the task"),
        kernel_line(11, 2.0, "unsupported", judged_reason="cutlass"),
        kernel_line(12, 2.0, speedup=1.5, judged_precision_rule="tf32"),
    ]  # fmt: skip
    load_claims(tmp_path, lines)
    page = text_of(client, "/claims/")
    for reasons in ("private api 1, import 1", "cutlass 2", "wrong values 1"):
        assert f'<span class="sub">{reasons}</span>' in page, reasons
    assert "right within the error of matrix products in TF32" in page
    forbidden = PublishedKernel.objects.get(problem="10")
    assert forbidden.why == "import"


def test_pages_of_the_claims_that_were_followed_by_hand_have_the_outcome_of_the_document(
    client: Any,
) -> None:
    assert load(ROOT / "benchmarks/published/claims-h200.jsonl").refused == []
    rows = re.findall(
        r"^\| ([\d.]+)x, (KernelBench|v0) (\d)/(\d+), ([^|]+?) \| ([^|]+?) \|",
        (ROOT / "docs/importing.md").read_text(),
        re.MULTILINE,
    )
    assert len(rows) == 10
    for claimed, suite, level, problem, model, outcome in rows:
        kernel = PublishedKernel.objects.get(
            suite="kernelbench" if suite == "KernelBench" else "kernelbench-v0",
            level=level, problem=problem, model__startswith=model,
            claimed_speedup__gte=float(claimed) - 0.5, claimed_speedup__lt=float(claimed) + 0.5,
        )  # fmt: skip
        assert outcome.startswith(kernel.described.label), (kernel, outcome)
        page = text_of(client, kernel.get_absolute_url())
        assert f">{kernel.described.label}</span>" in page
        for ratio in re.findall(r": ([\d.]+)x", outcome):
            assert f"<dd>{ratio}×" in page, (kernel, outcome)


def test_page_of_a_kernel_that_is_right_for_its_suite_alone_names_the_rules(
    client: Any, tmp_path: Path
) -> None:
    load_claims(tmp_path, one_of_each_outcome())
    kernel = PublishedKernel.objects.get(status="suite_right")
    page = text_of(client, kernel.get_absolute_url())
    assert "right for its suite alone" in page
    rules = "its suite&#x27;s own tolerance, on inputs as its suite draws them"
    assert f"<dt>Right by</dt><dd>{rules}</dd>" in page
    assert "<dt>At the suite's size</dt><dd>by its suite alone</dd>" in page
    assert "<dt>Status</dt><dd>right for its suite alone: wrong values</dd>" in page
    other = PublishedKernel.objects.get(status="specialised")
    assert "<dt>Right by</dt>" not in text_of(client, other.get_absolute_url())


def test_filters_narrow_the_page_and_unknown_ones_are_named(client: Any, tmp_path: Path) -> None:
    load_claims(tmp_path, one_of_each_outcome())
    page = text_of(client, "/claims/?model=Model+B&outcome=wrong")
    assert "kb1_6_relu" in page and "kb1_7_relu" not in page
    assert 'href="/claims.csv?model=Model+B&amp;outcome=wrong"' in page
    assert "There is no class “none” here." in text_of(client, "/claims/?outcome=none")


def test_page_of_a_kernel_has_claim_verdict_and_source(client: Any, tmp_path: Path) -> None:
    lines = [*one_of_each_outcome(), kernel_line(5, None, "wrong", model="Model C")]
    load_claims(tmp_path, lines)
    kernel = PublishedKernel.objects.get(status="specialised")
    page = text_of(client, f"/claims/{kernel.pk}/")
    for part in (
        "8.00×", "3.00×", "95% CI 2.94 to 3.06", "65 x 1", "correctness", kernel.sha256, "MIT",
        f'href="{kernel.source}"', "The claim was made on A100", "version 5 on NVIDIA H100",
        "none: this suite is not imported", "Model C",
    ):  # fmt: skip
        assert part in page, part
    operator = Operator.objects.create(
        slug=kernel.task, title="R", category="C", level=1, prompt="", reference_source="",
        suite="kernelbench",
    )  # fmt: skip
    for track in ("torch-to-cuda", "torch-to-triton"):
        Task.objects.create(operator=operator, track=track, status="published")
    page = text_of(client, f"/claims/{kernel.pk}/")
    assert f'href="/tasks/{kernel.task}/torch-to-triton/"' in page
    page = text_of(client, f"/tasks/{kernel.task}/torch-to-cuda/")
    assert f'href="/claims/?task={kernel.task}&amp;suite=kernelbench">2 published kernels' in page
    narrowed = text_of(client, f"/claims/?task={kernel.task}&suite=kernelbench")
    assert "Model C" in narrowed and "kb1_6_relu" not in narrowed
    assert client.get("/claims/000000000000/").status_code == 404


def test_versions_of_the_judge_are_named_from_the_oldest_to_the_newest(
    client: Any, tmp_path: Path
) -> None:
    versions = ("9", "10", "8")
    lines = [kernel_line(n, judged_judge_version=each) for n, each in enumerate(versions)]
    load_claims(tmp_path, lines)
    page = text_of(client, "/claims/")
    assert "by versions 8 (1 kernel), 9 (1 kernel) and 10 (1 kernel) of the judge" in page


@pytest.mark.parametrize(("version", "noted"), [("9", True), ("12", True), ("13", False)])
def test_speedups_over_a_slow_compiled_baseline_are_noted(
    client: Any, tmp_path: Path, version: str, noted: bool
) -> None:
    load_claims(tmp_path, [kernel_line(1, speedup=1.9, judged_judge_version=version)])
    assert ("speedups over it can be too large" in text_of(client, "/claims/")) is noted


def test_pages_name_the_judge_of_each_verdict_and_the_limit_that_it_met(
    client: Any, tmp_path: Path
) -> None:
    late = kernel_line(2, 9.0, "not_judged", judged_reason="OVER_TIME_LIMIT")
    load_claims(tmp_path, [kernel_line(1, speedup=1.9, judged_judge_version="7"), late])
    page = text_of(client, "/claims/")
    assert "by versions 5 (1 kernel) and 7 (1 kernel) of the judge" in page
    assert "judge 7</span>" in page
    assert "time limit of the judge 1" in page
    page = text_of(client, f"/claims/{PublishedKernel.objects.get(problem='2').pk}/")
    assert "<dd>not judged: time limit of the judge</dd>" in page
    assert "<dt>Why</dt><dd>The verdict took longer than this judge gives one.</dd>" in page
    assert "part of the difference may be the device" not in page, "without a difference"
    assert "counts neither for nor against the model" in page


def test_csv_has_the_selected_kernels_and_no_formula(client: Any, tmp_path: Path) -> None:
    lines = [*one_of_each_outcome(), kernel_line(30, status="failed", judged_message="=1+1")]
    load_claims(tmp_path, lines)
    text = client.get("/claims.csv?outcome=failed").content.decode()
    rows = {row["problem"]: row for row in csv.DictReader(text.splitlines())}
    assert set(rows) == {"8", "30"}
    assert rows["30"]["message"] == "'=1+1" and rows["8"]["claimed_speedup"] == "1.1"
    rough = client.get("/claims.csv?outcome=suite-right").content.decode().splitlines()
    assert [row["right_by"] for row in csv.DictReader(rough)] == ["suite"]
    assert rows["30"]["licence"] == "MIT" and rows["30"]["judge_version"] == "5"


def test_api_has_the_same_filters(client: Any, tmp_path: Path) -> None:
    load_claims(tmp_path, one_of_each_outcome())
    found = client.get("/api/v1/claims?limit=1&collection=second").json()
    assert found["count"] == 2 and len(found["kernels"]) == 1
    kernel = found["kernels"][0]
    assert kernel["outcome"] == "not-judgeable" and kernel["claimed"]["speedup"] == 3.0
    assert kernel["judged"]["device"] == "NVIDIA H100 80GB HBM3" and kernel["licence"] == ""
    assert client.get(f"/api/v1/claims/{kernel['id']}").json() == kernel
    assert client.get("/api/v1/claims/none").status_code == 404
    other = client.get("/api/v1/claims?model=none").json()
    assert other == {"count": 0, "unknown": ["There is no model “none” here."], "kernels": []}
    models = client.get("/api/v1/claims/models?model=Model+B").json()
    assert [(each["model"], each["judged"]) for each in models] == [("Model B", 2)]


def test_board_of_a_suite_has_ranks_over_shared_problems_and_a_link_to_all(
    client: Any, tmp_path: Path
) -> None:
    lines = [kernel_line(n, model=m, speedup=1.5) for n in range(12) for m in ("A", "B")]
    load_claims(tmp_path, [*lines, kernel_line(30, model="A", speedup=1.5), kernel_line(1)])
    page = text_of(client, "/claims/?level=1")
    assert "over the 12 problems on which at least two thirds" in page
    assert "no rank: verdicts on fewer than 6" in page
    home = text_of(client, "/")
    assert "Language models on KernelBench v0.1</h2>" in home
    assert "judged on NVIDIA H100 80GB HBM3." in home
    assert re.findall(r'<th scope="row"><a href="([^"]+)">[AB]</a>', home) == [
        "/claims/?model=A",
        "/claims/?model=B",
    ]
    assert 'data-label="95% CI of fast_1">76% to 100%</td>' in page
    assert 'href="/claims/?level=1&amp;problems=all#suites"' in page
    page = text_of(client, "/claims/?level=1&problems=all")
    assert "so none has a rank here" in page and 'href="/claims/?level=1#suites"' in page


def test_board_of_agents_without_a_model_links_to_the_board_of_models(
    client: Any, tmp_path: Path, task: Any, hardware: Any
) -> None:
    load_claims(tmp_path, [kernel_line(n, model=m) for n in range(12) for m in ("A", "B")])
    judged_run("tuner", "relu", 1.5, hardware=hardware, ended_at=timezone.now())
    page = text_of(client, "/leaderboard/")
    assert "By their published kernels two models are ranked on" in page
    assert 'href="/claims/#suites">KernelBench v0.1</a>' in page
    run = judged_run("claude", "relu", 1.6, hardware=hardware, ended_at=timezone.now())
    run.agent.model = "claude"
    run.agent.save()
    assert "By their published kernels" not in text_of(client, "/leaderboard/")


def test_board_of_a_suite_without_enough_shared_problems_gives_the_reason(
    client: Any, tmp_path: Path
) -> None:
    lines = [kernel_line(n, model=m, speedup=1.5) for n in (1, 2) for m in ("A", "B")]
    load_claims(tmp_path, lines)
    page = text_of(client, "/claims/")
    assert "No model has a rank: 2 problems are shared, and a rank needs at least 10" in page


def test_board_of_a_suite_names_the_versions_of_the_judge_that_it_mixes(
    client: Any, tmp_path: Path
) -> None:
    def lines(*versions: str) -> list[dict[str, Any]]:
        return [
            kernel_line(
                n, model=model, speedup=1.5, judged_judge_version=versions[n % len(versions)]
            )
            for n in range(12)
            for model in ("A", "B")
        ]

    elsewhere = kernel_line(30, speedup=1.5, judged_judge_version="4")
    load_claims(tmp_path, [*lines("10", "9", "8"), elsewhere])
    mixed = "This table mixes verdicts of the judge's versions 8, 9 and 10, which measure by"
    for address in ("/", "/claims/"):
        assert mixed in text_of(client, address), address
    assert "the judge's versions 4, 8, 9 and 10" in text_of(client, "/claims/?problems=all")
    load_claims(tmp_path, lines("9"))
    for address in ("/", "/claims/"):
        assert "All verdicts here are of version 9 of the judge." in text_of(client, address)
    assert "of any device and version, and names both" in text_of(client, "/methodology/")


def test_filter_by_class_leaves_figures_of_models_over_all_classes(
    client: Any, tmp_path: Path
) -> None:
    load_claims(tmp_path, one_of_each_outcome())
    page = text_of(client, "/claims/?outcome=wrong")
    assert "Of <strong>9</strong> kernels that 2 models or agents published as right" in page
    assert "kb1_6_relu" in page and "kb1_7_relu" not in page
    assert re.search(r'outcome=wrong" aria-current="true"', page)


def test_kernels_stand_right_after_their_classes_and_before_the_figures_of_models(
    client: Any, tmp_path: Path
) -> None:
    load_claims(tmp_path, one_of_each_outcome())
    page = text_of(client, "/claims/")
    assert re.findall(r'<h2 id="([\w-]+)"', page) == [
        "chart-title", "classes", "kernels", "models", "suite-kernelbench", "collections",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("query", "sentences"),
    [
        ("", []),
        ("suite=kernelbench", []),
        ("model=Model B", ["The filter by model does not apply here"]),
        (
            "model=Model B&outcome=wrong",
            [
                "These are kernels of every class.",
                "Kernels of every class count here",
                "The filters by model and class do not apply here",
            ],
        ),
    ],
)
def test_part_that_does_not_follow_a_filter_names_it(
    client: Any, tmp_path: Path, query: str, sentences: list[str]
) -> None:
    load_claims(tmp_path, one_of_each_outcome())
    said = r"These are kernels of every class\.|[^.>]*(?:count here|not apply here)"
    found = re.findall(said, text_of(client, f"/claims/?{query}"))
    assert [sentence.strip() for sentence in found] == sentences


def test_chart_of_the_page_is_json_that_a_script_reads(client: Any, tmp_path: Path) -> None:
    load_claims(tmp_path, one_of_each_outcome())
    page = text_of(client, "/claims/")
    found = re.search(r'<script type="application/json">(.*?)</script>', page)
    axis = json.loads(found[1])["layout"]["xaxis"] if found else {}
    assert axis["type"] == "log" and axis["ticktext"][0] == "none"
    assert axis["tickvals"][1] >= 4 * axis["tickvals"][0], "room for both labels"
