"""Gemini CLI's adapter on recorded output and a recorded chat, and its settings."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import ValidationError

from runners.agents.gemini_cli import FOLDER, GeminiEvents, Settings, _settings
from runners.session.session import ModelAccess
from tests.runners.agents.streams import RECORDINGS, Stream


@pytest.fixture
def translators() -> list[GeminiEvents]:
    return []


@pytest.fixture
def stream(tmp_path: Path, translators: list[GeminiEvents]) -> Stream:
    def create(session: Any) -> GeminiEvents:
        translators.append(GeminiEvents(session, tmp_path / FOLDER))
        return translators[-1]

    return Stream(tmp_path, create)


@pytest.fixture
def chat(tmp_path: Path) -> Path:
    folder = tmp_path / FOLDER / "tmp" / "workspace" / "chats"
    folder.mkdir(parents=True)
    return Path(shutil.copy(RECORDINGS / "gemini_cli-chat.jsonl", folder / "session.jsonl"))


def called(tool: str, call: str = "one", **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "tool_name": tool, "tool_id": call, "parameters": arguments}


def answered(status: str = "success", call: str = "one", **fields: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_id": call, "status": status, **fields}


def test_recording_with_its_chat_becomes_messages_calls_and_results(
    stream: Stream, chat: Path
) -> None:
    stream.play("gemini_cli")
    assert stream.unknown() == []
    assert [(m["text"], m["reasoning"]) for m in stream.of("message")] == [
        ("I read.", "First the source."),
        ("Edit.", ""),
        ("A plan.", ""),
        ("Fails.", ""),
        ("It is done.", "Enough."),
    ]
    assert {message["model"] for message in stream.of("message")} == {"play"}
    calls = [(call["tool"], call["arguments"]) for call in stream.of("tool_call")]
    assert [tool for tool, _ in calls] == [
        "run_shell_command", "read_file", "write_file", "write_todos", "run_shell_command",
    ]  # fmt: skip
    assert calls[2][1] == {"file_path": "./k.cpp", "content": "int h();\n"}
    results = [(r["ok"], r["exit_code"], r["output"]) for r in stream.of("tool_result")]
    assert results[0] == (True, 0, "int f();\nint g();")
    assert results[1] == (True, None, "int f();\nint g();\n")
    assert "Successfully overwrote" in results[2][2]
    assert results[3][0] is False and "not found" in results[3][2]
    assert results[4] == (False, 3, "no")
    ids = [event["id"] for event in stream.events if event["kind"] == "tool_call"]
    assert [result["call"] for result in stream.of("tool_result")] == ids


def test_recording_without_its_chat_lacks_only_reasoning_and_exit_codes(stream: Stream) -> None:
    stream.play("gemini_cli")
    assert [m["text"] for m in stream.of("message")][-1] == "It is done."
    assert {m["reasoning"] for m in stream.of("message")} == {""}
    assert {result["exit_code"] for result in stream.of("tool_result")} == {None}
    assert stream.of("todo_list") == []


def test_chat_of_an_unknown_form_is_no_failure(stream: Stream, chat: Path) -> None:
    chat.write_text('{"type": "gemini", "toolCalls": [{"id": "one", "result": 3}]}\nno JSON\n[]\n')
    stream.feed(called("list_directory"), answered(output="k.cpp"))
    (result,) = stream.of("tool_result")
    assert (result["ok"], result["output"]) == (True, "k.cpp")


def test_thoughts_with_a_subject_begin_a_paragraph(stream: Stream, chat: Path) -> None:
    parts = [("Plan", "Read t"), ("", "he source."), ("Then", "Write.")]
    thoughts = [{"subject": subject, "description": text} for subject, text in parts]
    answer = {"type": "gemini", "content": "I go.", "thoughts": thoughts}
    chat.write_text(json.dumps(answer) + "\n")
    said = {"type": "message", "role": "assistant", "content": "I go."}
    stream.feed(said, {"type": "result", "status": "success"})
    (message,) = stream.of("message")
    assert message["reasoning"] == "Plan: Read the source.\n\nThen: Write."


def test_parts_of_a_message_become_one(stream: Stream) -> None:
    part = {"type": "message", "role": "assistant", "delta": True}
    stream.feed({**part, "content": "I re"}, {**part, "content": "ad."})
    (message,) = stream.of("message")
    assert message["text"] == "I read."


def test_plan_is_a_todo_list(stream: Stream) -> None:
    todos = [
        {"description": "Read", "status": "completed"},
        {"description": "Write", "status": "in_progress"},
    ]
    stream.feed(called("write_todos", todos=todos), answered())
    (plan,) = stream.of("todo_list")
    assert [(item["text"], item["status"]) for item in plan["items"]] == [
        ("Read", "completed"),
        ("Write", "in_progress"),
    ]


def test_refused_request_is_the_failure(stream: Stream, translators: list[GeminiEvents]) -> None:
    stream.play("gemini_cli-refused")
    assert stream.unknown() == []
    assert "I am a teapot" in translators[0].failure


def test_limit_of_turns_is_no_failure(stream: Stream, translators: list[GeminiEvents]) -> None:
    error = {"type": "FatalTurnLimitedError", "message": "Reached max session turns for this."}
    stream.feed({"type": "result", "status": "error", "error": error})
    assert (translators[0].failure, translators[0].at_limit) == ("", True)
    (log,) = stream.of("log")
    assert (log["text"], log["level"]) == (error["message"], "warning")


def test_unknown_records_are_log_lines(stream: Stream) -> None:
    stream.feed({"type": "from.the.future"}, {"type": "message", "role": "assistant"})
    assert len(stream.unknown()) == 2


def test_settings_leave_it_no_other_model() -> None:
    model = ModelAccess("gemini-x", "http://gateway", "token", ("generate-content",))
    session: Any = SimpleNamespace(model=model)
    configuration = _settings(session, Settings())["modelConfigs"]
    overrides = configuration["customOverrides"]
    assert {each["modelConfig"]["model"] for each in overrides} == {"gemini-x"}
    assert {each["match"]["overrideScope"] for each in overrides} >= {"core", "generalist"}
    resolved = configuration["modelIdResolutions"]
    assert resolved == {"gemini-x": {"default": "gemini-x", "contexts": []}}


@pytest.mark.parametrize("wrong", [{"max_turns": "many"}, {"effort": "low"}])
def test_wrong_settings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Settings.model_validate(wrong)
