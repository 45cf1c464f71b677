"""Events that an agent may record in its run: their kinds, ids and spans.

Verdicts, states and spans of submissions are recorded by the arena alone. An error of an agent is
the candidate's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from arena.runs.states import Fault
from arena.runs.trace.events import BadEvent, EventDraft, checked_body

KINDS = frozenset(
    {
        "message", "tool_call", "tool_result", "output_chunk", "file_edit", "profiler_output",
        "span_begin", "span_end", "note", "log", "error", "todo_list",
    }
)  # fmt: skip
SPANS = ("turn", "subagent")
SPAN_FIELDS = frozenset({"span_kind", "title", "note", "ok", "duration_ms", "message"})
"""Fields of an agent's spans; spans of submissions and evaluations are the arena's."""
ID = re.compile(r"agent-[\w.-]{1,80}")


def agent_event(event: Any, number: int) -> EventDraft:
    """Return an event as an agent sent it, the `number`th of its producer.

    Raises: BadEvent for what an agent may not record.
    """
    match event:
        case {"kind": str(kind), "body": dict(body)} if kind in KINDS:
            draft = _draft(event, kind, body, number)
            checked_body(draft)
            return draft
        case _:
            raise BadEvent(f"an event has a body and a kind of {', '.join(sorted(KINDS))}")


def _draft(event: Mapping[str, Any], kind: str, body: dict[str, Any], number: int) -> EventDraft:
    names = {name: event.get(name) or "" for name in ("id", "span", "parent")}
    for name in names.values():
        if name and not ID.fullmatch(name):  # other ids belong to the arena
            raise BadEvent(f"{name!r} is not an agent's id")
    if kind.startswith("span_") and set(body) - SPAN_FIELDS:
        raise BadEvent(f"a span of an agent has only {', '.join(sorted(SPAN_FIELDS))}")
    if kind.startswith("span_") and body.get("span_kind") not in SPANS:
        raise BadEvent(f"an agent's spans are of the kind {' or '.join(SPANS)}")
    if kind == "error":  # whose fault an agent says it is, is the agent's word
        body = {**body, "fault": Fault.CANDIDATE.value}
    names["id"] = names["id"] or f"agent-line-{number}"
    return EventDraft(kind, body, rev=event.get("rev", 0), producer_seq=number, **names)
