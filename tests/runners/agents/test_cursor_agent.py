"""Cursor's adapter on a stream that was written from its documentation; it was never recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from runners.agents.cursor_agent import HARNESS, SPECS, CursorEvents, Settings
from runners.gateway import providers
from tests.runners.agents.streams import Stream


@pytest.fixture
def translators() -> list[CursorEvents]:
    return []


@pytest.fixture
def stream(tmp_path: Path, translators: list[CursorEvents]) -> Stream:
    def create(session: Any) -> CursorEvents:
        translators.append(CursorEvents(session))
        return translators[-1]

    return Stream(tmp_path, create)


def called(kind: str, subtype: str = "completed", **detail: Any) -> dict[str, Any]:
    call = {kind: detail}
    return {"type": "tool_call", "subtype": subtype, "call_id": "one", "tool_call": call}


def test_documented_stream_becomes_messages_calls_and_results(stream: Stream) -> None:
    stream.play("cursor_agent-documented")
    assert stream.unknown() == []
    assert [(m["text"], m["reasoning"]) for m in stream.of("message")] == [
        ("I read.", "First the source."),
        ("It is done.", ""),
    ]
    calls = [(call["tool"], call["arguments"]) for call in stream.of("tool_call")]
    assert [tool for tool, _ in calls] == ["read", "write", "shell"]
    assert calls[2][1] == {"command": "./arena-check"}
    results = [(r["ok"], r["exit_code"], r["output"]) for r in stream.of("tool_result")]
    assert results == [
        (True, None, "int f();\n"),
        (True, None, ""),
        (False, 1, "WRONG_VALUES"),
    ]
    ids = [event["id"] for event in stream.events if event["kind"] == "tool_call"]
    assert [result["call"] for result in stream.of("tool_result")] == ids


def test_failed_call_has_its_error(stream: Stream) -> None:
    stream.feed(called("readToolCall", args={}, result={"error": {"message": "no such file"}}))
    (result,) = stream.of("tool_result")
    assert (result["ok"], result["output"]) == (False, "no such file")


def test_tool_without_a_kind_has_its_own_name(stream: Stream) -> None:
    stream.feed(called("function", "started", name="lookup", arguments='{"word": "cuda"}'))
    (call,) = stream.of("tool_call")
    assert (call["tool"], call["arguments"]) == ("lookup", {"arguments": '{"word": "cuda"}'})


def test_plan_is_a_todo_list(stream: Stream) -> None:
    todos = [{"content": "Read", "status": "TODO_STATUS_COMPLETED"}, {"content": "Write"}]
    stream.feed(called("updateTodosToolCall", args={"todos": todos}, result={"success": {}}))
    (plan,) = stream.of("todo_list")
    assert [item["status"] for item in plan["items"]] == ["completed", "pending"]


def test_result_with_an_error_is_the_failure(
    stream: Stream, translators: list[CursorEvents]
) -> None:
    stream.feed({"type": "result", "subtype": "error", "is_error": True, "result": "no credit"})
    assert translators[0].failure == "no credit"


def test_unknown_records_are_log_lines(stream: Stream) -> None:
    stream.feed({"type": "from.the.future"}, called("hologram"))
    assert len(stream.unknown()) == 2


def test_no_provider_can_be_configured_for_it(tmp_path: Path) -> None:
    known = providers.load(tmp_path / "providers.toml")
    assert SPECS[0].provider not in known
    assert not any(set(HARNESS.wires) & set(provider.wires) for provider in known.values())
    assert "cannot run yet" in SPECS[0].description


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(ValidationError):
        Settings.model_validate({"effort": "low"})
