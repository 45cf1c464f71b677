"""Ablation tables: read from result files, and shown on the methodology page."""

from __future__ import annotations

import json
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from arena.leaderboard.analysis.ablation import ablation_tables


def write_results(folder: Path, kind: str, **changes: Any) -> None:
    row = {"title": "Late inputs", "refuses": ["window_ahead.cpp", "at_once.py"], "tried": 3}
    data = {
        "at": "2026-11-25T01:00:00+00:00",
        "device": {"name": f"Test {kind}"},
        "judge": {"version": "9", "source": "0123456789ab"},
        "bound": 0.01,
        "gates": {
            "correctness": 4,
            "compile": 1,
            "performance": 1,
            "generalization": 1,
            "passed": 1,
        },
        "escapes_with_all_on": [],
        "passes_with_all_on": ["in_vain.py"],
        "mechanisms": {
            "late-inputs": {**row, "escapes": ["window_ahead.cpp"], "passes": ["at_once.py"]},
            "poison": {"title": "Poison", "refuses": [], "tried": 0, "escapes": [], "passes": []},
        },
    }
    (folder / f"ablation-{kind}.json").write_text(json.dumps(data | changes))


def test_ablation_tables_without_results_are_none(tmp_path: Path) -> None:
    assert ablation_tables(tmp_path) == []


def test_ablation_tables_count_refusals_and_name_escapes(tmp_path: Path) -> None:
    write_results(tmp_path, "gpu")
    write_results(tmp_path, "cpu", escapes_with_all_on=["seen_late.cuda.cu"])
    first, second = ablation_tables(tmp_path)
    assert (first.device, second.device) == ("Test cpu", "Test gpu")
    assert (first.tricks, first.refused_before, first.bound) == (8, 5, 0.01)
    assert (first.escapes, second.escapes) == (["seen late"], [])
    assert first.passes == ["in vain"]
    late, poison = first.rows
    assert (late.refused, late.tried) == (2, 3)
    assert (late.escapes, late.passes) == (["window ahead"], ["at once"])
    assert poison.escapes == poison.passes == []


def test_tricks_of_one_name_differ_by_language(tmp_path: Path) -> None:
    write_results(tmp_path, "gpu", escapes_with_all_on=["wait.cuda.cu", "go.cu", "wait.torch.py"])
    (table,) = ablation_tables(tmp_path)
    assert table.escapes == ["wait (cuda)", "go", "wait (torch)"]


@pytest.mark.django_db
def test_methodology_page_shows_the_ablation(client, settings, tmp_path: Path) -> None:
    settings.ADMISSIONS = tmp_path
    assert "python benchmarks/ablation.py" in client.get("/methodology/").content.decode()
    write_results(tmp_path, "cpu", escapes_with_all_on=["seen_late.cuda.cu"])
    html = client.get("/methodology/").content.decode()
    assert "Test cpu" in html and "window ahead" in html and "seen late" in html
    assert "1 that must be refused passes without a gain: in vain." in " ".join(html.split())
    assert html.count("not tried") == 2, "nothing is said of the mechanism that was never off"
    assert "python benchmarks/ablation.py" not in html


@pytest.mark.django_db
def test_methodology_page_shows_every_committed_table(client, settings) -> None:
    html = unescape(client.get("/methodology/").content.decode())
    for table in ablation_tables(settings.ADMISSIONS):
        assert table.device in html
        assert all(row.title in html for row in table.rows)
