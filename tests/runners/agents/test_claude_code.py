"""Claude Code's adapter on recorded output, and its settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from runners.agents._parts.stream_json import StreamJson
from runners.agents.claude_code import Settings, environment
from tests.runners.agents.streams import MODEL, Stream

CALL = {"type": "tool_use", "id": "call_1", "name": "TodoWrite"}


@pytest.fixture
def translators() -> list[StreamJson]:
    return []


@pytest.fixture
def stream(tmp_path: Path, translators: list[StreamJson]) -> Stream:
    def create(session: Any) -> StreamJson:
        translators.append(StreamJson(session, "Claude Code"))
        return translators[-1]

    return Stream(tmp_path, create)


def assistant(*content: Any, **more: Any) -> dict[str, Any]:
    message = {"id": "msg_1", "model": "m", "role": "assistant", "content": list(content)}
    return {"type": "assistant", "message": message, "parent_tool_use_id": None, **more}


def user(*content: Any, **more: Any) -> dict[str, Any]:
    message = {"role": "user", "content": list(content)}
    return {"type": "user", "message": message, "parent_tool_use_id": None, **more}


def result_of(call: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call, "content": content, **more}


def test_recording_becomes_messages_calls_and_results(stream: Stream) -> None:
    stream.play("claude_code")
    assert stream.unknown() == []
    (note,) = stream.of("note")
    assert note["text"] == "Claude Code 2.1.330" and "Bash" in note["detail"]["tools"]
    own = [m for m in stream.of("message") if m["role"] == "assistant"]
    assert [(m["text"], m["reasoning"]) for m in own] == [
        ("I read.", "First the source."),
        ("A subagent.", ""),
        ("I look.", ""),
        ("It has two lines.", ""),
        ("Edit.", ""),
        ("Fails.", ""),
        ("It is done.", ""),
    ]
    assert own[-1]["stop_reason"] == "end_turn"
    tools = [call["tool"] for call in stream.of("tool_call")]
    assert tools == [
        "Bash", "Read", "Task", "TaskCreate", "Bash", "Write", "TaskUpdate", "TodoWrite", "Bash",
    ]  # fmt: skip
    results = {result["call"]: result for result in stream.of("tool_result")}
    first, *_, last = [event["id"] for event in stream.events if event["kind"] == "tool_call"]
    assert (results[first]["ok"], results[first]["output"]) == (True, "int f();\nint g();")
    failed = results[last]
    assert (failed["ok"], failed["exit_code"]) == (False, 3)
    assert failed["output"] == "Exit code 3\nno"
    assert stream.of("todo_list") == [], "the calls of tools that are not there changed no list"


def test_events_of_a_subagent_are_in_its_span(stream: Stream) -> None:
    stream.play("claude_code")
    (begin,) = [event for event in stream.events if event["kind"] == "span_begin"]
    (end,) = [event for event in stream.events if event["kind"] == "span_end"]
    assert begin["body"]["title"] == "Count lines" and end["body"]["ok"] is True
    inside = [event for event in stream.events if event["span"] == begin["span"]]
    assert {event["kind"] for event in inside} == {
        "span_begin", "message", "tool_call", "tool_result", "span_end",
    }  # fmt: skip
    (call,) = [event for event in inside if event["kind"] == "tool_call"]
    assert call["body"]["arguments"]["command"] == "wc -l k.cpp"
    prompt = [e["body"] for e in inside if e["kind"] == "message" and e["body"]["role"] == "user"]
    assert [message["text"] for message in prompt] == ["COUNT THE LINES"]


def test_subagent_in_the_background_ends_with_its_notification(stream: Stream) -> None:
    task = {"type": "tool_use", "id": "call_1", "name": "Task", "input": {"description": "Look"}}
    stream.feed(assistant(task))
    started = user(result_of("call_1", "started"), tool_use_result={"status": "async_launched"})
    stream.feed(started)
    assert stream.of("span_end") == []
    told = {"tool_use_id": "call_1", "status": "failed", "summary": "No."}
    stream.feed({"type": "system", "subtype": "task_notification", **told})
    (end,) = stream.of("span_end")
    assert (end["ok"], end["message"]) == (False, "No.")


def test_todo_list_is_recorded_whole_when_a_call_changed_it(stream: Stream) -> None:
    todos = [
        {"content": "Read", "status": "completed", "activeForm": "Reading"},
        {"content": "Write", "status": "in_progress", "activeForm": "Writing"},
    ]
    stream.feed(assistant({**CALL, "input": {"todos": todos}}), user(result_of("call_1", "ok")))
    (listed,) = stream.of("todo_list")
    assert [(item["text"], item["status"]) for item in listed["items"]] == [
        ("Read", "completed"),
        ("Write", "in_progress"),
    ]


def test_tasks_are_added_and_changed_by_number(stream: Stream) -> None:
    calls = (
        ("TaskCreate", {"subject": "Read", "description": ""}),
        ("TaskCreate", {"subject": "Write", "description": ""}),
        ("TaskUpdate", {"taskId": "1", "status": "completed"}),
        ("TaskUpdate", {"taskId": "9", "status": "completed"}),
        ("TaskUpdate", {"taskId": "2", "status": "deleted"}),
    )
    for number, (name, given) in enumerate(calls):
        block = {"type": "tool_use", "id": f"call_{number}", "name": name, "input": given}
        stream.feed(assistant(block), user(result_of(f"call_{number}", "ok")))
    (listed,) = stream.of("todo_list")
    assert [(item["text"], item["status"]) for item in listed["items"]] == [
        ("Read", "completed"),
        ("Write", "cancelled"),
    ]


def test_unknown_records_and_blocks_are_log_lines(stream: Stream) -> None:
    stream.feed(
        {"type": "from_the_future", "x": 1},
        {"type": "system", "subtype": "from_the_future"},
        assistant({"type": "hologram"}),
        {"type": "assistant", "message": None},
        {"no": "type"},
    )
    unknown = stream.unknown()
    assert len(unknown) == 5
    assert "from_the_future" in unknown[0] and "(unknown record)" in unknown[0]
    assert "(not understood: " in unknown[3]


def test_result_with_parts_names_those_that_are_no_text(stream: Stream) -> None:
    block = {**CALL, "name": "Read", "input": {"file_path": "plot.png"}}
    content = [{"type": "text", "text": "a plot"}, {"type": "image", "source": {}}]
    stream.feed(assistant(block), user(result_of("call_1", content)))
    (result,) = stream.of("tool_result")
    assert result["output"] == "a plot\n[image]" and result["exit_code"] is None


def test_refused_request_is_the_failure(stream: Stream, translators: list[StreamJson]) -> None:
    stream.play("claude_code-refused")
    assert stream.unknown() == []
    assert translators[0].failure == "API Error: 418 I am a teapot"


def test_limit_of_turns_is_an_end_in_order(stream: Stream, translators: list[StreamJson]) -> None:
    stream.feed({"type": "result", "subtype": "error_max_turns", "is_error": True, "num_turns": 3})
    assert translators[0].failure == "" and translators[0].at_limit
    (log,) = stream.of("log")
    assert "limit of its settings" in log["text"]


def test_retry_of_a_request_is_a_warning(stream: Stream) -> None:
    stream.feed({"type": "system", "subtype": "api_retry", "attempt": 1, "error_status": 529})
    (log,) = stream.of("log")
    assert (log["level"], log["stream"]) == ("warning", "provider") and "529" in log["text"]


def test_every_model_of_the_environment_is_that_of_the_run() -> None:
    found = environment(MODEL)
    models = {value for name, value in found.items() if name.startswith("ANTHROPIC_DEFAULT")}
    assert models == {found["CLAUDE_CODE_SUBAGENT_MODEL"]} == {"m"}
    assert found["ANTHROPIC_BASE_URL"] == MODEL.url and found["ANTHROPIC_API_KEY"] == MODEL.token


@pytest.mark.parametrize("wrong", [{"effort": "huge"}, {"max_turns": -1}, {"unknown": 1}])
def test_wrong_settings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Settings.model_validate(wrong)


def test_heartbeat_of_a_tool_is_no_log_line(stream: Stream) -> None:
    stream.feed({"type": "tool_progress", "tool_use_id": "one", "elapsed_time_seconds": 30})
    assert stream.events == []
