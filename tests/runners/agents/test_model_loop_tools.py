"""Tools of the model loop with what a weak model writes: none of it ends the run."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from runners.agents._model_loop.conversations import Call, Result
from runners.agents._model_loop.tools import TOOL_NAMES, Tools
from runners.session.session import AgentSession, TaskBrief

HALF = "\ud83d"
"""The first half of a character, as a model writes it in an escape of JSON."""


@pytest.fixture
def tools(tmp_path: Path) -> Tools:
    (tmp_path / "k.cpp").write_text("int f();\n")
    brief = TaskBrief("k/cpp-to-cpp", "k.cpp", 3, 60)
    return Tools(AgentSession(tmp_path, brief, io.StringIO()), TOOL_NAMES)


def answer(tools: Tools, tool: str, arguments: Mapping[str, Any]) -> Result:
    return tools.answer(Call("one", tool, arguments))


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("shell", {"command": "ls \0"}),
        ("shell", {"command": f"ls {HALF}"}),
        ("shell", {"command": f": {'x' * (1 << 20)}"}),
        ("check", {"note": "mine \0"}),
        ("profile", {"case": HALF}),
        ("read", {"path": "k.cpp\0"}),
        ("read", {"path": HALF}),
        ("write", {"path": "k\0", "text": ""}),
        ("edit", {"path": "k.cpp", "old": HALF, "new": ""}),
        ("edit", {"path": HALF, "old": "f", "new": "g"}),
    ],
)
def test_call_that_cannot_be_done_is_a_failed_result(
    tools: Tools, tool: str, arguments: Mapping[str, Any]
) -> None:
    result = answer(tools, tool, arguments)
    assert not result.ok and result.output
    assert result.output.encode()  # a client library sends it


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [("write", {"text": f"int g(); // {HALF}"}), ("edit", {"old": "f", "new": HALF})],
)
def test_text_without_bytes_leaves_the_file_as_it_was(
    tools: Tools, tmp_path: Path, tool: str, arguments: Mapping[str, Any]
) -> None:
    assert not answer(tools, tool, {"path": "k.cpp", **arguments}).ok
    assert (tmp_path / "k.cpp").read_text() == "int f();\n"


def test_output_with_half_a_character_is_sent_without_it(tools: Tools) -> None:
    result = answer(tools, f"search{HALF}", {})
    assert not result.ok and "There is no tool" in result.output
    assert result.output.encode()
