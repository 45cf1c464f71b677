"""Processor time of test files, and the reasons for those that take long."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.costs import reasons

ROOT = Path(__file__).resolve().parent.parent
BUSY = "import time\nwhile time.process_time() < 0.5: pass\n"
FILES = {
    "test_child.py": f"import subprocess, sys\ndef test_a():\n"
    f"    subprocess.run([sys.executable, '-c', {BUSY!r}], check=True)\n",
    "test_quick.py": "def test_a(): pass\ndef test_b(): pass\n",
}


def costs(folder: Path, *options: str) -> tuple[subprocess.CompletedProcess[str], dict[str, float]]:
    """Run these files; return what was printed, and the seconds of each."""
    for name, text in FILES.items():
        (folder / name).write_text(text)
    (folder / "pytest.ini").write_text("[pytest]\n")
    plugins = ["-p", "tests.costs", "-p", "xdist.plugin"]
    words = [sys.executable, "-m", "pytest", "-q", *plugins, "--costs", "kept/costs.txt", *options]
    bare = {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(
        words, cwd=folder, env={**os.environ, **bare}, capture_output=True, text=True
    )
    lines = (folder / "kept" / "costs.txt").read_text().splitlines()
    return done, {
        name: float(seconds) for seconds, name in (line.split(maxsplit=1) for line in lines)
    }


@pytest.mark.parametrize("options", [(), ("-n", "1")], ids=["alone", "in a worker"])
def test_processor_time_of_a_file_includes_its_processes(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    done, seconds = costs(tmp_path, *options)
    assert done.returncode == 0, done.stdout + done.stderr
    assert seconds["test_child.py"] >= 0.5 > seconds["test_quick.py"]
    assert "in 2 files" in done.stdout and seconds["in 2 files"] >= 0.5


def test_file_above_the_limit_without_a_reason_fails_the_run(tmp_path: Path) -> None:
    done, _ = costs(tmp_path, "--max-cost", "0.1")
    assert done.returncode == 1
    assert "test_child.py takes more than 0.1 s" in done.stdout
    assert "test_quick.py takes" not in done.stdout


def test_reasons_are_given_for_files_that_exist() -> None:
    assert [file for file in reasons() if not (ROOT / file).is_file()] == []
    assert all(len(reason) > 20 for reason in reasons().values())
