"""An offline GPU box with the real judge: real tasks, real agents, and libraries beside Python."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from evaluation.sandbox.features import isolation_features
from evaluation.tasks.spec import folder_of
from tests.conftest import skip_or_fail
from tests.runners.agents.real_arena import JUDGE
from tests.runners.house import ROOT
from tests.runners.test_local import Box

PLAN = """
title = "Real"
tasks = ["*/cpp-to-cpp"]

[[agents]]
agent = "expert"
budget = { rounds = 1, seconds = 60 }

[[agents]]
agent = "tuner"
budget = { rounds = 2, seconds = 60 }
"""
"""One of them has a round, and leaves its source to the final verdict; the other compares."""
CASES = ("mixtral-router", "qwen3-router", "one-row", "single-element")
LIBRARIES = ("pydantic", "pydantic_core", "annotated_types", "typing_inspection")
"""Packages that agents import, with those that these import."""
PROGRAM = """
import subprocess, sys
from pathlib import Path
from runners.session.confinement import confined, environment
package, workspace = map(Path, sys.argv[1:])
subprocess.run(
    confined(workspace, package), cwd=workspace, env=environment(workspace), check=True
)
"""


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Box]:
    if not isolation_features().any:
        skip_or_fail("isolation of untrusted code")
    box = Box(tmp_path)
    folder = tmp_path / "tasks" / "Math" / "softmax"
    shutil.copytree(folder_of(ROOT / "tasks", folder.name), folder)
    toml = folder / "task.toml"
    lines = toml.read_text().splitlines()
    kept = [ln for ln in lines if "split =" not in ln or any(f'"{case}"' in ln for case in CASES)]
    toml.write_text("\n".join(kept).replace("case_mb = 48", "case_mb = 3"))
    box.env |= {"ARENA_TASKS": str(tmp_path / "tasks"), "ARENA_TEST_JUDGE": JUDGE}
    box.plan = tmp_path / "real.toml"
    box.plan.write_text(PLAN)
    yield box
    box.close()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_agents_of_this_project_are_judged_on_a_task_of_this_project(box: Box) -> None:
    results = box.home / "results.jsonl"
    code, log = box.work_off("--export", str(results), seconds=500)
    assert code == 0, log
    runs = [json.loads(line) for line in results.read_text().splitlines()]
    found = {line["agent"]["slug"]: line["run"] for line in runs}
    assert set(found) == {"expert", "tuner"}
    for slug, run in found.items():
        assert run["status"] == "passed", (slug, run["reason"], log)
        assert run["speedup"] > 0 and run["unseen_speedup"] > 0
    scopes = {line["agent"]["slug"]: scopes_of(line) for line in runs}
    assert scopes == {"expert": ["final"], "tuner": ["final", "round", "round"]}


def scopes_of(line: dict[str, Any]) -> list[str]:
    evaluations = (each for one in line["submissions"] for each in one["evaluations"])
    return sorted(each["scope"] for each in evaluations)


def test_agent_imports_a_library_that_lies_beside_python(tmp_path: Path) -> None:
    if not isolation_features().any:
        skip_or_fail("isolation of untrusted code")
    libraries, package, workspace = (tmp_path / name for name in ("lib", "runners", "workspace"))
    workspace.mkdir()
    for name in LIBRARIES:
        spec = find_spec(name)
        assert spec and spec.origin
        shutil.copytree(Path(spec.origin).parent, libraries / name)
    (package / "agents").mkdir(parents=True)
    main = package / "agents" / "__main__.py"
    main.write_text("import pydantic; print(pydantic.__file__)")
    paths = os.pathsep.join(map(str, (libraries, ROOT)))
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(package), str(workspace)],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
    )
    assert Path(done.stdout.strip()).is_relative_to(libraries), done.stderr
