"""Agent session: its steps become valid events, and its commands end in time."""

from __future__ import annotations

import io
import json
import time
from pathlib import Path
from typing import Any

from arena.runs.trace import events
from arena.runs.trace.events import EventDraft, checked_body
from runners.agent.session import (
    MAX_OUTPUT_BYTES,
    AgentSession,
    CommandResult,
    TaskBrief,
    Usage,
)


def recorded(step: Any, folder: Path) -> dict[str, Any]:
    """Return the body of its one event, as the arena keeps it."""
    out = io.StringIO()
    step(AgentSession(folder, TaskBrief("k/cpp-to-cpp", "k.cpp", 3, 60), out))
    (event,) = map(json.loads, out.getvalue().splitlines())
    return checked_body(EventDraft(event["kind"], event["body"]))


def test_message_of_a_model_has_its_name_usage_and_cost(tmp_path: Path) -> None:
    body = recorded(
        lambda session: session.message(
            "Wider tiles.",
            reasoning="Memory bounds it.",
            model="m-1",
            usage=Usage(input_tokens=900, output_tokens=80, cached_tokens=700),
            cost_usd=0.012,
        ),
        tmp_path,
    )
    assert (body["role"], body["text"]) == ("assistant", "Wider tiles.")
    assert (body["reasoning"], body["model"]) == ("Memory bounds it.", "m-1")
    usage = {"input_tokens": 900, "output_tokens": 80, "cached_tokens": 700}
    assert body["usage"] == {**usage, "cache_write_tokens": 0, "reasoning_tokens": 0}
    assert body["cost_usd"] == 0.012


def test_message_without_a_model_has_unknown_cost(tmp_path: Path) -> None:
    body = recorded(lambda session: session.message("I begin."), tmp_path)
    assert body == events.Message(role="assistant", text="I begin.").model_dump()


def test_run_after_its_timeout_kills_the_process_group(tmp_path: Path) -> None:
    out = io.StringIO()
    session = AgentSession(tmp_path, TaskBrief("k/cpp-to-cpp", "k.cpp", 3, 60), out)
    begun = time.monotonic()
    result = session.run("echo begun; (sleep 2; touch late) & sleep 60; true", seconds=0.5)
    assert (result.code, result.output) == (124, "begun\nended after 0.5 seconds")
    assert time.monotonic() - begun < 2
    time.sleep(2)
    assert not (tmp_path / "late").exists()
    assert json.loads(out.getvalue().splitlines()[-1])["body"]["output"] == result.output
    assert session.run("echo quick; false") == CommandResult(1, "quick\n")
    begun = time.monotonic()
    away = session.run("echo away; setsid sleep 5 & sleep 60", seconds=0.5)
    assert (away.code, away.output) == (124, "away\nended after 0.5 seconds")
    assert session.run("sleep 5 & echo begun").output == "begun\n"
    assert time.monotonic() - begun < 3, "background processes are not waited for"


def test_run_with_a_large_output_keeps_its_beginning_and_end(tmp_path: Path) -> None:
    session = AgentSession(tmp_path, TaskBrief("k/cpp-to-cpp", "k.cpp", 3, 60), io.StringIO())
    output = session.run(
        "echo first; head -c 5000000 /dev/zero | tr '\\0' x; echo; echo last"
    ).output
    assert output.startswith("first\n") and output.endswith("\nlast\n")
    assert "bytes left out]" in output and len(output) < MAX_OUTPUT_BYTES + 100


def test_run_records_its_call_under_a_given_id(tmp_path: Path) -> None:
    out = io.StringIO()
    session = AgentSession(tmp_path, TaskBrief("k/cpp-to-cpp", "k.cpp", 3, 60), out)
    session.run("true", event="agent-call-7")
    call, result = map(json.loads, out.getvalue().splitlines())
    assert (call["id"], result["body"]["call"]) == ("agent-call-7", "agent-call-7")
