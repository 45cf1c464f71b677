"""The search for known vulnerabilities: what `make lint` concludes from what pip-audit found."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.test_house import ROOT

SAFE: dict[str, Any] = {"name": "a", "version": "1.0", "vulns": []}
VULNERABLE = {"name": "b", "version": "2.0", "vulns": [{"id": "CVE-1", "fix_versions": ["2.1"]}]}
UNKNOWN = {"name": "c", "skip_reason": "Dependency not found on PyPI"}


def audited(
    folder: Path, output: str, *words: str, known: str = '{"vulnerabilities": [{"id": "CVE-0"}]}'
) -> subprocess.CompletedProcess[str]:
    """Run the script with a pip-audit that prints `output`, where PyPI answers `known`."""
    (folder / "answer").write_text(known)
    (folder / "output").write_text(output)
    program = folder / "pip-audit"
    program.write_text(f'#!/bin/sh\necho "$@" >> {folder}/words\ncat {folder}/output\n')
    program.chmod(0o755)
    return subprocess.run(
        [ROOT / "scripts" / "audit", *words], capture_output=True, text=True,
        env=os.environ | {"PIP_AUDIT": str(program), "AUDIT_PROBE": f"file://{folder}/answer"},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("packages", "code", "text"),
    [
        ([SAFE], 0, "No vulnerability of 1 packages is known."),
        ([SAFE, VULNERABLE, UNKNOWN], 1, "b 2.0: CVE-1, fixed in 2.1"),
        ([SAFE, UNKNOWN], 2, "c was not checked"),
    ],
    ids=["safe", "vulnerable", "unknown"],
)
def test_audit_ends_by_what_is_known_of_the_packages(
    tmp_path: Path, packages: list[Any], code: int, text: str
) -> None:
    done = audited(tmp_path, json.dumps({"dependencies": packages}))
    assert done.returncode == code and text in done.stdout + done.stderr


def test_audit_without_an_answer_says_that_nothing_was_checked(tmp_path: Path) -> None:
    done = audited(tmp_path, "")
    assert done.returncode == 2 and "PyPI cannot be asked" in done.stderr


@pytest.mark.parametrize("known", ["", "{}", '{"vulnerabilities": []}'])
def test_audit_by_a_mirror_without_vulnerabilities_says_that_nothing_was_checked(
    tmp_path: Path, known: str
) -> None:
    output = json.dumps({"dependencies": [SAFE]})
    done = audited(tmp_path, output, known=known)
    assert done.returncode == 2 and "no package was checked" in done.stderr
    done = audited(tmp_path, output, "--if-possible", known=known)
    assert done.returncode == 0 and "no package was checked" in done.stderr
    assert not (tmp_path / "words").exists()


def test_audit_of_vulnerable_packages_fails_wherever_it_is_possible(tmp_path: Path) -> None:
    output = json.dumps({"dependencies": [VULNERABLE]})
    assert audited(tmp_path, output, "--if-possible").returncode == 1


def test_audit_reads_every_package_that_is_pinned(tmp_path: Path) -> None:
    audited(tmp_path, json.dumps({"dependencies": [SAFE]}))
    calls = (tmp_path / "words").read_text().splitlines()
    read = [Path(name) for call in calls for name in re.findall(r"--requirement=(\S+)", call)]
    assert len(read) == len(calls), "pip-audit refuses a package that two files pin"
    pinned = {name for file in read for name in pins(file)}
    locks = [*(ROOT / "locks").glob("*.txt"), ROOT / "runners/harnesses/requirements.txt"]
    assert len(pinned) > 50
    assert {name for file in locks for name in pins(file)} <= pinned


def pins(file: Path) -> set[str]:
    """Return the names of the packages of a lock."""
    return set(re.findall(r"^([\w.-]+)==", file.read_text(), re.MULTILINE))
