"""The stages of a verdict: a build imports no library, and a machine without one skips the rest."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from evaluation.__main__ import main, serve_request
from evaluation.device_kind import GPU
from evaluation.errors import RequestError
from evaluation.judge.pipeline import Outcome
from evaluation.kinds.module import judge as production
from evaluation.kinds.module.architectures import Architecture, find_task
from evaluation.kinds.module.composition import Part
from evaluation.types import GateResult, Reason, Verdict
from tests.conftest import skip_or_fail

CANDIDATES = Path(__file__).parent / "candidates"
NAME = "llama_rms_norm"


def request(source: str, stage: str, cache: Path, **more: Any) -> dict[str, Any]:
    files = {f"{NAME}.py": source}
    return {"task": f"{NAME}/production", "files": files, "stage": stage, "scope": "final", **more}


def served(data: Mapping[str, Any], cache: Path) -> list[Any]:
    """Return the lines of a judge."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        serve_request(json.dumps({**data, "cache": str(cache)}))
    return [json.loads(line) for line in printed.getvalue().splitlines()]


def test_build_checks_rules_and_compiles_without_a_model(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = (CANDIDATES / "fused_norm.py").read_text()
    monkeypatch.setattr(Architecture, "missing", lambda self: "a build needs no library")
    *gates, report = served(request(source, "build", cache), cache)
    assert [gate["gate"] for gate in gates] == ["integrity", "compile"]
    assert report["verdict"] == "passed" and report["seen"] is None
    architecture, task = find_task(NAME)
    assert report["task_hash"] == architecture.task_hash(task)


@pytest.mark.parametrize(
    ("source", "gate"),
    [("import os\n\nos.getpid()\n", "integrity"), ("class ModelNew(:\n", "compile")],
)
def test_build_refuses_what_breaks_rules_or_is_not_python(
    source: str, gate: str, cache: Path
) -> None:
    *gates, report = served(request(source, "build", cache), cache)
    assert gates[-1]["gate"] == gate and report["verdict"] in ("rejected", "failed")


def test_machine_without_the_library_skips_a_measurement(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Architecture, "missing", lambda self: "transformers is not installed")
    (gate, report) = served(request("x = 1\n", "measure", cache), cache)
    assert gate["verdict"] == report["verdict"] == Verdict.SKIPPED
    assert report["reason"] == Reason.NO_DEVICE
    assert report["message"] == "transformers is not installed"


def test_terminal_names_the_missing_library(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Architecture, "missing", lambda self: "transformers is not installed")
    architecture, task = find_task(NAME)
    with pytest.raises(RequestError, match="not installed"):
        production.judge(architecture, [Part(task, {})], "cpu", cache, production.Extent(()))


def test_gpu_without_error_limits_refuses_with_the_command_that_fits_them(cache: Path) -> None:
    architecture, task = find_task(NAME)
    if why := architecture.missing():
        skip_or_fail(why)
    unfitted = dataclasses.replace(architecture, name="unfitted")
    message = r"no error limits of unfitted .* on a GPU; .* fit unfitted --kind gpu"
    with pytest.raises(RequestError, match=message):
        production.judge(unfitted, [Part(task, {})], GPU, cache, production.Extent(()))


@pytest.mark.parametrize(
    ("stage", "more", "message"),
    [("measure", {"profile": ""}, "not profiled"), ("all of it", {}, "stage is one of")],
)
def test_profile_and_unknown_stage_are_refused(
    stage: str, more: dict[str, str], message: str, cache: Path
) -> None:
    (line,) = served(request("", stage, cache, **more), cache)
    assert message in line["message"]


@pytest.mark.parametrize(("final", "unseen"), [(True, True), (False, False)])
def test_deployed_speedup_of_a_final_verdict_is_unseen_as_well(final: bool, unseen: bool) -> None:
    architecture, task = find_task(NAME)
    deployed = {"speedup": 1.2, "low": 1.1, "high": 1.3}
    last = GateResult(
        production.GateName.PERFORMANCE, Verdict.PASSED, detail={"deployed": deployed}
    )
    device = {"name": "a CPU"}
    report = production.report_of(architecture, [Part(task, {})], Outcome([last]), final, device)
    assert report.fingerprint["device"] == device
    assert report.seen is not None and report.seen.speedup == 1.2
    assert (report.unseen == report.seen) is unseen
    assert report.roofline_share is None and report.aka_score is None


@pytest.mark.parametrize(
    ("command", "message"),
    [("admit", "`production fit llama` check"), ("profile", "are not profiled")],
)
def test_other_commands_name_what_works_for_modules(
    command: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = [__file__] if command == "profile" else []
    assert main([command, NAME, "production", *file]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("phase", "steps", "count"),
    [("prefill", 8, 6), ("decode", 8, 6), ("decode", 4, 6), ("decode", 32, 2), ("decode", 100, 1)],
)
def test_decodes_are_checked_until_there_are_enough_steps(
    phase: str, steps: int, count: int
) -> None:
    assert production.Extent(()).windows_of(phase, steps) == count
