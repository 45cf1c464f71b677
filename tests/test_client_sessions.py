"""Tests of sessions of harnesses that were run elsewhere: read from their files, loaded as runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from django.core.cache import cache

from arena.accounts.models import ApiToken
from arena.runs.models import Run
from arena_client import sessions
from arena_client.__main__ import PASSED, USAGE, main
from arena_client.sessions import UnknownSession

HOSTILE = "<script>alert(1)</script>\x1b[31m"


def at(second: int) -> str:
    return f"2026-11-02T10:00:{second:02d}.000Z"


def claude(kind: str, second: int, content: Any, **message: Any) -> Mapping[str, Any]:
    told = {"role": kind, "content": content, **message}
    return {"type": kind, "timestamp": at(second), "sessionId": "s", "message": told}


def block(of: str, **more: Any) -> list[dict[str, Any]]:
    return [{"type": of, **more}]


USAGE_OF_ANSWER = {
    "input_tokens": 10,
    "cache_read_input_tokens": 600,
    "cache_creation_input_tokens": 90,
    "output_tokens": 50,
}
ANSWER = {"id": "msg_1", "model": "claude-sonnet-4-5", "usage": USAGE_OF_ANSWER}
CLAUDE_CODE = [
    {"type": "summary", "summary": "Faster sums", "leafUuid": "u"},
    claude("user", 0, "Make it fast."),
    claude("assistant", 4, block("thinking", thinking="It waits for memory."), **ANSWER),
    claude("assistant", 4, block("text", text="I read the kernel."), **ANSWER),
    claude(
        "assistant", 5, block("tool_use", id="toolu_1", name="Bash", input={"command": "make"}),
        **ANSWER,
    ),
    claude(
        "user", 7,
        block("tool_result", tool_use_id="toolu_1", content=HOSTILE, is_error=True),
    ),
]  # fmt: skip


def codex(kind: str, second: int, **payload: Any) -> Mapping[str, Any]:
    return {"timestamp": at(second), "type": kind, "payload": payload}


CODEX = [
    codex("session_meta", 0, id="s", cwd="/w", cli_version="0.50.0"),
    codex("turn_context", 0, model="gpt-5-codex"),
    codex("response_item", 0, type="message", role="developer", content="rules"),
    codex(
        "response_item", 0, type="message", role="user",
        content=block("input_text", text="Make it fast."),
    ),
    codex(
        "response_item", 3, type="reasoning",
        summary=block("summary_text", text="It waits for memory."),
    ),
    codex(
        "response_item", 4, type="message", role="assistant",
        content=block("output_text", text="I read the kernel."),
    ),
    codex("event_msg", 4, type="agent_message", message="I read the kernel."),
    codex(
        "response_item", 5, type="function_call", name="shell", call_id="call_1",
        arguments=json.dumps({"command": ["bash", "-lc", "make"]}),
    ),
    codex(
        "response_item", 7, type="function_call_output", call_id="call_1",
        output=json.dumps({"output": HOSTILE, "metadata": {"exit_code": 2}}),
    ),
    codex(
        "event_msg", 7, type="token_count",
        info={"last_token_usage": {
            "input_tokens": 700, "cached_input_tokens": 600, "output_tokens": 50,
            "reasoning_output_tokens": 20,
        }},
    ),
]  # fmt: skip

OPENCODE = {
    "info": {"id": "ses_1", "title": "Faster sums", "version": "1.0.0"},
    "messages": [
        {
            "info": {"id": "m1", "role": "user"},
            "parts": block("text", text="Make it fast."),
        },
        {
            "info": {
                "id": "m2",
                "role": "assistant",
                "modelID": "qwen3-coder",
                "cost": 0.02,
                "tokens": {
                    "input": 10,
                    "output": 30,
                    "reasoning": 20,
                    "cache": {"read": 600, "write": 90},
                },
            },
            "parts": [
                {"type": "step-start"},
                {"type": "reasoning", "text": "It waits for memory."},
                {"type": "text", "text": "I read the kernel."},
                {
                    "type": "tool",
                    "callID": "call_1",
                    "tool": "bash",
                    "state": {"status": "error", "input": {"command": "make"}, "error": HOSTILE},
                },
            ],
        },
    ],
}
FILES = {
    "Claude Code": ("\n".join(map(json.dumps, CLAUDE_CODE)), "claude-sonnet-4-5"),
    "Codex": ("\n".join(map(json.dumps, CODEX)), "gpt-5-codex"),
    "OpenCode": (json.dumps(OPENCODE, indent=2), "qwen3-coder"),
}


@pytest.fixture(params=FILES)
def session_file(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Path]:
    """Return the name of a harness and a file with a session of it."""
    path = tmp_path / "session"
    path.write_text(FILES[request.param][0])
    return request.param, path


def bodies(session: sessions.Session, kind: str) -> list[Any]:
    return [event["body"] for event in session.events if event["kind"] == kind]


def test_session_has_messages_calls_results_and_usage(session_file: tuple[str, Path]) -> None:
    harness, path = session_file
    found = sessions.read(path)
    assert (found.harness, found.model) == (harness, FILES[harness][1])
    messages = bodies(found, "message")
    assert [m["text"] for m in messages if m["text"]] == ["Make it fast.", "I read the kernel."]
    assert [m["reasoning"] for m in messages if "reasoning" in m] == ["It waits for memory."]
    [usage] = [m["usage"] for m in messages if "usage" in m]
    assert (usage["input_tokens"], usage["cached_tokens"], usage["output_tokens"]) == (700, 600, 50)
    [call], [result] = bodies(found, "tool_call"), bodies(found, "tool_result")
    assert "make" in json.dumps(call["arguments"])
    assert result["ok"] is False and result["output"] == HOSTILE
    [name] = [event["id"] for event in found.events if event["kind"] == "tool_call"]
    assert result["call"] == name and name.startswith("agent-")


@pytest.mark.parametrize("harness", ["Claude Code", "Codex"])
def test_times_of_records_are_durations(harness: str, tmp_path: Path) -> None:
    path = tmp_path / "session"
    path.write_text(FILES[harness][0])
    assert bodies(sessions.read(path), "tool_result")[0]["duration_ms"] == 2000.0


def test_cut_last_line_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "session"
    path.write_text(FILES["Codex"][0] + '\n{"timestamp": "2026')
    assert len(sessions.read(path).events) == 5


def test_missing_file_is_refused_with_the_words_of_submit(tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "nope.jsonl"
    assert main(["session", "relu/cpp-to-cpp", str(path)]) == USAGE
    session = capsys.readouterr().err
    assert main(["submit", "relu/cpp-to-cpp", str(path)]) == USAGE
    message = f"arena: {path} cannot be read: No such file or directory\n"
    assert session == capsys.readouterr().err == message


@pytest.mark.parametrize("text", ["", "no JSON", "[1, 2]", '{"type": "user"}', '{"messages": [1]}'])
def test_other_file_is_refused(text: str, tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "session"
    path.write_text(text)
    with pytest.raises(UnknownSession):
        sessions.read(path)
    assert main(["session", "relu/cpp-to-cpp", str(path)]) == USAGE
    assert str(path) in capsys.readouterr().err


@pytest.mark.django_db(transaction=True)
def test_session_becomes_a_run_with_a_trace(
    session_file: tuple[str, Path],
    task: Any,
    hardware: Any,
    live_server: Any,
    client: Any,
    alice: Any,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Any,
) -> None:
    cache.clear()
    _, secret = ApiToken.issue(alice, "sessions", ["ingest", "read"])
    monkeypatch.setenv("ARENA_URL", live_server.url)
    monkeypatch.setenv("ARENA_TOKEN", secret)
    harness, path = session_file
    assert main(["session", "relu/cpp-to-cpp", str(path)]) == PASSED
    run = Run.objects.get()
    assert run.agent.title.startswith(harness) and run.ended and run.owner == alice
    assert f"/runs/{run.pk}/" in capsys.readouterr().out
    client.force_login(alice)
    page = client.get(f"/runs/{run.pk}/?tab=trace").content.decode()
    assert "I read the kernel." in page and "&lt;script&gt;" in page
    assert "<script>alert" not in page and "\x1b" not in page
