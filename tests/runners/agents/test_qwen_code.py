"""Qwen Code's adapter on recorded output, and its settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from runners.agents._parts.stream_json import StreamJson
from runners.agents.qwen_code import Settings
from tests.runners.agents.streams import Stream


@pytest.fixture
def translators() -> list[StreamJson]:
    return []


@pytest.fixture
def stream(tmp_path: Path, translators: list[StreamJson]) -> Stream:
    def create(session: Any) -> StreamJson:
        translators.append(StreamJson(session, "Qwen Code"))
        return translators[-1]

    return Stream(tmp_path, create)


def test_recording_becomes_messages_calls_and_results(stream: Stream) -> None:
    stream.play("qwen_code")
    assert stream.unknown() == []
    (note,) = stream.of("note")
    assert note["text"] == "Qwen Code 0.24.4"
    own = [m for m in stream.of("message") if m["role"] == "assistant"]
    assert [(m["text"], m["reasoning"]) for m in own][:5] == [
        ("I read.", "First the source."),
        ("A subagent.", ""),
        ("Edit.", ""),
        ("Fails.", ""),
        ("It is done.", ""),
    ]
    assert [call["tool"] for call in stream.of("tool_call")] == [
        "run_shell_command", "read_file", "agent", "todo_write", "write_file", "run_shell_command",
    ]  # fmt: skip
    results = stream.of("tool_result")
    assert (results[0]["output"], results[0]["ok"]) == ("int f();\nint g();", True)
    assert (results[-1]["ok"], results[-1]["exit_code"]) == (False, 3)


def test_subagent_in_the_background_ends_with_its_notification(stream: Stream) -> None:
    stream.play("qwen_code")
    kinds = [
        (event["kind"], event["body"].get("tool") or event["body"].get("title", ""))
        for event in stream.events
        if event["kind"] in ("span_begin", "tool_result", "span_end")
    ]
    assert kinds.index(("span_begin", "Count lines")) < kinds.index(("tool_result", "agent"))
    assert kinds.index(("span_end", "")) > kinds.index(("tool_result", "write_file"))
    (end,) = stream.of("span_end")
    assert end["ok"] is True


def test_refused_request_is_the_failure(stream: Stream, translators: list[StreamJson]) -> None:
    stream.play("qwen_code-refused")
    assert translators[0].failure == "[API Error: 418 I am a teapot]"


@pytest.mark.parametrize("wrong", [{"max_turns": "many"}, {"effort": "low"}])
def test_wrong_settings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Settings.model_validate(wrong)
