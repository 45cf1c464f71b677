"""Verdicts on known tricks, without static analysis.

A trick is a source under `tricks/`. Its first comments give what it does, its row in the catalogue
of tricks, and its one outcome: `expect`, the reasons of which one refuses it, or `gains`, the
percentage that it may gain over its honest counterpart, where a refusal gains nothing. Most that
look for a way out are right only if they find one.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from evaluation.code.building import extensions
from evaluation.code.languages import languages
from evaluation.errors import Rejected, Unsupported
from evaluation.kinds.kernel.gates.performance import NAME as PERFORMANCE
from evaluation.types import GateName, Verdict
from tests import gains
from tests.conftest import skip_or_fail
from tests.evaluation.hostile.submissions import (
    Submission,
    conclusion,
    details,
    paths,
    submissions,
)

CONTROLS = submissions("controls")
ALL_TRICKS = submissions("tricks")
TRICKS = [trick for trick in ALL_TRICKS if "gains" not in trick.header]
BOUNDED = [trick for trick in ALL_TRICKS if "gains" in trick.header]

pytestmark = pytest.mark.usefixtures("shared_fork_server")


@pytest.fixture(scope="session")
def cache(cache_with_builds: Path) -> Path:
    """Find and keep builds: building is tested elsewhere."""
    return cache_with_builds


@pytest.fixture
def no_static_analysis(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let static analysis reject nothing, so that every trick runs."""
    monkeypatch.setenv("ARENA_TEST_SECRET", "not for candidates")
    for language in languages().values():
        monkeypatch.setattr(type(language), "check", lambda self, files, task: None)


def require_compilers(submission: Submission) -> None:
    if extensions.requested(submission.files) and (lacks := extensions.lacking()):
        skip_or_fail(lacks)


@pytest.mark.slow
@pytest.mark.usefixtures("in_a_hurry")
@pytest.mark.parametrize("trick", TRICKS, ids=lambda trick: trick.name)
def test_trick_without_static_analysis_gets_its_verdict(
    trick: Submission, no_static_analysis: None, cache: Path, tmp_path: Path
) -> None:
    require_compilers(trick)
    outside = tmp_path / "outside"

    report = trick.judge(cache, paths(cache, outside))

    got, expected = conclusion(report), trick.header["expect"].split("|")
    assert any(got == e or got.startswith(f"{e} in ") for e in expected), details(report)
    assert not outside.exists()
    assert report.reason is None or report.verdict is not Verdict.BROKEN


@pytest.mark.slow
@pytest.mark.serial
@pytest.mark.timeout(300)  # up to ten verdicts
@pytest.mark.parametrize("trick", BOUNDED, ids=lambda trick: trick.name)
def test_trick_gains_no_more_than_its_bound(
    trick: Submission, no_static_analysis: None, cache: Path
) -> None:
    honest, bound = trick.counterpart(), float(trick.header["gains"]) / 100

    found = gains.compare(
        lambda: trick.judge(cache, scope="round"), lambda: honest.judge(cache, scope="round"), bound
    )

    reports = (*found.trick, *found.honest)
    shown = "\n".join(map(details, reports))
    assert found.gain <= bound, shown
    assert all(report.verdict is not Verdict.BROKEN for report in reports), shown


def test_trick_header_states_one_outcome() -> None:
    for trick in ALL_TRICKS:
        assert trick.header.keys() >= {"trick", "row"}, trick.name
        assert ("gains" in trick.header) != ("expect" in trick.header), trick.name
        expected = trick.header.get("expect", "failed/").split("|")
        assert all(e.startswith("failed/") for e in expected), trick.name
        assert float(trick.header.get("gains", 0)) <= 100 * gains.BOUND, trick.name


@pytest.mark.parametrize(
    "trick", [t for t in ALL_TRICKS if "triage" in t.header], ids=lambda trick: trick.name
)
def test_blatant_trick_is_rejected_by_static_analysis(trick: Submission) -> None:
    task = trick.task()
    with pytest.raises((Rejected, Unsupported)) as caught:
        languages()[task.track.target].check({task.target_file: trick.source}, task)
    rule = caught.value.rule if isinstance(caught.value, Rejected) else "unsupported"
    assert rule == trick.header["triage"]


@pytest.mark.slow
@pytest.mark.usefixtures("in_a_hurry")
@pytest.mark.parametrize("control", CONTROLS, ids=lambda control: control.name)
def test_honest_kernel_of_any_style_passes(control: Submission, cache: Path) -> None:
    require_compilers(control)
    report = control.judge(cache)
    assert conclusion(report) == "passed", report.message
    assert [g.gate for g in report.gates] == list(GateName)
    assert next(g for g in report.gates if g.gate is PERFORMANCE).measurements
