"""Tests of the lines that an operator's terminal shows of a run."""

from __future__ import annotations

from typing import Any

import pytest

from arena.runs.display.terminal import line_of, verdict_of
from arena.runs.models import Event, Run
from arena.runs.trace.events import BODIES, EventDraft, checked_body
from arena_client.__main__ import line_of as client_line_of

pytestmark = pytest.mark.django_db
HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b31mred\x1b[0m\rover\x08\u202e\x90q"


def lines(kind: str, **body: Any) -> list[str]:
    """Return the lines of the arena and of the client."""
    whole = checked_body(EventDraft(kind, body))
    event = Event(kind=kind, body=whole, t_ms=1500)
    return [line_of(event), client_line_of({"kind": kind, "body": whole, "t_ms": 1500})]


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("message", {"role": "assistant", "text": HOSTILE}),
        ("tool_call", {"tool": HOSTILE}),
        ("log", {"text": HOSTILE, "level": "error"}),
        ("note", {"text": HOSTILE}),
        ("error", {"message": HOSTILE}),
        ("status", {"state": "failed", "reason": HOSTILE}),
        ("span_begin", {"span_kind": "submission", "round": 1, "files": {HOSTILE: 3},
                        "note": HOSTILE}),
        ("gate_result", {"gate": "compile", "verdict": "failed", "message": HOSTILE}),
        ("compiler_output", {"tool": "g++", "arch": "", "ok": False, "duration_ms": 1.0,
                             "text": HOSTILE}),
    ],
)  # fmt: skip
def test_text_of_an_agent_is_nothing_that_a_terminal_obeys(kind, body):
    assert kind in BODIES
    own, client = lines(kind, **body)
    assert own.isprintable() and "red" in own
    assert all(part.isprintable() for part in client.split("\n"))


def test_note_with_a_line_end_forges_no_line(start):
    forged = "done\n     2.0s  performance     passed"
    own, _ = lines("span_begin", span_kind="submission", round=1, note=forged)
    assert "\n" not in own and own.endswith("done      2.0s  performance     passed")
    run = start()
    run.status, run.reason = Run.Status.FAILED, f"{HOSTILE}\nforged"
    assert verdict_of(run).isprintable()


def test_line_keeps_its_columns():
    assert lines("log", text="late", level="error")[0] == "     1.5s  error: late"
