"""Verdicts on known tricks, without static analysis.

A trick is a source under `tricks/`. Its first comments give what it does, its row in the catalogue
of tricks, and the expected verdict. Most that look for a way out are right only if they find one.
"""

from __future__ import annotations

import dataclasses
import re
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import evaluation
from evaluation.building import extensions
from evaluation.errors import Rejected
from evaluation.gates.performance import NAME as PERFORMANCE
from evaluation.languages import languages
from evaluation.pipeline import Request, evaluate
from evaluation.tasks.spec import Task
from evaluation.tracks.load import load_task
from evaluation.types import GateName, Report, Verdict
from tests.conftest import skip_or_fail

HERE = Path(__file__).parent
OPERATORS = HERE / "operators"
CONTROLS = sorted((HERE / "controls").iterdir())


@dataclass(frozen=True)
class Trick:
    """One hostile source and its header."""

    path: Path
    source: str
    expect: tuple[str, ...]
    triage: str
    seconds: float | None

    @classmethod
    def read(cls, path: Path) -> Trick:
        source = path.read_text()
        header = dict(re.findall(r"^(?://|#) (\w+): (.*)$", source, re.MULTILINE))
        assert header.keys() >= {"trick", "row", "expect"}, f"{path.name} lacks a header"
        seconds = header.get("seconds")
        expect = tuple(header["expect"].split("|"))
        return cls(
            path, source, expect, header.get("triage", ""), float(seconds) if seconds else None
        )


TRICKS = [Trick.read(path) for path in sorted((HERE / "tricks").iterdir())]


pytestmark = pytest.mark.usefixtures("in_a_hurry", "shared_fork_server")


@pytest.fixture
def no_static_analysis(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let static analysis reject nothing, so that every trick runs."""
    monkeypatch.setenv("ARENA_TEST_SECRET", "not for candidates")
    for language in languages().values():
        monkeypatch.setattr(type(language), "check", lambda self, files, task: None)


def task_for(path: Path, seconds: float | None = None) -> Task:
    task = load_task(
        OPERATORS, "centred", "cpp-to-cpp" if path.suffix == ".cpp" else "cpp-to-torch"
    )
    if seconds is None:
        return task
    limits = dataclasses.replace(task.operator.limits, seconds=seconds)
    return dataclasses.replace(task, operator=dataclasses.replace(task.operator, limits=limits))


def judged(path: Path, source: str, cache: Path, seconds: float | None = None) -> Report:
    if extensions.requested({path.name: source}) and (lacks := extensions.lacking()):
        skip_or_fail(lacks)
    task = task_for(path, seconds)
    files = {task.target_file: source}
    if path.suffix == ".cpp":
        files["honest.h"] = (HERE / "honest.h").read_text()
    return evaluate(Request(task, files, cache))


def conclusion(report: Report) -> str:
    """Return `failed/WRONG_VALUES in correctness`, or `passed`."""
    if report.verdict is Verdict.PASSED:
        return "passed"
    return f"{report.verdict.value}/{report.reason} in {report.gates[-1].gate.value}"


@pytest.mark.slow
@pytest.mark.parametrize("trick", TRICKS, ids=lambda trick: trick.path.name)
def test_trick_without_static_analysis_gets_its_verdict(
    trick: Trick, no_static_analysis: None, cache: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    places = {
        "@TASKS@": OPERATORS,
        "@TESTS@": HERE,
        "@CACHE@": cache,
        "@OUTSIDE@": outside,
        "@PACKAGE@": Path(evaluation.__file__).parent,
        "@PYTHON@": Path(sys.executable).resolve(),
    }
    source = trick.source
    for name, place in places.items():
        source = source.replace(name, str(place))

    report = judged(trick.path, source, cache, trick.seconds)

    got = conclusion(report)
    gates = "\n".join(f"{g.gate}: {g.verdict} {g.message} {dict(g.private)}" for g in report.gates)
    assert any(got == e or got.startswith(f"{e} in ") for e in trick.expect), f"{got}\n{gates}"
    assert not outside.exists()
    assert report.reason is None or report.verdict is not Verdict.BROKEN


@pytest.mark.parametrize(
    "trick", [t for t in TRICKS if t.triage], ids=lambda trick: trick.path.name
)
def test_blatant_trick_is_rejected_by_static_analysis(trick: Trick) -> None:
    task = task_for(trick.path)
    with pytest.raises(Rejected) as caught:
        languages()[task.track.target].check({task.target_file: trick.source}, task)
    assert caught.value.rule == trick.triage


@pytest.mark.slow
@pytest.mark.parametrize("path", CONTROLS, ids=lambda path: path.name)
def test_honest_kernel_of_any_style_passes(path: Path, cache: Path) -> None:
    report = judged(path, path.read_text(), cache)
    assert conclusion(report) == "passed", report.message
    assert [g.gate for g in report.gates] == list(GateName)
    assert next(g for g in report.gates if g.gate is PERFORMANCE).measurements
