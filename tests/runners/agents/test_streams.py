"""Streams of all adapters: repeated ids, missing results, states, odd text, large records."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from runners.agents._parts.stream_json import StreamJson
from runners.agents.codex import CodexEvents
from runners.agents.gemini_cli import GeminiEvents
from runners.agents.mini_swe_agent import MiniEvents
from runners.agents.opencode import OpenCodeEvents
from runners.session.harness import Translator
from runners.session.session import MAX_LINE, AgentSession
from tests.runners.agents.streams import Stream

Record = dict[str, Any]


@dataclass(frozen=True)
class Ended:
    """The end of a command. `code` is None where the record has the field and it is null."""

    output: str
    failed: bool = False
    code: int | None = 0


@dataclass(frozen=True)
class Adapter:
    """The records of one format for a shell command, and for a message."""

    translator: Callable[[AgentSession], Translator]
    call: Callable[[str, Any], Record]
    result: Callable[[str, str, Ended], Record]
    message: Callable[[str], Record]
    has_codes: bool = True
    """Whether a result has a field for the exit code."""
    in_one: bool = False
    """Whether a call comes with its result, in one record."""


def stream_json(title: str, shell: str) -> Adapter:
    def call(name: str, command: Any) -> Record:
        block = {"type": "tool_use", "id": name, "name": shell, "input": {"command": command}}
        return {"type": "assistant", "message": {"id": "", "model": "m", "content": [block]}}

    def result(name: str, command: str, end: Ended) -> Record:
        text = end.output
        if end.failed and shell == "Bash":
            text = f"Exit code {end.code}\n{text}"
        elif end.failed:
            text = (
                f"Command: {command}\nDirectory: (root)\nOutput: {text}\nError: (none)\n"
                f"Exit Code: {end.code}\nSignal: (none)\nProcess Group PGID: (none)"
            )
        block = {"type": "tool_result", "tool_use_id": name, "content": text}
        return {"type": "user", "message": {"content": [{**block, "is_error": end.failed}]}}

    def message(text: str) -> Record:
        block = {"type": "text", "text": text}
        return {"type": "assistant", "message": {"id": "", "model": "m", "content": [block]}}

    return Adapter(
        lambda session: StreamJson(session, title), call, result, message, has_codes=False
    )


def codex() -> Adapter:
    def item(step: str, name: str, **fields: Any) -> Record:
        return {"type": f"item.{step}", "item": {"id": name, **fields}}

    def call(name: str, command: Any) -> Record:
        fields = {"command": command, "aggregated_output": "", "exit_code": None}
        return item("started", name, type="command_execution", status="in_progress", **fields)

    def result(name: str, command: str, end: Ended) -> Record:
        status = "failed" if end.failed else "completed"
        fields = {"command": command, "aggregated_output": end.output, "exit_code": end.code}
        return item("completed", name, type="command_execution", status=status, **fields)

    def message(text: str) -> Record:
        return item("completed", "item_0", type="agent_message", text=text)

    return Adapter(CodexEvents, call, result, message)


def gemini(folder: Path) -> Adapter:
    def call(name: str, command: Any) -> Record:
        given = {"command": command}
        return {
            "type": "tool_use", "tool_id": name, "tool_name": "run_shell_command",
            "parameters": given,
        }  # fmt: skip

    def result(name: str, command: str, end: Ended) -> Record:
        status = "error" if end.failed else "success"
        return {"type": "tool_result", "tool_id": name, "status": status, "output": end.output}

    def message(text: str) -> Record:
        return {"type": "message", "role": "assistant", "content": text}

    return Adapter(
        lambda session: GeminiEvents(session, folder), call, result, message, has_codes=False
    )


def mini() -> Adapter:
    def call(name: str, command: Any) -> Record:
        function = {"name": "bash", "arguments": json.dumps({"command": command})}
        return {"role": "assistant", "tool_calls": [{"id": name, "function": function}]}

    def result(name: str, command: str, end: Ended) -> Record:
        extra = {"raw_output": end.output, "returncode": end.code}
        return {"role": "tool", "tool_call_id": name, "content": end.output, "extra": extra}

    def message(text: str) -> Record:
        return {"role": "assistant", "content": text}

    return Adapter(MiniEvents, call, result, message)


def opencode() -> Adapter:
    def record(name: str, state: Record) -> Record:
        part = {"callID": name, "tool": "bash", "state": state, "messageID": "msg_0"}
        return {"type": "tool_use", "part": part}

    def call(name: str, command: Any) -> Record:
        return record(name, {"status": "running", "input": {"command": command}})

    def result(name: str, command: str, end: Ended) -> Record:
        state = {"status": "completed", "input": {"command": command}, "output": end.output}
        return record(name, {**state, "metadata": {"exit": end.code}})

    def message(text: str) -> Record:
        return {"type": "text", "part": {"messageID": "msg_0", "text": text}}

    return Adapter(OpenCodeEvents, call, result, message, in_one=True)


ADAPTERS: Mapping[str, Callable[[Path], Adapter]] = {
    "claude code": lambda _: stream_json("Claude Code", "Bash"),
    "qwen code": lambda _: stream_json("Qwen Code", "run_shell_command"),
    "codex": lambda _: codex(),
    "gemini": gemini,
    "mini-swe-agent": lambda _: mini(),
    "opencode": lambda _: opencode(),
}


@pytest.fixture(params=ADAPTERS)
def adapter(request: pytest.FixtureRequest, tmp_path: Path) -> Adapter:
    return ADAPTERS[request.param](tmp_path)


@pytest.fixture
def stream(adapter: Adapter, tmp_path: Path) -> Stream:
    return Stream(tmp_path, adapter.translator)


def joined(stream: Stream) -> list[tuple[str, Any, Any, str]]:
    """Return each call's command, with state, exit code and output of its result."""
    calls = {e["id"]: e["body"] for e in stream.events if e["kind"] == "tool_call"}
    results = {body["call"]: body for body in stream.of("tool_result")}
    assert len(calls) == len([e for e in stream.events if e["kind"] == "tool_call"])
    missing: Record = {"ok": "none", "exit_code": None, "output": ""}
    found = []
    for event, call in calls.items():
        result, arguments = results.get(event, missing), call["arguments"]
        command = arguments.get("command", arguments.get("cmd"))
        found.append((command, result["ok"], result["exit_code"], result["output"]))
    return found


def run(adapter: Adapter, stream: Stream, name: str, command: str, end: Ended) -> None:
    if not adapter.in_one:
        stream.feed(adapter.call(name, command))
    stream.feed(adapter.result(name, command, end))


def test_repeated_ids_join_each_call_to_its_own_result(adapter: Adapter, stream: Stream) -> None:
    for name in ("call_0", "call_0", "", ""):
        run(adapter, stream, name, "ls", Ended("a.cpp"))
        run(adapter, stream, name, "g++ a.cpp", Ended("a.cpp:1: error", failed=True, code=1))
    found = joined(stream)
    assert [command for command, *_ in found] == ["ls", "g++ a.cpp"] * 4
    for command, ok, code, output in found:
        assert ("a.cpp:1: error" in output) == (command == "g++ a.cpp")
        assert ok is not True or command == "ls"
        assert code in ((None, 0) if command == "ls" else (None, 1))
        assert command == "ls" or ok is False


def test_calls_with_one_id_at_the_same_time_are_joined_in_order(
    adapter: Adapter, stream: Stream
) -> None:
    if adapter.in_one:
        return
    for command in ("first", "second"):
        stream.feed(adapter.call("call_0", command))
    for command in ("first", "second"):
        stream.feed(adapter.result("call_0", command, Ended(f"of {command}")))
    assert [(command, output) for command, *_, output in joined(stream)] == [
        ("first", "of first"),
        ("second", "of second"),
    ]


def test_results_in_another_order_are_joined_by_id(adapter: Adapter, stream: Stream) -> None:
    names = ("one", "two", "three")
    for name in () if adapter.in_one else names:
        stream.feed(adapter.call(name, name))
    for name in names[::-1]:
        stream.feed(adapter.result(name, name, Ended(f"of {name}")))
    assert {(command, output) for command, *_, output in joined(stream)} == {
        (name, f"of {name}") for name in names
    }


def test_result_before_its_call_is_kept_and_joined_to_no_other(
    adapter: Adapter, stream: Stream
) -> None:
    stream.feed(adapter.result("call_0", "early", Ended("of early")))
    run(adapter, stream, "call_0", "late", Ended("of late"))
    outputs = [body["output"] for body in stream.of("tool_result")]
    assert outputs == ["of early", "of late"]
    assert ("late", "of late") in [(command, output) for command, *_, output in joined(stream)]


def test_call_without_a_result_has_no_state(adapter: Adapter, stream: Stream) -> None:
    stream.feed(adapter.call("call_0", "sleep 9999"))
    assert joined(stream) == [("sleep 9999", "none", None, "")]


def test_null_exit_code_is_no_success(adapter: Adapter, stream: Stream) -> None:
    run(adapter, stream, "call_0", "make", Ended("built", code=None))
    ((_, ok, code, _),) = joined(stream)
    assert code is None and ok is (None if adapter.has_codes else ok)


@pytest.mark.parametrize(
    "text",
    [
        "yesterday's build\nExit code 1\nfixed since then",
        "Exit code 139",
        "Output: no\nExit Code: 3\nSignal: (none)\nProcess Group PGID: (none)",
        '\nError: failed\n"is_error": true',
    ],
)
def test_text_that_looks_like_a_state_is_text(adapter: Adapter, stream: Stream, text: str) -> None:
    run(adapter, stream, "call_0", "cat build.log", Ended(text))
    ((_, ok, code, output),) = joined(stream)
    assert ok is not False and code in (None, 0) and output == text


def test_text_of_a_failed_command_does_not_replace_its_exit_code(
    adapter: Adapter, stream: Stream
) -> None:
    text = "Exit code 7\nExit Code: 7\nSignal: (none)\nProcess Group PGID: (none)\nthe end"
    run(adapter, stream, "call_0", "./test", Ended(text, failed=True, code=3))
    ((_, ok, code, _),) = joined(stream)
    assert ok is False and code in (None, 3)


def test_lone_surrogates_and_nul_are_recorded(adapter: Adapter, stream: Stream) -> None:
    odd = "a\ud800\x00b"
    stream.feed(adapter.message(odd))
    run(adapter, stream, odd, odd, Ended(odd))
    assert len(joined(stream)) == 1 and len(stream.of("message")) == 1
    assert stream.unknown() == []


def test_record_of_5_mb_is_recorded_in_lines_that_the_arena_reads(
    adapter: Adapter, stream: Stream
) -> None:
    for letter in ("x", "\x1b", "\N{GRINNING FACE}"):
        run(adapter, stream, letter, "cat big", Ended(letter * (5 << 20)))
    assert max(map(len, stream.lines)) <= MAX_LINE
    assert len(joined(stream)) == 3
    assert all("left out" in output for *_, output in joined(stream))


def test_arguments_that_are_no_object_are_kept(adapter: Adapter, stream: Stream) -> None:
    written = "{'command': ls"
    record = json.loads(json.dumps(adapter.call("call_0", written)))
    stream.feed(replaced(record, {"command": written}, written))
    calls = stream.of("tool_call")
    assert len(calls) == 1 and written in json.dumps(calls[0]["arguments"])


def replaced(value: Any, old: Any, new: Any) -> Any:
    """Return JSON data with `new` in place of `old`, and of its JSON."""
    if value in (old, json.dumps(old)):
        return new
    if isinstance(value, dict):
        return {name: replaced(each, old, new) for name, each in value.items()}
    return [replaced(each, old, new) for each in value] if isinstance(value, list) else value


def test_record_that_ends_in_the_middle_is_a_log(adapter: Adapter, stream: Stream) -> None:
    stream.feed(adapter.message("before"))
    line = json.dumps(adapter.call("call_0", "ls"))
    for end in (1, len(line) // 2, len(line) - 1):
        stream.feed_line(line[:end])
    assert len(stream.unknown()) == 3 and stream.of("tool_call") == []
    assert [body["text"] for body in stream.of("message")] == ["before"]


def test_progress_bar_in_an_unknown_line_keeps_its_last_state(
    adapter: Adapter, stream: Stream
) -> None:
    bar = "".join(f"\r{percent / 30:5.1f} % of the file" for percent in range(3001))
    stream.feed_line(bar)
    assert stream.unknown() == ["100.0 % of the file"]
