"""Every known trick against a judge on a GPU gets the verdict it must get by the walls and the
clock alone, without any static reading.

A trick says in its first comments what it does (`trick`), the row of the catalogue of tricks it
comes from (`row`), and what must come of it: `expect` holds verdicts, any of which will do;
`triage` the rule by which the static reading rejects it; and `fastest` the speedup that it must not
exceed where it passes because it does no harm. Most that look for an open door are right only when
they found one.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import evaluation
from evaluation.errors import Rejected
from evaluation.types import Verdict
from tests.gpu.submissions import (
    HERE,
    OPERATORS,
    Submission,
    conclusion,
    said,
    submissions,
    told,
)

TRICKS = submissions("hostile")
ROWS = range(1, 55)
"""Of the catalogue of tricks."""
ELSEWHERE = {
    20: "a baseline of another day or machine: the judge measures its own, live",
    25: "a task whose answer hardly varies: admission's probes and mutants find it",
    26: "a mean that is nearly zero: `nominal_values_only` tries the same, as row 34",
    41: "a float product for a quantised one: mutants of `int8_matmul`",
    54: "no language model judges anything",
}
"""Rows that no submission of these tries."""


def places(cache: Path, outside: Path) -> dict[str, object]:
    """What a trick is told of this machine, by the word that it says instead."""
    return {
        "@TASKS@": OPERATORS,
        "@TESTS@": HERE,
        "@CACHE@": cache,
        "@OUTSIDE@": outside,
        "@PACKAGE@": Path(evaluation.__file__).parent,
        "@PYTHON@": Path(sys.executable).resolve(),
    }


@pytest.mark.gpu
@pytest.mark.slow
@pytest.mark.parametrize("trick", TRICKS, ids=lambda trick: trick.name)
def test_a_trick_gets_the_verdict_it_must_get(
    trick: Submission,
    walls_alone: None,
    cache: Path,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    outside = tmp_path / "outside"

    report = trick.judge(cache, places(cache, outside))

    got = conclusion(report)
    for name, value in {"row": trick.header["row"], **told(report)}.items():
        record_property(name, value)
    expected = trick.header["expect"].split("|")
    assert any(got == e or got.startswith(f"{e} in ") for e in expected), said(report)
    assert not outside.exists()
    if report.verdict is Verdict.PASSED and report.seen is not None:
        assert report.seen.speedup < float(trick.header["fastest"]), said(report)


def test_every_trick_says_what_must_come_of_it() -> None:
    verdicts = {f"{v}/" for v in ("failed", "disputed")}
    for trick in TRICKS:
        assert trick.header.keys() >= {"trick", "row", "expect"}, trick.name
        expected = trick.header["expect"].split("|")
        assert all(e == "passed" or any(map(e.startswith, verdicts)) for e in expected), trick.name
        assert ("passed" in expected) == ("fastest" in trick.header), trick.name


def test_every_row_of_the_catalogue_is_tried_or_has_a_reason_not_to_be() -> None:
    tried = {int(row) for trick in TRICKS for row in re.findall(r"\d+", trick.header["row"])}
    assert not tried & ELSEWHERE.keys()
    assert tried | ELSEWHERE.keys() == set(ROWS)


def test_each_language_has_its_dozen_of_tricks() -> None:
    counts = {
        language: sum(trick.language == language for trick in TRICKS)
        for language in ("cuda", "triton", "torch")
    }
    assert min(counts.values()) >= 12 and sum(counts.values()) >= 48, counts


@pytest.mark.gpu  # a hundred compilations: too long for every run of all tests
@pytest.mark.parametrize(
    "trick",
    [t for t in TRICKS if t.header["expect"] != "failed/BUILD_ERROR"],
    ids=lambda trick: trick.name,
)
def test_it_compiles(trick: Submission, compilers: None, cache: Path) -> None:
    trick.build(cache)


@pytest.mark.parametrize(
    "trick", [t for t in TRICKS if "triage" in t.header], ids=lambda trick: trick.name
)
def test_the_blatant_is_rejected_on_sight(trick: Submission) -> None:
    with pytest.raises(Rejected) as caught:
        trick.reject()
    assert caught.value.rule == trick.header["triage"]
