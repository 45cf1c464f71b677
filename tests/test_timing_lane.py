"""The choice of `make test` to run the tests that measure time, or to say why it does not."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "scripts" / "timing"
MARK = ".serial".join(("mark", ""))  # not this file
GIT = ("git", "-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")


def git(folder: Path, *words: str) -> None:
    subprocess.run((*GIT, *words), cwd=folder, check=True, capture_output=True)


def lane(folder: Path, *options: str, ci: str = "", fails: bool = False) -> str:
    """Return what `scripts/timing` prints, for the paths `judge` and `trick.cpp`."""
    command = ["sh", "-c", "echo measured; exit 7" if fails else "echo measured"]
    done = subprocess.run(
        [SCRIPT, *options, "judge", "trick.cpp", "--", *command],
        cwd=folder, env={"PATH": os.environ["PATH"], "CI": ci}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == (7 if "measured" in done.stdout and fails else 0), done.stderr
    return done.stdout.strip()


def changed(folder: Path, **more: str) -> str:
    return lane(folder, "--if-changed", **more)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a folder with a judge, a trick and something else, without git."""
    folder = tmp_path / "work"
    (folder / "judge").mkdir(parents=True)
    (folder / "judge" / "clock.py").write_text("1")
    (folder / "trick.cpp").write_text("2")
    (folder / "page.html").write_text("3")
    return folder


@pytest.fixture
def clone(checkout: Path, tmp_path: Path) -> Path:
    """Return a clone of a repository with these files."""
    git(checkout, "init", "-q", "-b", "main")
    git(checkout, "add", ".")
    git(checkout, "commit", "-qm", "all")
    git(tmp_path, "clone", "-q", str(checkout), "clone")
    return tmp_path / "clone"


def test_lane_without_a_remote_runs_until_it_passed_with_these_files(checkout: Path) -> None:
    assert changed(checkout, fails=True) == "measured"
    assert changed(checkout) == "measured"
    assert re.match("Tests that measure time are left out: .* since they passed", changed(checkout))
    (checkout / "page.html").write_text("another")
    assert "left out" in changed(checkout)
    (checkout / "judge" / "clock.py").write_text("another")
    assert changed(checkout) == "measured"


def test_lane_of_a_fresh_clone_is_left_out_until_a_file_differs(clone: Path) -> None:
    assert "those of origin's main branch" in changed(clone)
    (clone / "page.html").write_text("another")
    assert "left out" in changed(clone)
    (clone / "judge" / "new.py").write_text("not in git")
    assert changed(clone, fails=True) == "measured"
    git(clone, "add", ".")
    git(clone, "commit", "-qm", "more")
    assert changed(clone) == "measured"
    assert "since they passed" in changed(clone)


@pytest.mark.parametrize("fails", [False, True])
def test_lane_in_ci_or_by_name_always_runs(clone: Path, fails: bool) -> None:
    for _ in range(2):
        assert changed(clone, ci="1", fails=fails) == "measured"
        assert lane(clone, fails=fails) == "measured"


def test_paths_of_the_lane_exist_and_name_every_test_that_measures_time() -> None:
    rule = "print: ; +@echo $(TIMED)"
    words = ("make", "--no-print-directory", "--eval", rule, "print")
    clean = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    named = subprocess.run(words, cwd=ROOT, env=clean, capture_output=True, text=True, check=True)
    paths = named.stdout.split()
    assert [path for path in paths if not (ROOT / path).exists()] == []
    serial = [p for p in ROOT.glob("tests/**/test_*.py") if MARK in p.read_text()]
    assert {str(p.relative_to(ROOT)) for p in serial} <= set(paths)
