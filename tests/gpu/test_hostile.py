"""Verdicts on every known trick on a GPU, by sandbox and timing alone, without static analysis.

The header of a trick has these fields, of which either `expect` or `gains` is its one outcome:

- `trick`: a description
- `row`: its row in the catalogue of tricks
- `expect`: it is refused, for one of these reasons, separated by `|`
- `gains`: the percentage that it may gain over its honest counterpart; a refusal gains nothing
- `triage`: the rule of the static analysis that rejects it, or `unsupported`

Most tricks that search for a gap in the sandbox compute the right values only if they find one.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import evaluation
from evaluation.errors import Rejected, Unsupported
from evaluation.types import Verdict
from tests import gains
from tests.gpu.submissions import (
    HERE,
    OPERATORS,
    Submission,
    conclusion,
    details,
    recorded,
    submissions,
)

ALL_TRICKS = submissions("hostile")
TRICKS = [trick for trick in ALL_TRICKS if "gains" not in trick.header]
BOUNDED = [trick for trick in ALL_TRICKS if "gains" in trick.header]
ROWS = range(1, 55)
"""Rows of the catalogue of tricks."""
WITHOUT_TRICK = {
    20: "a baseline of another day or machine: the judge measures its own, live",
    25: "a task whose output hardly varies: admission finds it by trivial submissions and mutants",
    26: "a mean that is nearly zero: `nominal_values_only` tries the same, as row 34",
    41: "a float product for a quantised one: mutants of `int8_matmul`",
    54: "no language model judges anything",
}
"""Rows without a trick here, with the reason."""


def paths(cache: Path, outside: Path) -> dict[str, object]:
    """Return paths of this machine by their placeholders in a trick's source."""
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
def test_trick_gets_expected_verdict(
    trick: Submission,
    without_static_analysis: None,
    cache: Path,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    outside = tmp_path / "outside"

    report = trick.judge(cache, paths(cache, outside))

    got = conclusion(report)
    for name, value in {"row": trick.header["row"], **recorded(report)}.items():
        record_property(name, value)
    expected = trick.header["expect"].split("|")
    assert any(got == e or got.startswith(f"{e} in ") for e in expected), details(report)
    assert not outside.exists()


@pytest.mark.gpu
@pytest.mark.slow
@pytest.mark.timeout(300)  # up to ten verdicts
@pytest.mark.parametrize("trick", BOUNDED, ids=lambda trick: trick.name)
def test_trick_gains_no_more_than_its_bound(
    trick: Submission,
    without_static_analysis: None,
    cache: Path,
    record_property: Callable[[str, object], None],
) -> None:
    honest, bound = trick.counterpart(), float(trick.header["gains"]) / 100

    found = gains.compare(lambda: trick.judge(cache), lambda: honest.judge(cache), bound)

    record_property("row", trick.header["row"])
    record_property("got", [conclusion(report) for report in found.trick])
    record_property("gain", round(found.gain, 4))
    record_property("speedups", [round(gains.speedup(report), 3) for report in found.trick])
    record_property("low", [round(gains.low(report), 3) for report in found.trick])
    record_property("honest", [round(gains.speedup(report), 3) for report in found.honest])
    assert found.gain <= bound, "\n".join(map(details, found.trick))
    assert all(report.verdict is not Verdict.BROKEN for report in (*found.trick, *found.honest))


def test_trick_header_states_one_outcome() -> None:
    for trick in ALL_TRICKS:
        assert trick.header.keys() >= {"trick", "row"}, trick.name
        assert ("gains" in trick.header) != ("expect" in trick.header), trick.name
        expected = trick.header.get("expect", "failed/").split("|")
        assert all(e.startswith(("failed/", "disputed/")) for e in expected), trick.name
        assert float(trick.header.get("gains", 0)) <= 100 * gains.BOUND, trick.name


def test_catalogue_rows_have_a_trick_or_a_reason() -> None:
    tried = {int(row) for trick in ALL_TRICKS for row in re.findall(r"\d+", trick.header["row"])}
    assert not tried & WITHOUT_TRICK.keys()
    assert tried | WITHOUT_TRICK.keys() == set(ROWS)


def test_each_language_has_a_dozen_tricks() -> None:
    counts = {
        language: sum(trick.language == language for trick in ALL_TRICKS)
        for language in ("cuda", "triton", "torch")
    }
    assert min(counts.values()) >= 12 and sum(counts.values()) >= 48, counts


@pytest.mark.gpu  # a hundred compilations take too long elsewhere
@pytest.mark.parametrize(
    "trick",
    [t for t in ALL_TRICKS if t.header.get("expect") != "failed/BUILD_ERROR"],
    ids=lambda trick: trick.name,
)
def test_trick_compiles(trick: Submission, compilers: None, cache: Path) -> None:
    trick.build(cache)


@pytest.mark.parametrize(
    "trick", [t for t in ALL_TRICKS if "triage" in t.header], ids=lambda trick: trick.name
)
def test_obvious_trick_is_rejected_by_static_analysis(trick: Submission) -> None:
    with pytest.raises((Rejected, Unsupported)) as caught:
        trick.check()
    rule = caught.value.rule if isinstance(caught.value, Rejected) else "unsupported"
    assert rule == trick.header["triage"]
