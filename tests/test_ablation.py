"""The ablation: mechanisms that can be turned off, cells that are needed, and the table."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.ablation import ALL_ON, Ablation, is_named, parse
from benchmarks.mechanisms import MECHANISMS, Mechanism, Refusals
from benchmarks.shared import source_of_judge
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


def test_named_cells_of_an_earlier_judge_are_judged_again(ablation: Ablation) -> None:
    trick = SimpleNamespace(name="trick.cpp")
    source = source_of_judge()
    for sources, again in (
        ((source, source), []),
        ((source, "earlier"), [LATE]),
        (("earlier", source), [None]),
    ):
        cells = dict(zip((ALL_ON, LATE.name), (cell(), cell()), strict=True))
        ablation.cells["trick.cpp"] = {
            name: {**each, "source": its}
            for (name, each), its in zip(cells.items(), sources, strict=True)
        }
        assert [m for m in (None, LATE) if ablation.needed(trick, m, again=True)] == again
        assert not any(ablation.needed(trick, m) for m in (None, LATE))


def test_cells_are_named_by_mechanism_and_trick() -> None:
    options = parse(["--device", CPU, "--cells", "values:call_*", "none:slow_*"])
    tricks = [SimpleNamespace(name=f"{name}.cpp") for name in ("call_counting", "slow_start")]
    assert (options.mechanism, options.tricks) == (("values", "none"), ("call_*", "slow_*"))
    assert [[is_named(options, t, m) for m in (None, VALUES, LATE)] for t in tricks] == [
        [True, True, False],
        [True, False, False],
    ]
    with pytest.raises(SystemExit):
        parse(["--cells", "nothing:call_*"])


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


@pytest.mark.parametrize(
    ("without", "less"),
    [
        ({"half_width": 0.014}, False),
        ({"half_width": 0.016}, True),
        ({"half_width": 0.016, "noisy": 1}, False),
        ({"launch_ns": 950}, False),
        ({"launch_ns": 890}, True),
        ({"launch_ns": 1200}, False),
        ({"empty_share": 0.017}, False),
        ({"empty_share": 0.019}, True),
    ],
)
def test_mechanism_without_which_times_are_less_precise_is_marked(
    ablation: Ablation, without: dict[str, float], less: bool
) -> None:
    with_all = {"noisy": 0, "half_width": 0.01, "launch_ns": 1000, "empty_share": 0.008}
    ablation.precision = {"none": with_all, LATE.name: {**with_all, **without}}
    table = ablation.table()
    assert table[LATE.name]["less_precise"] is less
    assert table[VALUES.name]["less_precise"] is False, "not measured"


def test_joined_files_give_one_table(ablation: Ablation, tmp_path: Path) -> None:
    refused = {ALL_ON: cell("performance", "late-inputs")}
    files = [tmp_path / name for name in ("one.json", "two.json")]
    escaped = {**refused, "late-inputs": cell(escapes=True)}
    for file, trick, cells in zip(files, ("a.cpp", "b.cpp"), (refused, escaped), strict=True):
        file.write_text(json.dumps({"cells": {trick: cells}, "precision": {}}))
    ablation.join(files)
    row = json.loads(ablation.output.read_text())["mechanisms"]["late-inputs"]
    assert (row["refuses"], row["escapes"]) == (["a.cpp", "b.cpp"], ["b.cpp"])


def test_times_that_are_known_of_this_judge_are_not_measured_again(ablation: Ablation) -> None:
    assert ablation.unmeasured([LATE, VALUES]) == [None, LATE, VALUES]
    ablation.precision = {
        ALL_ON: {"source": source_of_judge()},
        LATE.name: {"source": source_of_judge()},
        VALUES.name: {"source": "earlier"},
    }
    assert ablation.unmeasured([LATE, VALUES]) == [VALUES]
