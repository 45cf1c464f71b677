"""Codex's adapter on recorded output, and its settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from runners.agents.codex import CodexEvents, Settings, script_of
from tests.runners.agents.streams import Stream


@pytest.fixture
def translators() -> list[CodexEvents]:
    return []


@pytest.fixture
def stream(tmp_path: Path, translators: list[CodexEvents]) -> Stream:
    def create(session: Any) -> CodexEvents:
        translators.append(CodexEvents(session))
        return translators[-1]

    return Stream(tmp_path, create)


def item(stage: str, **fields: Any) -> dict[str, Any]:
    return {"type": f"item.{stage}", "item": {"id": "item_1", **fields}}


def test_recording_becomes_messages_calls_and_results(stream: Stream) -> None:
    stream.play("codex")
    assert stream.unknown() == []
    assert [(m["text"], m["reasoning"]) for m in stream.of("message")] == [
        ("I read.", "First the source."),
        ("A plan.", ""),
        ("Edit.", ""),
        ("Fails.", ""),
        ("It is done.", "Enough."),
    ]
    assert {message["model"] for message in stream.of("message")} == {"m"}
    calls = [(call["tool"], call["arguments"]) for call in stream.of("tool_call")]
    assert calls == [
        ("exec_command", {"cmd": "cat k.cpp"}),
        ("apply_patch", {"changes": [{"path": "/workspace/k.cpp", "kind": "add"}]}),
        ("exec_command", {"cmd": "echo no >&2; sleep 12; exit 3"}),
    ]
    results = stream.of("tool_result")
    assert [(r["ok"], r["exit_code"], r["output"]) for r in results] == [
        (True, 0, "int f();\nint g();\n"),
        (True, None, ""),
        (False, 3, "no\n"),
    ]
    ids = [event["id"] for event in stream.events if event["kind"] == "tool_call"]
    assert [result["call"] for result in results] == ids


def test_refused_request_is_the_failure(stream: Stream, translators: list[CodexEvents]) -> None:
    stream.play("codex-refused")
    assert stream.unknown() == []
    assert translators[0].failure.startswith("unexpected status 418 I'm a teapot")
    retries = [log for log in stream.of("log") if "Reconnecting" in log["text"]]
    assert len(retries) == 5 and {log["level"] for log in retries} == {"warning"}


def test_error_that_a_later_answer_follows_is_no_failure(
    stream: Stream, translators: list[CodexEvents]
) -> None:
    stream.feed({"type": "error", "message": "Reconnecting... 1/5"})
    assert translators[0].failure == "Reconnecting... 1/5"
    stream.feed(item("completed", type="agent_message", text="I go on."))
    assert translators[0].failure == ""


def test_failure_in_a_providers_body_is_its_message(
    stream: Stream, translators: list[CodexEvents]
) -> None:
    body = '{"error": {"message": "The model is not known.", "type": "invalid_request_error"}}'
    stream.feed({"type": "turn.failed", "error": {"message": body}})
    assert translators[0].failure == "The model is not known."


def test_plan_is_a_todo_list_each_time_that_it_changes(stream: Stream) -> None:
    first = [{"text": "Read", "completed": False}, {"text": "Write", "completed": False}]
    then = [{"text": "Read", "completed": True}, {"text": "Write", "completed": False}]
    stream.feed(
        item("started", type="todo_list", items=first),
        item("updated", type="todo_list", items=then),
    )
    lists = [event for event in stream.events if event["kind"] == "todo_list"]
    assert len(lists) == 2
    (last,) = stream.of("todo_list")
    assert [entry["status"] for entry in last["items"]] == ["completed", "pending"]


def test_call_of_an_mcp_server_is_recorded_once_with_its_result(stream: Stream) -> None:
    call = {"type": "mcp_tool_call", "server": "arena", "tool": "check", "arguments": {"note": "n"}}
    content = [{"type": "text", "text": "passed"}]
    stream.feed(
        item("started", **call, status="in_progress"),
        item("completed", **call, status="completed", result={"content": content}),
    )
    (made,) = stream.of("tool_call")
    assert (made["tool"], made["arguments"]) == ("arena.check", {"note": "n"})
    (result,) = stream.of("tool_result")
    assert (result["ok"], result["output"]) == (True, "passed")


def test_failed_call_of_an_mcp_server_has_its_error(stream: Stream) -> None:
    call = {"type": "mcp_tool_call", "server": "arena", "tool": "check", "arguments": None}
    stream.feed(item("completed", **call, status="failed", error={"message": "no server"}))
    (result,) = stream.of("tool_result")
    assert (result["ok"], result["output"]) == (False, "no server")


def test_unknown_records_and_items_are_log_lines(stream: Stream) -> None:
    stream.feed(
        {"type": "from.the.future"},
        item("completed", type="hologram"),
        {"type": "item.completed", "item": {}},
    )
    assert len(stream.unknown()) == 3


@pytest.mark.parametrize(
    ("command", "script"),
    [
        ("/bin/bash -lc 'echo \"it'\\''s\"'", 'echo "it\'s"'),
        ("bash -lc ls", "ls"),
        ("python3 run.py", "python3 run.py"),
        ("echo 'open", "echo 'open"),
    ],
)
def test_script_of_a_shell_command_is_unquoted(command: str, script: str) -> None:
    assert script_of(command) == script


@pytest.mark.parametrize("wrong", [{"effort": "huge"}, {"mcp": "perhaps"}, {"unknown": 1}])
def test_wrong_settings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Settings.model_validate(wrong)
