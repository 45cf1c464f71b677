"""Tests of the pages and the API of published kernels."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import pytest

from arena.catalog.models import Operator, Task
from arena.published.models import PublishedKernel
from arena.published.outcomes import OUTCOMES
from tests.arena.published import kernel_line, load_claims, one_of_each_outcome

pytestmark = pytest.mark.django_db


def text_of(client: Any, address: str) -> str:
    answer = client.get(address)
    assert answer.status_code == 200, address
    return re.sub(r"\s+", " ", answer.content.decode())


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
    assert "Of <strong>8</strong> kernels that 2 models or agents published as right" in page
    assert "<strong>4</strong> are right at any size, 1 only at the sizes of its suite" in page
    assert "Of 7 claimed speedups, <strong>1</strong> holds on NVIDIA H100 80GB HBM3." in page
    home = text_of(client, "/")
    assert (
        "Of 8 kernels that models published as right, <strong>4</strong> are right at any" in home
    )
    assert "of 7 claimed speedups, <strong>1</strong> holds on NVIDIA H100 80GB HBM3" in home
    assert "(6 were claimed on other hardware)" in home
    assert 'aria-current="page">Claims' in page
    for kernel in PublishedKernel.objects.all():
        assert f'href="/claims/{kernel.pk}/"' in page
    assert "judge 5" in page  # which is not the present one
    assert "right, no ratio claimed" in text_of(client, "/methodology/")


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
    assert "products by the precision rule tf32" in page
    forbidden = PublishedKernel.objects.get(problem="10")
    assert forbidden.why == "import"


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


def test_csv_has_the_selected_kernels_and_no_formula(client: Any, tmp_path: Path) -> None:
    lines = [*one_of_each_outcome(), kernel_line(30, status="failed", judged_message="=1+1")]
    load_claims(tmp_path, lines)
    text = client.get("/claims.csv?outcome=failed").content.decode()
    rows = {row["problem"]: row for row in csv.DictReader(text.splitlines())}
    assert set(rows) == {"8", "30"}
    assert rows["30"]["message"] == "'=1+1" and rows["8"]["claimed_speedup"] == "1.1"
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
    models = client.get("/api/v1/claims/models?model=Model+B").json()
    assert [(each["model"], each["judged"]) for each in models] == [("Model B", 2)]


def test_shared_problems_are_a_link_that_keeps_the_filters(client: Any, tmp_path: Path) -> None:
    lines = [kernel_line(n, model=m, speedup=1.5) for n in (1, 2) for m in ("A", "B")]
    load_claims(tmp_path, [*lines, kernel_line(3, model="A", speedup=1.5)])
    page = text_of(client, "/claims/?level=1")
    assert 'href="/claims/?level=1&amp;problems=shared#suites"' in page
    assert "2 of them are shared" in page
    assert "Over the 2 problems" in text_of(client, "/claims/?level=1&problems=shared")


def test_chart_of_the_page_is_json_that_a_script_reads(client: Any, tmp_path: Path) -> None:
    load_claims(tmp_path, one_of_each_outcome())
    page = text_of(client, "/claims/")
    found = re.search(r'<script type="application/json">(.*?)</script>', page)
    assert found and json.loads(found[1])["layout"]["xaxis"]["type"] == "log"
