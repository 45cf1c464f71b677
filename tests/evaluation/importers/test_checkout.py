"""Tests of checkouts: each way in which Git makes one is read."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from evaluation.importers.checkout import BadFile, Checkout
from evaluation.importers.importer import import_suite
from evaluation.importers.outcome import FIRST_CLASS
from evaluation.importers.sandboxed.main import wait
from evaluation.importers.suites import suites
from tests.evaluation.importers.suite_checkout import LICENCE, SCALED, commit, git, path_of

FILES = {"LICENSE": LICENCE, path_of(1, "Scaled"): SCALED}


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    commit(tmp_path / "origin", FILES)
    return tmp_path / "origin"


def test_worktree_is_read(origin: Path, tmp_path: Path) -> None:
    git(origin, "worktree", "add", "-q", str(tmp_path / "tree"))
    found = Checkout.open(tmp_path / "tree", "")
    assert found.read(path_of(1, "Scaled")) == SCALED
    assert found.commit == Checkout.open(origin, "").commit


def test_submodule_is_read(origin: Path, tmp_path: Path) -> None:
    commit(tmp_path / "outer", {"README": "It holds a suite.\n"})
    allowed = ("-c", "protocol.file.allow=always")
    git(tmp_path / "outer", *allowed, "submodule", "add", "-q", str(origin), "suite")
    found = Checkout.open(tmp_path / "outer/suite", "")
    assert found.read(path_of(1, "Scaled")) == SCALED


def test_checkout_with_other_ends_of_lines_is_read_as_the_commit_has_it(
    origin: Path, tmp_path: Path
) -> None:
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", "-c", "core.autocrlf=true", str(origin), str(clone))
    assert b"\r\n" in (clone / path_of(1, "Scaled")).read_bytes()
    found = Checkout.open(clone, "")
    assert found.read(path_of(1, "Scaled")) == SCALED and found.licence() == LICENCE
    (clone / "LICENSE").write_bytes(b"Another one.\r\n")
    with pytest.raises(BadFile, match="differs from the commit"):
        found.read("LICENSE")


def test_folder_that_claims_the_commits_of_another_is_refused(origin: Path, tmp_path: Path) -> None:
    claim = tmp_path / "claim"
    claim.mkdir()
    (claim / ".git").write_text(f"gitdir: {origin}/.git\n")
    with pytest.raises(BadFile, match="differs from the commit"):
        Checkout.open(claim, "").read("LICENSE")


def start(program: str) -> int:
    return subprocess.Popen([sys.executable, "-c", program]).pid


def test_process_that_waits_for_nothing_is_ended() -> None:
    assert wait(start("import signal; signal.pause()"), 0.5) is None  # waits: the idle time itself


def test_process_that_works_is_not_ended_for_its_time() -> None:
    program = "import time; end = time.time() + 3\nwhile time.time() < end: pass"
    status = wait(start(program), 1.0)  # waits: a process that works for longer than it may idle
    assert status is not None and os.waitstatus_to_exitcode(status) == 0


@pytest.mark.timeout(600)
def test_names_that_differ_in_case_or_zeros_become_tasks_of_their_own(tmp_path: Path) -> None:
    suite = suites()["kernelbench"]
    names = ("1_norm", "01_norm", "1_Norm", "2_" + "long_" * 20 + "a", "2_" + "long_" * 20 + "b")
    paths = [f"KernelBench/level1/{name}.py" for name in names]
    files = {
        path: SCALED.replace("factor = 2.0", f"factor = {n}.5") for n, path in enumerate(paths)
    }
    commit(tmp_path / "suite", {"LICENSE": LICENCE, **files})
    found = import_suite(suite, Checkout.open(tmp_path / "suite", ""), tmp_path / "into")
    assert found.counts() == {FIRST_CLASS: 5}, [each.reason for each in found.outcomes]
    folders = {
        folder.name: (folder / "problem.py").read_text()
        for folder in (tmp_path / "into/kernelbench").iterdir()
        if folder.is_dir()
    }
    assert folders == {each.name: files[each.path] for each in found.outcomes}
