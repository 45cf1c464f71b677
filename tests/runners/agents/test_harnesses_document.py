"""The document on harnesses: its example works, and its table has every harness and version."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import runners.agents
from runners.agents import Harness, Spec
from runners.gateway import providers
from tests.runners.agents.streams import Stream
from tests.runners.house import ROOT

DOCUMENT = ROOT / "docs" / "harnesses.md"
HELPER = """#!/bin/sh
echo "{\\"say\\": \\"effort $2, $OPENAI_BASE_URL\\"}"
echo 'int h();' > k.cpp
echo '{"ran": "./arena-check", "printed": "WRONG_VALUES", "status": 1}'
echo '{"else": 1}'
"""


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.+?)```", DOCUMENT.read_text(), re.DOTALL)


@pytest.fixture
def example(tmp_path: Path) -> ModuleType:
    (source,) = blocks("python")
    path = tmp_path / "helper.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location("helper", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_example_translates_the_output_of_its_program(example: ModuleType, tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    program = tmp_path / "helper"
    program.write_text(HELPER)
    program.chmod(0o755)
    stream = Stream(workspace, lambda _: lambda _: False)
    stream.session.program = str(program)
    example.work(stream.session, {"effort": "high"})
    (message,) = stream.of("message")
    assert message["text"] == "effort high, http://127.0.0.1:8400/v1"
    (call,), (result,) = stream.of("tool_call"), stream.of("tool_result")
    assert call["arguments"] == {"command": "./arena-check"}
    assert (result["ok"], result["exit_code"]) == (False, 1)
    assert [edit["path"] for edit in stream.of("file_edit")] == ["k.cpp"]
    assert len(stream.unknown()) == 1


def test_example_has_all_that_the_catalogue_reads(example: ModuleType) -> None:
    assert isinstance(example.HARNESS, Harness)
    assert all(isinstance(spec, Spec) for spec in example.SPECS)
    assert example.SPECS[0].provider in providers.load()
    assert example.Settings.model_json_schema()["properties"]["effort"]["default"] == "low"


def test_configurations_of_providers_are_valid(tmp_path: Path) -> None:
    texts = blocks("toml")
    assert len(texts) == 2
    for text in texts:
        (tmp_path / "providers.toml").write_text(text)
        assert providers.load(tmp_path / "providers.toml")


def rows() -> dict[str, str]:
    """Return the rows of the table by their program."""
    lines = re.findall(r"^\| (?!harness|-)(.+) \|$", DOCUMENT.read_text(), re.MULTILINE)
    return {line.split(" | ")[1].strip("`"): line for line in lines}


def test_table_has_every_program_with_its_package_and_wire_formats() -> None:
    found = [runners.agents.harness(name) for name in runners.agents.names()]
    programs = [harness for harness in found if harness.program]
    assert {harness.program for harness in programs} == rows().keys() - {"none"}
    for harness in programs:
        row = rows()[harness.program]
        assert f"`{harness.package}`" in row or not harness.package
        assert ", ".join(harness.wires) in row


def test_table_has_the_pinned_versions() -> None:
    pinned: dict[str, Any] = json.loads((ROOT / "runners/harnesses/package.json").read_text())
    python = re.findall(
        r"^([\w-]+)==([\d.]+)$",
        (ROOT / "runners/harnesses/requirements.in").read_text(),
        re.MULTILINE,
    )
    versions = {**pinned["dependencies"], **{n: v for n, v in python if n == "mini-swe-agent"}}
    text = DOCUMENT.read_text()
    assert [f"`{name}` {version}" for name, version in versions.items()
            if f"`{name}` {version}" not in text] == []  # fmt: skip
