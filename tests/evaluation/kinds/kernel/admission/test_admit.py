"""Tests of admission: wrong implementations must fail, honest ones pass, and times repeat."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from evaluation.bench.timing.plan import Plan
from evaluation.device_kind import CPU
from evaluation.errors import Inconclusive, SubmissionError
from evaluation.judge.admission import Admission, Attempt
from evaluation.judge.report_text import admission as rendered
from evaluation.judge.report_text import attempt as rendered_attempt
from evaluation.kinds.kernel import torch_variants
from evaluation.kinds.kernel.admission.admit import (
    MAX_BUILDS,
    MIN_HONEST,
    MIN_MUTANTS,
    _TaskJudge,
    admit,
    implementations,
    reported_if_disturbed,
)
from evaluation.kinds.kernel.admission.trivial_submissions import NOTES
from evaluation.kinds.kernel.gates import Trial
from evaluation.kinds.kernel.gates import compile as compilation
from evaluation.kinds.kernel.load import load_operator, load_task
from evaluation.kinds.kernel.session import MeasurementSession
from evaluation.tasks.operator import Example
from evaluation.tasks.spec import OPEN_TRACK, folder_of, self_tested
from evaluation.types import Case, GateResult, Interval, Reason, Split, Verdict

TASKS = Path(__file__).resolve().parents[5] / "tasks"


CASES = ("qwen3-expert", "single-element")
MUTANTS = ("no_op", "overflowing", "sigmoid_only")


@pytest.fixture
def tasks(tmp_path: Path) -> Path:
    """Return a folder of tasks with a small SwiGLU: few cases, sizes and mutants."""
    folder = tmp_path / "swiglu"
    shutil.copytree(TASKS / "Fusion" / "swiglu", folder)
    toml = folder / "task.toml"
    text = toml.read_text().replace("[1, 4096]", "[1, 64]").replace("[1, 18944]", "[1, 800]")
    lines = text.splitlines()
    kept = [ln for ln in lines if "split =" not in ln or any(f'"{case}"' in ln for case in CASES)]
    toml.write_text("\n".join(kept))
    for path in (folder / "mutants").iterdir():
        if path.name.partition(".")[0] not in MUTANTS:
            path.unlink()
    return tmp_path


def judged(tasks: Path, cache: Path) -> Admission:
    return admit(load_task(tasks, "swiglu", "cpp-to-cpp"), cache, self_test=True)


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count the implementations that are being built, whenever a build starts."""
    building, counts, compiled = set[int](), list[int](), compilation.judge

    def counted(trial: Trial) -> GateResult:
        building.add(id(trial))
        counts.append(len(building))
        try:
            return compiled(trial)
        finally:
            building.remove(id(trial))

    monkeypatch.setattr(compilation, "judge", counted)
    return counts


def problem_of(admission: Admission, name: str) -> str:
    return next(problem for problem in admission.problems if name in problem)


@pytest.mark.serial
def test_admit_sound_task_has_no_problems(
    tasks: Path, cache: Path, in_a_hurry: None, at_once: list[int]
) -> None:
    reported: list[Attempt] = []
    task = load_task(tasks, "swiglu", "cpp-to-cpp")
    admission = admit(task, cache, reported.append, self_test=True)
    assert admission.self_test
    assert tuple(reported) == (*admission.checks, *admission.attempts)
    assert all(check.ok for check in admission.checks), admission.problems
    assert all(", as expected" in rendered_attempt(each) for each in admission.attempts)
    assert max(at_once) == min(MAX_BUILDS, len(os.sched_getaffinity(0)))
    assert all(attempt.as_expected for attempt in admission.attempts), admission.problems
    assert {a.name for a in admission.attempts if a.role == "probe"} == set(NOTES)
    assert "baseline" in {a.name for a in admission.attempts if a.role == "honest"}
    stale = next(a for a in admission.attempts if a.name == "stale")
    assert (stale.verdict, stale.reason) == (Verdict.FAILED, Reason.STALE_OUTPUT)
    assert admission.repeat is not None
    assert "measured twice" in rendered(admission)
    assert admission.retained is not None and 0.2 < admission.retained.speedup < 5
    assert "near the public ones" in rendered(admission)
    of_times = ("times do not repeat", "of its speedup on sizes near")  # measured in a hurry
    assert [p for p in admission.problems if not any(words in p for words in of_times)] == []
    assert admission.admitted == (not admission.problems)


def refused(judge: MeasurementSession, case: Case, plan: Plan) -> None:
    raise SubmissionError(Reason.STALE_OUTPUT, f"case {case.name}: not written")


def test_admit_unexpected_verdicts_are_problems(
    tasks: Path, cache_with_builds: Path, in_a_hurry: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MeasurementSession, "measure", refused)
    folder = tasks / "swiglu"
    honest = (folder / "honest" / "vectorised.cpp.cpp").read_text()
    kept = {(e.name, e.language): e.source for e in load_operator(folder).mutants()}
    wrong = kept["sigmoid_only", "cpp"]
    misnamed = f"// mutant: leaves out a factor\n// expect: OUT_OF_BOUNDS\n{wrong}"
    (folder / "mutants" / "sound.cpp.cpp").write_text(honest.replace("honest:", "mutant:", 1))
    (folder / "mutants" / "misnamed.cpp.cpp").write_text(misnamed)
    (folder / "honest" / "unsound.cpp.cpp").write_text(f"// honest: by mistake\n{wrong}")
    for name in ("vectorised", "double_precision"):
        (folder / "honest" / f"{name}.cpp.cpp").unlink()
    (folder / "honest" / "unbuilt.cpp.cpp").write_text("// honest: no C++\nnonsense\n")
    (folder / "honest" / "unread.cpp.cpp").write_text("// honest: forks\nint i = fork();\n")
    (folder / "mutants" / "untried.cpp.cpp").write_text("// mutant: no C++\nnonsense\n")
    admission = judged(tasks, cache_with_builds)
    assert not admission.admitted
    assert problem_of(admission, "sound").startswith("mutant sound passed")
    assert problem_of(admission, "unsound").startswith("honest unsound failed (WRONG_VALUES)")
    assert problem_of(admission, "sound").endswith("correct it, or add a case that it fails")
    assert problem_of(admission, "misnamed").startswith("mutant misnamed failed (WRONG_VALUES)")
    assert problem_of(admission, "misnamed").endswith("expected was OUT_OF_BOUNDS")
    assert problem_of(admission, "unbuilt").startswith("honest unbuilt failed (BUILD_ERROR): g++")
    assert problem_of(admission, "untried").startswith("mutant untried failed (BUILD_ERROR): g++")
    assert problem_of(admission, "untried").endswith("so no case was tested: correct it")
    assert problem_of(admission, "unread").startswith("honest unread rejected (FORBIDDEN): swiglu.")
    timed = problem_of(admission, "when timed")
    assert timed == "honest baseline, when timed (STALE_OUTPUT): case qwen3-expert: not written"
    assert "not admitted" in rendered(admission)


@pytest.mark.parametrize(
    ("on_neighbours", "low", "high", "refused"),
    [(1.5, 1.4, 1.6, True), (0.6, 0.5, 0.7, True), (1.2, 1.1, 1.6, False), (1.5, 1.2, 1.9, False)],
)
def test_honest_kernel_must_retain_its_speedup_on_neighbours(
    on_neighbours: float,
    low: float,
    high: float,
    refused: bool,
    tasks: Path,
    cache_with_builds: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(MeasurementSession, "check", lambda session, case, thorough: None)

    def speedup(judge: Any, example: Example, cases: Sequence[Case]) -> Interval:
        if all(case in judge.task.cases(Split.SEEN) for case in cases):
            return Interval(1.0, 1.0, 1.0)
        return Interval(on_neighbours, low, high)

    monkeypatch.setattr(_TaskJudge, "_speedup", speedup)
    admission = admit(load_task(tasks, "swiglu", "cpp-to-cpp"), cache_with_builds)
    assert admission.retained == Interval(on_neighbours, low, high)
    assert admission.admitted != refused
    assert any(f"retains {on_neighbours:.0%}" in each for each in admission.problems) == refused


def test_step_that_other_work_disturbs_is_reported_and_named() -> None:
    reported: list[Attempt] = []
    named = "swiglu/cpp-to-cpp: honest vectorised, timed: 98 of 100 pairs of windows were disturbed"
    with (
        pytest.raises(Inconclusive, match=f"^{named}$"),
        reported_if_disturbed(
            reported.append, "swiglu/cpp-to-cpp", "honest", "vectorised, timed", "its speedup"
        ),
    ):
        raise Inconclusive("98 of 100 pairs of windows were disturbed")
    (step,) = reported
    assert (step.role, step.name, step.note) == ("honest", "vectorised, timed", "its speedup")
    assert (step.verdict, step.reason) == (Verdict.INCONCLUSIVE, Reason.MACHINE_BUSY)
    assert not step.as_expected and "inconclusive MACHINE_BUSY" in rendered_attempt(step)


def test_values_that_another_honest_one_has_are_judged_on_public_cases(
    tmp_path: Path, cache: Path, in_a_hurry: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(TASKS / "Activation" / "mish", tmp_path / "mish")
    splits: dict[MeasurementSession, set[Split]] = {}
    monkeypatch.setattr(
        MeasurementSession,
        "check",
        lambda session, case, thorough: splits.setdefault(session, set()).add(case.split),
    )
    admission = admit(load_task(tmp_path, "mish", OPEN_TRACK.slug, CPU), cache)
    assert [a.name for a in admission.attempts if a.role == "honest"] == ["wide", "filled"]
    wide, filled = splits.values()
    assert filled == {Split.SEEN}
    assert wide == {Split.SEEN, Split.UNSEEN, Split.SAMPLED}


@pytest.mark.parametrize(("line", "admitted"), [("raise ValueError", True), ("pass", False)])
def test_reference_that_pytorch_cannot_compile_is_admitted(
    line: str, admitted: bool, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(TASKS / "Activation" / "mish", tmp_path / "mish")
    ending = f"def {{name}}(x, out):\n    {line}"
    honest = {**torch_variants.HONEST[CPU], "compiled": (ending, "that, compiled")}
    monkeypatch.setitem(torch_variants.HONEST, CPU, honest)
    admission = admit(load_task(tmp_path, "mish", OPEN_TRACK.slug, CPU), cache)
    assert admission.admitted == admitted, admission.problems
    assert admission.attempts[-1].verdict is Verdict.FAILED


@pytest.mark.slow
def test_triton_kernels_of_a_task_are_admitted_without_a_gpu(cache: Path) -> None:
    """A reference imports Triton, which decides then whether it interprets kernels."""
    admission = admit(load_task(TASKS, "rms_norm", "torch-to-triton"), cache)
    found = {a.verdict for a in admission.attempts if a.role == "honest"}
    assert found == {Verdict.PASSED}, admission.problems


@pytest.mark.parametrize("self_test", [False, True])
def test_only_a_self_test_tries_mutants_of_the_operator(
    self_test: bool, tasks: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    thorough = set[bool]()
    monkeypatch.setattr(MeasurementSession, "check", lambda session, case, each: thorough.add(each))
    monkeypatch.setattr(MeasurementSession, "measure", refused)
    for path in (tasks / "swiglu" / "honest").glob("*.cpp.cpp"):
        path.unlink()
    task = load_task(tasks, "swiglu", "cpp-to-cpp")
    admission = admit(task, cache, self_test=self_test)
    assert admission.self_test == self_test and thorough == {self_test}
    roles = {attempt.role for attempt in admission.attempts}
    assert roles == ({"probe", "mutant", "honest"} if self_test else {"honest"})
    assert ("mutants" in {check.name for check in admission.checks}) != self_test
    few = "honest implementations in cpp: 1 of at least 2"
    assert any(few in problem for problem in admission.problems) == self_test
    assert "when timed" in problem_of(admission, "baseline")  # in both forms


def test_self_test_of_an_operator_without_mutants_is_the_short_form() -> None:
    task = load_task(TASKS / "Activation", "mish", OPEN_TRACK.slug, CPU)
    found = [role for role, _ in implementations(task, self_test=True)]
    assert found == ["honest"] * 2


def test_implementations_of_every_track_are_enough() -> None:
    for name in self_tested(TASKS):
        for track in (*load_operator(folder_of(TASKS, name)).tracks, OPEN_TRACK):
            task = load_task(TASKS, name, track.slug)
            roles = Counter(role for role, _ in implementations(task, self_test=True))
            short = Counter(role for role, _ in implementations(task))
            assert short == {"honest": roles["honest"]}
            assert roles["probe"] == len(NOTES)
            assert roles["honest"] >= MIN_HONEST
            assert roles["mutant"] >= MIN_MUTANTS
