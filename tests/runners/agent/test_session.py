"""What an agent does at its desk is told as events that the arena takes."""

from __future__ import annotations

import io
import json
import time
from pathlib import Path
from typing import Any

from arena.runs.trace import events
from arena.runs.trace.events import EventDraft, checked_body
from runners.agent.session import AgentSession, Ran, TaskBrief, Usage


def told(desk_does: Any, folder: Path) -> dict[str, Any]:
    """Return the body of its one event, as the arena keeps it."""
    out = io.StringIO()
    desk_does(AgentSession(folder, TaskBrief("k/cpp-to-cpp", "k.cpp", 3, 60), out))
    (event,) = map(json.loads, out.getvalue().splitlines())
    return checked_body(EventDraft(event["kind"], event["body"]))


def test_a_message_says_which_model_it_is_of_and_what_it_took_and_cost(tmp_path: Path) -> None:
    body = told(
        lambda session: session.say(
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
    assert body["usage"] == {"input_tokens": 900, "output_tokens": 80, "cached_tokens": 700}
    assert body["cost_usd"] == 0.012


def test_a_message_of_no_model_costs_nothing_that_is_known(tmp_path: Path) -> None:
    body = told(lambda session: session.say("I begin."), tmp_path)
    assert body == events.Message(role="assistant", text="I begin.").model_dump()


def test_a_command_that_takes_too_long_ends_with_what_it_started(tmp_path: Path) -> None:
    out = io.StringIO()
    session = AgentSession(tmp_path, TaskBrief("k/cpp-to-cpp", "k.cpp", 3, 60), out)
    begun = time.monotonic()
    ran = session.run("echo begun; (sleep 2; touch late) & sleep 60; true", seconds=0.5)
    assert (ran.code, ran.output) == (124, "begun\nended after 0.5 seconds")
    assert time.monotonic() - begun < 2
    time.sleep(2)
    assert not (tmp_path / "late").exists()
    assert json.loads(out.getvalue().splitlines()[-1])["body"]["output"] == ran.output
    assert session.run("echo quick; false") == Ran(1, "quick\n")
    begun = time.monotonic()
    away = session.run("echo away; setsid sleep 5 & sleep 60", seconds=0.5)
    assert (away.code, away.output) == (124, "away\nended after 0.5 seconds")
    assert session.run("sleep 5 & echo begun").output == "begun\n"
    assert time.monotonic() - begun < 3, "what goes on beside it is not waited for"
