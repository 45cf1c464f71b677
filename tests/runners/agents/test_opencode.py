"""OpenCode's adapter on recorded output, and its settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from runners.agents.opencode import OpenCodeEvents, Settings
from tests.runners.agents.streams import Stream


@pytest.fixture
def translators() -> list[OpenCodeEvents]:
    return []


@pytest.fixture
def stream(tmp_path: Path, translators: list[OpenCodeEvents]) -> Stream:
    def create(session: Any) -> OpenCodeEvents:
        translators.append(OpenCodeEvents(session))
        return translators[-1]

    return Stream(tmp_path, create)


def test_recording_becomes_messages_calls_and_results(stream: Stream) -> None:
    stream.play("opencode")
    assert stream.unknown() == []
    messages = [(m["text"], m["reasoning"], m["stop_reason"]) for m in stream.of("message")]
    assert messages == [
        ("I read.", "First the source.", "tool-calls"),
        ("Edit.", "", "tool-calls"),
        ("A plan.", "", "tool-calls"),
        ("Fails.", "", "tool-calls"),
        ("It is done.", "Enough.", "stop"),
    ]
    assert {message["model"] for message in stream.of("message")} == {"m"}
    calls = [(call["tool"], call["arguments"]) for call in stream.of("tool_call")]
    assert [tool for tool, _ in calls] == ["bash", "bash", "bash", "todowrite", "bash"]
    assert calls[0][1]["command"] == "cat k.cpp"
    results = [(r["ok"], r["exit_code"], r["output"]) for r in stream.of("tool_result")]
    assert results[0] == (True, 0, "int f();\nint g();\n")
    assert results[-1] == (False, 3, "no\n")
    ids = [event["id"] for event in stream.events if event["kind"] == "tool_call"]
    assert [result["call"] for result in stream.of("tool_result")] == ids
    assert all(result["duration_ms"] >= 0 for result in stream.of("tool_result"))


def test_plan_is_a_todo_list(stream: Stream) -> None:
    stream.play("opencode")
    (plan,) = stream.of("todo_list")
    assert [(item["text"], item["status"]) for item in plan["items"]] == [
        ("Read", "completed"),
        ("Write", "pending"),
    ]


def test_failed_call_has_its_error(stream: Stream) -> None:
    state = {"status": "error", "input": {"filePath": "k.cpp"}, "error": "no such file"}
    part = {"callID": "one", "tool": "read", "state": state}
    stream.feed({"type": "tool_use", "part": part})
    (result,) = stream.of("tool_result")
    assert (result["ok"], result["exit_code"], result["output"]) == (False, None, "no such file")


def test_refused_request_is_the_failure(stream: Stream, translators: list[OpenCodeEvents]) -> None:
    stream.play("opencode-refused")
    assert stream.unknown() == []
    assert translators[0].failure == "model: nosuch is not known"


def test_error_that_a_later_answer_follows_is_no_failure(
    stream: Stream, translators: list[OpenCodeEvents]
) -> None:
    finish = {"messageID": "one", "reason": "stop"}
    stream.feed({"type": "error", "error": {"name": "UnknownError"}})
    assert translators[0].failure == "UnknownError"
    stream.feed({"type": "step_finish", "part": finish})
    assert translators[0].failure == ""


def test_unknown_records_are_log_lines(stream: Stream) -> None:
    stream.feed({"type": "from.the.future"}, {"type": "text", "part": {}})
    assert len(stream.unknown()) == 2


@pytest.mark.parametrize("wrong", [{"context_tokens": "many"}, {"effort": "low"}])
def test_wrong_settings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Settings.model_validate(wrong)
