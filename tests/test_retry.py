"""Tests that fail in CI run once more, alone; those that fail twice fail the run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ONCE = """
from pathlib import Path
def test_{name}():
    earlier = Path("{name}").exists()
    Path("{name}").touch()
    assert earlier
"""
"""A test that passes when it runs again."""


def retried(folder: Path, hook: str = "", **files: str) -> subprocess.CompletedProcess[str]:
    """Run these files as tests in two workers; each line of `ran` is a test that ran.

    `hook` is added to their conftest.py.
    """
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "conftest.py").write_text(
        "def pytest_runtest_logreport(report):\n"
        "    if report.when == 'call':\n"
        "        print(report.nodeid, report.outcome, file=open('ran', 'a'))\n" + hook
    )
    for name, text in files.items():
        (folder / f"test_{name}.py").write_text(text)
    command = [ROOT / "scripts/retry", sys.executable, "-m", "pytest", "-q", "-p", "xdist.plugin"]
    bare = {"PATH": os.environ["PATH"], "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run(
        [*command, "-n", "2"], cwd=folder, env=bare, capture_output=True, text=True
    )


def runs_of(folder: Path, name: str) -> list[str]:
    """Return the outcomes of a test, which the controller and the workers both note."""
    lines = (folder / "ran").read_text().splitlines()
    return [line.split()[1] for line in lines if f"::test_{name} " in line]


def test_test_that_fails_once_runs_again_alone_and_is_printed(tmp_path: Path) -> None:
    done = retried(tmp_path, a=ONCE.format(name="a"), b="def test_b(): pass")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 failed, 1 passed" in done.stdout, "the first failure stays in the log"
    assert "1 failed beside other tests, and run once more alone" in done.stdout
    assert runs_of(tmp_path, "a")[-1] == "passed"
    assert runs_of(tmp_path, "a").count("passed") == 1, "no worker, only the process itself"
    assert len(runs_of(tmp_path, "b")) < len(runs_of(tmp_path, "a")), "what passed is not repeated"


def test_test_that_fails_twice_fails_the_run(tmp_path: Path) -> None:
    done = retried(tmp_path, a=ONCE.format(name="a"), b="def test_b(): assert False")
    assert done.returncode == 1
    assert "1 failed, 1 passed" in done.stdout.splitlines()[-1]


def test_more_failures_than_chance_explains_are_not_repeated(tmp_path: Path) -> None:
    done = retried(tmp_path, a="".join(ONCE.format(name=f"a{number}") for number in range(4)))
    assert done.returncode == 1 and "once more" not in done.stdout


def test_run_that_fails_although_each_test_passed_is_not_repeated(tmp_path: Path) -> None:
    leaves = "def pytest_sessionfinish(session): session.exitstatus = 1\n"
    done = retried(tmp_path, leaves, a="def test_a(): pass")
    assert done.returncode == 1 and "1 passed" in done.stdout and "once more" not in done.stdout


def test_interrupted_run_and_missing_file_keep_their_exit_code(tmp_path: Path) -> None:
    for code in (2, 4, 5):
        command = [ROOT / "scripts/retry", "sh", "-c", f"exit {code}"]
        assert subprocess.run(command, cwd=tmp_path).returncode == code
