"""mini-swe-agent's adapter on recorded messages, and its settings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from runners.agents.mini_swe_agent import FOLDER, MAX_TOKENS, MiniEvents, Settings, work
from tests.runners.agents.streams import Stream

SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"


@pytest.fixture
def translators() -> list[MiniEvents]:
    return []


@pytest.fixture
def stream(tmp_path: Path, translators: list[MiniEvents]) -> Stream:
    def create(session: Any) -> MiniEvents:
        translators.append(MiniEvents(session))
        return translators[-1]

    return Stream(tmp_path, create)


def records_not_understood(stream: Stream) -> list[str]:
    """Return what was not understood, without the lines that the program prints for people."""
    return [text for text in stream.unknown() if text.startswith("{")]


def test_recording_becomes_messages_calls_and_results(
    stream: Stream, translators: list[MiniEvents]
) -> None:
    stream.play("mini_swe_agent")
    assert records_not_understood(stream) == []
    messages = [(m["text"], m["reasoning"], m["stop_reason"]) for m in stream.of("message")]
    assert messages == [
        ("I read.", "First the source.", "tool_calls"),
        ("Edit.", "", "tool_calls"),
        ("Again.", "", "tool_calls"),
        ("Fails.", "", "tool_calls"),
        ("", "Enough.", "tool_calls"),
    ]
    calls = [(call["tool"], call["arguments"]["command"]) for call in stream.of("tool_call")]
    assert {tool for tool, _ in calls} == {"bash"}
    assert calls[0][1] == "cat k.cpp" and calls[-1][1] == SUBMIT
    results = [(r["ok"], r["exit_code"], r["output"]) for r in stream.of("tool_result")]
    assert results[0] == (True, 0, "int f();\nint g();\n")
    assert results[-2:] == [(False, 3, "no\n"), (True, 0, "")]
    ids = [event["id"] for event in stream.events if event["kind"] == "tool_call"]
    assert [result["call"] for result in stream.of("tool_result")] == ids
    assert translators[0].failure == ""


def test_answers_without_a_call_are_messages_with_their_refusals(
    stream: Stream, translators: list[MiniEvents]
) -> None:
    stream.play("mini_swe_agent-words")
    messages = [(m["role"], m["text"][:16]) for m in stream.of("message")]
    assert messages == [("assistant", "Only words."), ("user", "Tool call error:")] * 3
    assert translators[0].failure == ""
    assert any("called no tool" in log["text"] for log in stream.of("log"))


def test_refused_request_is_the_failure(stream: Stream, translators: list[MiniEvents]) -> None:
    stream.play("mini_swe_agent-refused")
    assert "I am a teapot" in translators[0].failure


def test_command_that_was_ended_has_no_success(stream: Stream) -> None:
    function = {"name": "bash", "arguments": json.dumps({"command": "sleep 9"})}
    extra = {"raw_output": "some", "returncode": -1, "exception_info": "it timed out"}
    stream.feed(
        {"role": "assistant", "content": None, "tool_calls": [{"id": "one", "function": function}]},
        {"role": "tool", "tool_call_id": "one", "content": "", "extra": extra},
    )
    (result,) = stream.of("tool_result")
    assert (result["ok"], result["output"]) == (False, "some\nit timed out")


def test_limit_of_turns_is_no_failure(stream: Stream, translators: list[MiniEvents]) -> None:
    limit = {"exit_status": "LimitsExceeded", "submission": ""}
    stream.feed({"role": "exit", "content": "LimitsExceeded", "extra": limit})
    assert translators[0].failure == ""
    assert [log["level"] for log in stream.of("log")] == ["warning"]


def test_unknown_records_are_log_lines(stream: Stream) -> None:
    stream.feed({"role": "oracle"}, {"role": "tool"})
    assert len(records_not_understood(stream)) == 2


@pytest.mark.parametrize("wrong", [{"max_turns": "many"}, {"effort": "huge"}])
def test_wrong_settings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Settings.model_validate(wrong)


def test_malformed_calls_are_calls_with_their_refusal_as_result(stream: Stream) -> None:
    calls = [
        {"id": "one", "function": {"name": "bash", "arguments": '{"command": "ls'}},
        {"id": "two", "function": {"name": None, "arguments": "{}"}},
    ]
    choice = {"finish_reason": "length", "message": {"content": "I list.", "tool_calls": calls}}
    extra = {"interrupt_type": "FormatError", "response": {"choices": [choice]}}
    stream.feed({"role": "user", "content": "Tool call error: cut", "extra": extra})
    assert records_not_understood(stream) == []
    (message,) = stream.of("message")
    assert (message["text"], message["stop_reason"]) == ("I list.", "length")
    made = [(call["tool"], call["arguments"]) for call in stream.of("tool_call")]
    assert made == [("bash", {"arguments": '{"command": "ls'}), ("", {})]
    results = [(r["ok"], r["output"]) for r in stream.of("tool_result")]
    assert results == [(False, "Tool call error: cut")] * 2
    ids = [event["id"] for event in stream.events if event["kind"] == "tool_call"]
    assert [result["call"] for result in stream.of("tool_result")] == ids


def configured(stream: Stream, tmp_path: Path, settings: dict[str, Any]) -> dict[str, Any]:
    """Return the configuration that a program gets, which writes its words into a file."""
    program = tmp_path / "mini-swe-agent"
    program.write_text('#!/bin/sh\necho "$@" > words\n')
    program.chmod(0o755)
    stream.session.program = str(program)
    work(stream.session, settings)
    found: dict[str, Any] = json.loads((tmp_path / FOLDER / "arena.yaml").read_text())
    return found


@pytest.mark.parametrize(("limit", "sent"), [(0, MAX_TOKENS), (500, 500)])
def test_limit_of_an_answer_is_that_of_the_settings(
    stream: Stream, tmp_path: Path, limit: int, sent: int
) -> None:
    written = configured(stream, tmp_path, {"max_output_tokens": limit})
    assert written["model"]["model_kwargs"]["max_tokens"] == sent


def test_command_that_the_model_wrote_as_text_is_a_call_with_its_result(
    stream: Stream, translators: list[MiniEvents]
) -> None:
    for command, code in (("ls", 0), (SUBMIT, None)):
        extra = {"actions": [{"command": command}], "response": {"choices": []}}
        stream.feed({"role": "assistant", "content": f"THOUGHT: {command}.", "extra": extra})
        if code is not None:
            extra = {"raw_output": "k.cpp\n", "returncode": code, "exception_info": ""}
            stream.feed({"role": "user", "content": "<returncode>0", "extra": extra})
    stream.feed({"role": "exit", "content": "", "extra": {"exit_status": "Submitted"}})
    assert records_not_understood(stream) == []
    assert [each["text"] for each in stream.of("message")] == [
        "THOUGHT: ls.",
        f"THOUGHT: {SUBMIT}.",
    ]
    calls = [(call["tool"], call["arguments"]["command"]) for call in stream.of("tool_call")]
    assert calls == [("bash", "ls"), ("bash", SUBMIT)]
    results = [(r["ok"], r["exit_code"], r["output"]) for r in stream.of("tool_result")]
    assert results == [(True, 0, "k.cpp\n"), (True, 0, "")]
    ids = [event["id"] for event in stream.events if event["kind"] == "tool_call"]
    assert [result["call"] for result in stream.of("tool_result")] == ids
    assert translators[0].failure == ""


@pytest.mark.parametrize("text_mode", [False, True])
def test_text_mode_has_its_own_configuration(
    stream: Stream, tmp_path: Path, text_mode: bool
) -> None:
    written = configured(stream, tmp_path, {"text_mode": text_mode})
    assert (written["model"].get("model_class") == "litellm_textbased") is text_mode
    assert ("mini_textbased.yaml" in (tmp_path / "words").read_text()) is text_mode
