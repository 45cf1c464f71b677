"""Programs of harnesses: found in the folder of `make agents` or on PATH, or named as missing."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from runners import harnesses
from runners.agents import load

NPM = {
    "claude_code": "@anthropic-ai/claude-code",
    "codex": "@openai/codex",
    "qwen_code": "@qwen-code/qwen-code",
}


@pytest.fixture
def folder(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder of harnesses, beside a PATH with nothing but node."""
    (tmp_path / "bin").mkdir()
    program(tmp_path / "bin" / "node")
    settings.ARENA_HARNESSES = tmp_path / "harnesses"
    settings.ARENA_HOME = tmp_path
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    return tmp_path


def program(path: Path, version: str = "1.2.3 (A Program)") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{version}'\n")
    path.chmod(0o755)


@pytest.mark.parametrize("adapter", NPM)
def test_missing_program_is_a_problem_with_what_to_do(folder: Path, adapter: str) -> None:
    name = harnesses.harness(adapter).program
    assert harnesses.find(adapter).problem == f"{name} is not installed: run make agents"


@pytest.mark.parametrize("adapter", NPM)
def test_program_of_make_agents_is_found_with_the_version_of_its_package(
    folder: Path, adapter: str
) -> None:
    needs = harnesses.harness(adapter)
    assert needs.package == NPM[adapter]
    path = folder / "harnesses/node_modules/.bin" / needs.program
    program(path)
    described = folder / "harnesses/node_modules" / needs.package / "package.json"
    described.parent.mkdir(parents=True)
    described.write_text(json.dumps({"version": "9.8.7"}))
    program(folder / "bin" / needs.program)
    found = harnesses.find(adapter)
    assert (found.program, found.version, found.problem) == (str(path), "9.8.7", "")
    assert str(folder / "harnesses") in found.readable
    assert str(folder / "bin") in found.folders, "node is not among the system's programs"


def test_program_on_the_path_is_found_with_the_version_that_it_prints(folder: Path) -> None:
    program(folder / "bin" / "claude", "2.0.1 (Claude Code)")
    found = harnesses.find("claude_code")
    assert (found.program, found.version) == (str(folder / "bin/claude"), "2.0.1 (Claude Code)")
    assert found.folders == (str(folder / "bin"),)


def test_program_of_node_without_node_says_so(folder: Path) -> None:
    program(folder / "harnesses/node_modules/.bin/claude")
    (folder / "bin/node").unlink()
    assert "needs Node.js 20 or newer" in harnesses.find("claude_code").problem


def test_adapter_without_a_program_needs_none(folder: Path) -> None:
    assert harnesses.find("scripted") == harnesses.Installed()


def test_capabilities_name_each_harness_and_provider(folder: Path) -> None:
    found = harnesses.capabilities()
    assert found["harnesses"].keys() >= {*NPM, "scripted"}
    assert found["harnesses"]["codex"]["problem"].startswith("codex is not installed")
    assert "ANTHROPIC_API_KEY" in found["providers"]["anthropic"]["problem"]
    assert found["providers"]["local"]["problem"] == ""


def test_capabilities_name_a_server_of_this_machine_that_does_not_answer(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"http://127.0.0.1:{server.getsockname()[1]}/v1"
        (folder / "providers.toml").write_text(
            f'[mine]\nwires = ["messages"]\nbase_url = "{address}"\n'
        )
        assert harnesses.capabilities()["providers"]["mine"]["server"] == ""
    gone = harnesses.capabilities()["providers"]
    assert gone["mine"]["server"].startswith(f"No server answers at {address}: start one")
    assert gone["anthropic"]["server"] == "", "a server elsewhere is not asked"


@pytest.mark.parametrize("adapter", NPM)
def test_default_agent_has_a_known_provider_that_speaks_its_format(
    folder: Path, adapter: str
) -> None:
    known = harnesses.known_providers()
    for spec in load(adapter).SPECS:
        assert spec.model
        assert set(harnesses.harness(adapter).wires) & set(known[spec.provider].wires)
