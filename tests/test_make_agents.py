"""`make agents`: what it needs, what it installs, and what it does the second time."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TOOLS = ("sh", "make", "cat", "cksum", "cp", "mkdir", "rm", "id", "chmod")
PACKAGES = {
    "@anthropic-ai/claude-code", "@google/gemini-cli", "@openai/codex", "@qwen-code/qwen-code",
    "opencode-ai",
}  # fmt: skip


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A checkout with programs that log their calls, and fail at a word in `fails`."""
    (tmp_path / "runners").mkdir()
    for name in ("Makefile", "scripts", "runners/harnesses"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "bin").mkdir()
    for name in TOOLS:
        found = subprocess.run(("which", name), capture_output=True, text=True, check=True).stdout
        (tmp_path / "bin" / name).symlink_to(found.strip())
    _program(tmp_path, "npm")
    _program(tmp_path, "python3", "mkdir -p .arena/harnesses/python/bin",
             '[ "$2" = pip ] || cp "$0" .arena/harnesses/python/bin/python')  # fmt: skip
    _node(tmp_path, 20)
    (tmp_path / "fails").write_text("nothing at all")
    return tmp_path


def _program(bare: Path, name: str, *more: str) -> None:
    path = bare / "bin" / name
    lines = (
        "#!/bin/sh",
        f'echo "{name} $*" >> {bare}/log',
        f'case "$*" in *"$(cat {bare}/fails)"*) echo "no network" >&2; exit 1 ;; esac',
        *more,
    )
    path.write_text("\n".join(lines) + "\n")
    path.chmod(0o755)


def _node(bare: Path, major: int) -> None:
    path = bare / "bin" / "node"
    path.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && echo v{major}.1.0 && exit\nexit {int(major < 20)}\n'
    )
    path.chmod(0o755)


def make_agents(bare: Path) -> subprocess.CompletedProcess[str]:
    keep = {"HOME": os.environ.get("HOME", "/")}
    return subprocess.run(
        ("make", "agents"), cwd=bare, env={**keep, "PATH": str(bare / "bin")},
        capture_output=True, text=True,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("missing", "message"),
    [("node", "no Node.js; install 20 or newer"), ("npm", "no npm; install it beside Node.js")],
)
def test_missing_program_is_refused_in_one_line(bare: Path, missing: str, message: str) -> None:
    (bare / "bin" / missing).unlink()
    refused = make_agents(bare)
    assert refused.returncode == 1
    assert refused.stderr.startswith(f"arena: {message}")
    assert refused.stderr.count("\n") == 1
    assert not (bare / ".arena").exists()


def test_old_node_is_refused_with_its_version(bare: Path) -> None:
    _node(bare, 18)
    refused = make_agents(bare)
    assert refused.returncode == 1
    assert refused.stderr.startswith("arena: Node.js v18.1.0 is too old; install 20 or newer")


def test_second_call_installs_nothing_until_a_pin_changes(bare: Path) -> None:
    made = [make_agents(bare) for _ in range(2)]
    assert [done.returncode for done in made] == [0, 0], made[0].stderr
    calls = (bare / "log").read_text().splitlines()
    assert [call.split()[1] for call in calls if call.startswith("npm ")] == ["install", "rebuild"]
    assert sum("-m pip install" in call for call in calls) == 1
    pins, own = ROOT / "runners/harnesses", bare / "runners/harnesses"
    changed = (pins / "package.json").read_text().replace("2.1.", "2.2.")
    own.unlink()
    own.mkdir()
    for name in ("package-lock.json", "requirements.txt"):
        (own / name).symlink_to(pins / name)
    (own / "package.json").write_text(changed)
    assert make_agents(bare).returncode == 0
    assert (bare / "log").read_text().count("npm install") == 2
    assert (bare / ".arena/harnesses/package.json").read_text() == changed


def test_failed_installation_is_repeated_by_the_next_call(bare: Path) -> None:
    (bare / "fails").write_text("rebuild")
    failed = make_agents(bare)
    assert failed.returncode == 1
    assert failed.stderr.startswith("no network\narena: npm could not install the agents")
    (bare / "fails").write_text("nothing at all")
    assert make_agents(bare).returncode == 0
    assert (bare / "log").read_text().count("npm install") == 2


def test_install_scripts_run_for_named_packages_only(bare: Path) -> None:
    assert make_agents(bare).returncode == 0
    install, rebuild = re.findall(r"^npm (.*)$", (bare / "log").read_text(), re.MULTILINE)
    assert "--ignore-scripts" in install
    allowed = json.loads((ROOT / "runners/harnesses/package.json").read_text())["allowScripts"]
    assert {word for word in rebuild.split() if not word.startswith("--")} == {
        "rebuild", *allowed
    }  # fmt: skip


def test_bundled_ripgrep_becomes_executable(bare: Path) -> None:
    folder = bare / ".arena/harnesses/node_modules/@qwen-code/qwen-code/vendor/ripgrep/x64-linux"
    folder.mkdir(parents=True)
    (folder / "rg").touch(mode=0o644)
    assert make_agents(bare).returncode == 0
    assert os.access(folder / "rg", os.X_OK)


def test_versions_are_exact_and_the_lock_has_hashes_and_the_public_registry() -> None:
    pinned = json.loads((ROOT / "runners/harnesses/package.json").read_text())["dependencies"]
    assert pinned.keys() == PACKAGES
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in pinned.values())
    locked = json.loads((ROOT / "runners/harnesses/package-lock.json").read_text())["packages"]
    assert locked.pop("")["dependencies"] == pinned
    for path, package in locked.items():
        assert package["resolved"].startswith("https://registry.npmjs.org/"), path
        assert package["integrity"].startswith("sha512-"), path


def test_packages_of_python_are_installed_by_their_hashes(bare: Path) -> None:
    assert make_agents(bare).returncode == 0
    (installed,) = re.findall(r"^.* -m pip install .*$", (bare / "log").read_text(), re.MULTILINE)
    assert "--require-hashes -r runners/harnesses/requirements.txt" in installed
