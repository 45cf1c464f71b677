"""MCP server of a workspace, spoken to by the library's client over its pipes."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters

from runners.session.control_socket import Answer, ControlSocket
from runners.session.workspace import Workspace
from tests.waiting import PATIENCE_SECONDS

TARGET = "k.cpp"


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace.create(tmp_path / "w", {TARGET: "int a;\n"}, TARGET)


def check(note: str) -> Answer:
    return {"exit": 1, "text": f"round 1: failed WRONG_VALUES ({note})", "rounds_left": 3}


def profile(case: str) -> Answer:
    return {"exit": 0, "text": f"profile of {case or 'the largest case'}"}


def speak(workspace: Workspace, talk: Callable[[Client], Awaitable[Any]]) -> Any:
    """Return the result of `talk` with a client of the workspace's server."""
    command = str(workspace.folder / "arena-mcp")

    async def connect() -> Any:
        async with Client(StdioServerParameters(command=command, cwd="/")) as client:
            return await talk(client)

    return asyncio.run(asyncio.wait_for(connect(), 60))


def text_of(result: Any) -> str:
    (content,) = result.content
    return str(content.text)


def test_server_lists_both_tools_with_their_arguments(workspace: Workspace) -> None:
    async def talk(client: Client) -> Any:
        return (await client.list_tools()).tools

    tools = {tool.name: tool for tool in speak(workspace, talk)}
    assert {name: [*tool.input_schema["properties"]] for name, tool in tools.items()} == {
        "check": ["note"],
        "profile": ["case"],
    }
    assert "one round" in (tools["check"].description or "")


def test_tools_answer_as_the_control_socket_does(workspace: Workspace) -> None:
    async def talk(client: Client) -> Any:
        return [
            text_of(await client.call_tool("check", {"note": "a first try"})),
            text_of(await client.call_tool("profile", {})),
            text_of(await client.call_tool("profile", {"case": "wide"})),
        ]

    with ControlSocket(workspace.folder, check, profile) as control_socket:
        assert speak(workspace, talk) == [
            "round 1: failed WRONG_VALUES (a first try)",
            "profile of the largest case",
            "profile of wide",
        ]
    assert control_socket.failure is None


def test_tool_without_a_control_socket_reports_the_end_of_the_run(workspace: Workspace) -> None:
    async def talk(client: Client) -> Any:
        return text_of(await client.call_tool("check", {}))

    assert "the arena does not answer" in speak(workspace, talk)


def test_waiting_for_a_verdict_sends_progress(workspace: Workspace) -> None:
    script = workspace.folder / "arena-mcp"
    script.write_text(script.read_text().replace("_SECONDS = 10.0", "_SECONDS = 0.2"))
    received: list[float] = []
    enough = threading.Event()

    def slow_check(note: str) -> Answer:
        assert enough.wait(PATIENCE_SECONDS)
        return check(note)

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        received.append(progress)
        if len(received) >= 3:
            enough.set()

    async def talk(client: Client) -> Any:
        return text_of(await client.call_tool("check", {}, progress_callback=on_progress))

    with ControlSocket(workspace.folder, slow_check, profile):
        assert "WRONG_VALUES" in speak(workspace, talk)
    assert len(received) >= 3 and received == sorted(received)


def test_server_runs_with_the_interpreter_of_the_arena(workspace: Workspace) -> None:
    first = (workspace.folder / "arena-mcp").read_text().partition("\n")[0]
    assert first == f"#!{sys.executable} -I"
