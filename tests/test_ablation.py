"""The ablation: mechanisms that can be turned off, cells that are needed, and the table."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.ablation import ALL_ON, Ablation
from benchmarks.mechanisms import MECHANISMS, Mechanism, Refusals
from evaluation.device_kind import CPU, GPU
from evaluation.errors import SubmissionError
from evaluation.types import Reason

LATE = next(m for m in MECHANISMS if m.name == "late-inputs")
VALUES = next(m for m in MECHANISMS if m.name == "values")
OVERHEAD = next(m for m in MECHANISMS if m.name == "overhead")


def cell(
    gate: str | None = None, by: str | None = None, escapes: bool = False, passes: bool = False
) -> dict[str, Any]:
    return {"gate": gate, "refused_by": by, "escapes": escapes, "passes": passes}


@pytest.fixture
def ablation(tmp_path: Path) -> Ablation:
    return Ablation(CPU, tmp_path, tmp_path / "ablation.json", {})


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda mechanism: mechanism.name)
def test_mechanism_is_turned_off_by_patches_of_what_exists(mechanism: Mechanism) -> None:
    with pytest.MonkeyPatch.context() as patch:
        mechanism.off(patch)
        assert patch._setattr
    assert mechanism.kinds and set(mechanism.kinds) <= {CPU, GPU}


def test_refusal_is_attributed_to_the_mechanism_on_its_way() -> None:
    namespace: dict[str, Any] = {"make": lambda: SubmissionError(Reason.WRONG_VALUES, "wrong")}
    source = "def check_suspended():\n    return make()\n"
    exec(compile(source, "evaluation/bench/process/handle.py", "exec"), namespace)
    with pytest.MonkeyPatch.context() as patch:
        refusals = Refusals(patch)
        namespace["check_suspended"]()
        SubmissionError(Reason.CRASH, "elsewhere")
    assert refusals.mechanism("wrong") == "suspended-time"
    assert refusals.mechanism("elsewhere") is None
    assert refusals.mechanism("of nobody") is None
    assert refusals.mechanism("of nobody", hidden=True) == "suspended-time"
    refusals.clear()
    assert refusals.mechanism("wrong") is None


@pytest.mark.parametrize(
    ("all_on", "needed"),
    [
        (cell(), [LATE, VALUES, OVERHEAD]),
        (cell("performance", "late-inputs"), [LATE]),
        (cell("performance"), [OVERHEAD]),
        (cell("correctness"), []),
        (cell("compile"), []),
    ],
    ids=["passes", "refused by one", "refused by another", "wrong", "not compiled"],
)
def test_cell_is_needed_where_a_mechanism_may_matter(
    ablation: Ablation, all_on: dict[str, Any], needed: list[Mechanism]
) -> None:
    trick = SimpleNamespace(name="trick.cpp")
    assert ablation.needed(trick, None)
    ablation.cells["trick.cpp"] = {ALL_ON: all_on}
    assert not ablation.needed(trick, None)
    assert [m for m in (LATE, VALUES, OVERHEAD) if ablation.needed(trick, m)] == needed


def test_table_counts_what_gets_through_without_a_mechanism_only(ablation: Ablation) -> None:
    ablation.cells = {
        "always": {ALL_ON: cell(escapes=True), "late-inputs": cell(escapes=True)},
        "faster": {
            ALL_ON: cell("performance", "late-inputs"),
            "late-inputs": cell(None, None, True, True),
        },
        "slower": {ALL_ON: cell("performance", "late-inputs"), "late-inputs": cell(passes=True)},
        "caught": {ALL_ON: cell("performance", "late-inputs"), "late-inputs": cell("performance")},
    }
    row = ablation.table()["late-inputs"]
    assert row["refuses"] == ["faster", "slower", "caught"]
    assert (row["tried"], row["escapes"], row["passes"]) == (4, ["faster"], ["slower"])
    assert ablation.table()["values"]["tried"] == 0


@pytest.mark.parametrize("keep", [False, True])
def test_cells_of_an_earlier_judge_stay_where_they_are_kept(tmp_path: Path, keep: bool) -> None:
    output = tmp_path / "ablation.json"
    known = {"trick.cpp": {ALL_ON: cell("correctness")}}
    output.write_text(json.dumps({"judge": {"source": "earlier"}, "cells": known}))
    cells = Ablation(CPU, tmp_path, output, {}, keep).cells
    assert cells == (
        {"trick.cpp": {ALL_ON: {**cell("correctness"), "source": "earlier"}}} if keep else {}
    )


@pytest.mark.parametrize(("half_width", "less"), [(0.014, False), (0.016, True)])
def test_mechanism_without_which_intervals_are_much_wider_makes_times_more_precise(
    ablation: Ablation, half_width: float, less: bool
) -> None:
    ablation.precision = {"none": {"half_width": 0.01}, LATE.name: {"half_width": half_width}}
    table = ablation.table()
    assert table[LATE.name]["less_precise"] is less
    assert table[VALUES.name]["less_precise"] is False, "not measured"
