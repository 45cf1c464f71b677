"""Agent session: its steps become valid events, and its commands end in time."""

from __future__ import annotations

import io
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from arena.runs.trace import events
from arena.runs.trace.events import EventDraft, checked_body
from runners.session.session import (
    MAX_OUTPUT_BYTES,
    AgentSession,
    ArenaFailed,
    CommandResult,
    TaskBrief,
    Usage,
)
from tests.waiting import until


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


def run_over_time(session: AgentSession, command: str) -> tuple[CommandResult, int]:
    """Run a command that prints a process id and does not end; return its result and id.

    A limit that was over before the command printed is replaced by a longer one.
    """
    for seconds in (0.5, 4.0, 32.0):
        result = session.run(command, seconds=seconds)
        pid, _, rest = result.output.partition("\n")
        if pid.isdigit():
            assert (result.code, rest) == (124, f"ended after {seconds:g} seconds")
            return result, int(pid)
    raise AssertionError(result)


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_run_after_its_timeout_kills_the_process_group(tmp_path: Path) -> None:
    out = io.StringIO()
    session = AgentSession(tmp_path, TaskBrief("k/cpp-to-cpp", "k.cpp", 3, 60), out)
    result, pid = run_over_time(session, "sleep 1000 & echo $!; sleep 1000; true")
    until(lambda: not is_alive(pid), "the end of the process group")
    assert json.loads(out.getvalue().splitlines()[-1])["body"]["output"] == result.output
    assert session.run("echo quick; false") == CommandResult(1, "quick\n")


def test_run_does_not_wait_for_processes_in_the_background(tmp_path: Path) -> None:
    session = AgentSession(tmp_path, TaskBrief("k/cpp-to-cpp", "k.cpp", 3, 60), io.StringIO())
    _, away = run_over_time(session, "setsid sleep 1000 & echo $!; sleep 1000")
    begun = session.run("sleep 1000 & echo $!")
    assert begun.code == 0
    for pid in (away, int(begun.output)):
        assert is_alive(pid)
        os.kill(pid, signal.SIGKILL)


def test_run_with_a_large_output_keeps_its_beginning_and_end(tmp_path: Path) -> None:
    session = AgentSession(tmp_path, TaskBrief("k/cpp-to-cpp", "k.cpp", 3, 60), io.StringIO())
    output = session.run(
        "echo first; head -c 5000000 /dev/zero | tr '\\0' x; echo; echo last"
    ).output
    assert output.startswith("first\n") and output.endswith("\nlast\n")
    assert "bytes left out]" in output and len(output) < MAX_OUTPUT_BYTES + 100


@pytest.mark.parametrize("command", ["true \0", "true \ud800", f": {'x' * (1 << 20)}"])
def test_run_of_a_command_that_cannot_be_started_is_a_failed_call(
    tmp_path: Path, command: str
) -> None:
    out = io.StringIO()
    session = AgentSession(tmp_path, TaskBrief("k/cpp-to-cpp", "k.cpp", 3, 60), out)
    result = session.run(command)
    assert result.code == 126 and result.output.startswith("not started: ")
    call, ended = map(json.loads, out.getvalue().splitlines())
    assert (ended["kind"], ended["body"]["call"]) == ("tool_result", call["id"])
    assert (ended["body"]["ok"], ended["body"]["exit_code"]) == (False, 126)


@pytest.mark.parametrize("script", ["", "echo broken", "echo '[1]'", "echo '{}'"])
def test_check_by_a_command_that_the_agent_changed_is_refused(tmp_path: Path, script: str) -> None:
    command = tmp_path / "arena-check"
    command.write_text(f"#!/bin/sh\n{script}\n")
    command.chmod(0o755)
    session = AgentSession(tmp_path, TaskBrief("k/cpp-to-cpp", "k.cpp", 3, 60), io.StringIO())
    verdict = session.check("mine")
    assert verdict.refused and not verdict.passed and verdict.text


def session_with_answers(
    folder: Path, *answers: dict[str, Any]
) -> tuple[AgentSession, io.StringIO]:
    """Return a session whose `arena-check` gives these answers in turn, and its output."""
    for number, answer in enumerate(answers):
        (folder / f"answer-{number}").write_text(json.dumps(answer))
    command = folder / "arena-check"
    command.write_text('#!/bin/sh\nset answer-*\ncat "$1"\nrm "$1"\n')
    command.chmod(0o755)
    out = io.StringIO()
    return AgentSession(folder, TaskBrief("k/cpp-to-cpp", "k.cpp", 20, 60), out), out


INCONCLUSIVE = {"exit": 3, "text": "busy", "rounds_left": 20, "verdict": "inconclusive"}


def test_inconclusive_round_is_submitted_again_with_a_note_in_the_trace(tmp_path: Path) -> None:
    passed = {"exit": 0, "text": "passed", "rounds_left": 19, "speedup": 1.5}
    session, out = session_with_answers(tmp_path, INCONCLUSIVE, INCONCLUSIVE, passed)
    verdict = session.check("mine")
    assert verdict.passed and verdict.speedup == 1.5 and session.rounds_left == 19
    events = [json.loads(line) for line in out.getvalue().splitlines()]
    kinds = [event["kind"] for event in events]
    assert kinds == 2 * ["tool_call", "tool_result", "note"] + ["tool_call", "tool_result"]
    results = [event["body"]["ok"] for event in events if event["kind"] == "tool_result"]
    assert results == [None, None, True], "an inconclusive round is no error"


@pytest.mark.parametrize(
    "answers",
    [
        5 * [INCONCLUSIVE],
        2 * [{**INCONCLUSIVE, "rounds_left": 0}],
        2 * [{"exit": 3, "text": "broken", "rounds_left": 9}],
    ],
    ids=["bound", "no round left", "fault"],
)
def test_round_that_is_not_submitted_again_ends_the_agent(
    tmp_path: Path, answers: list[dict[str, Any]]
) -> None:
    session, _ = session_with_answers(tmp_path, *answers)
    with pytest.raises(ArenaFailed, match=answers[0]["text"]):
        session.check("mine")
    assert len(list(tmp_path.glob("answer-*"))) == 1


def test_check_without_its_command_is_refused(tmp_path: Path) -> None:
    session = AgentSession(tmp_path, TaskBrief("k/cpp-to-cpp", "k.cpp", 3, 60), io.StringIO())
    assert session.check("mine").refused
