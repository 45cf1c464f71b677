"""Translator of `cursor-agent -p --output-format stream-json` to events of a run.

Written from its documentation: the program needs an account of its user.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from arena_client.types import EventIn

Record = Mapping[str, Any]

SUFFIX = "ToolCall"
"""End of the name of each tool in its records, such as `shellToolCall`."""
SHELL, TODO_LISTS = "shell", frozenset({"updateTodos", "todoWrite", "writeTodos"})
STATUSES = frozenset({"pending", "in_progress", "completed", "cancelled"})
FAILED = ("error", "failure", "rejected", "fileNotFound", "permissionDenied", "timeout")
"""Names of results of a call that failed."""
TEXTS = ("stdout", "stderr", "content", "output", "message", "error", "reason")
"""Fields of a result that hold text."""


class CursorEvents:
    """Turns each record of the output into the events that it stands for."""

    def __init__(self) -> None:
        self._model = self._reasoning = ""
        self._numbers: dict[str, int] = {}
        """Number of the last call of each name; a name may come again."""
        self._calls = 0

    def __call__(self, record: Record) -> list[EventIn] | None:
        """Return the events of a record; None for one that is unknown."""
        match record:
            case {"type": "system", "subtype": "init"}:
                self._model = str(record.get("model") or "")
                return [_event("note", text="Cursor begins.", detail={"model": self._model})]
            case {"type": "user"} | {"type": "thinking", "subtype": "completed"}:
                return []  # the instruction; the end of what the parts had
            case {"type": "thinking", "text": str(text)}:
                self._reasoning += text
                return []
            case {"type": "assistant", "message": {"content": list(parts)}}:
                return self._message("".join(str(part["text"]) for part in parts if "text" in part))
            case {"type": "tool_call", "call_id": str(call), "tool_call": dict(kinds)}:
                return self._call(call, kinds, record.get("subtype"))
            case {"type": "result"}:
                events = self._message("") if self._reasoning else []
                if record.get("is_error"):
                    reason = str(record.get("result") or "it named no reason")
                    events.append(_event("error", message=f"Cursor gave up: {reason}"))
                return events
        return None

    def _message(self, text: str) -> list[EventIn]:
        """Return a message with the reasoning before it."""
        reasoning, self._reasoning = self._reasoning, ""
        body = {"role": "assistant", "text": text, "reasoning": reasoning, "model": self._model}
        return [_event("message", **body)]

    def _call(self, name: str, kinds: Record, subtype: Any) -> list[EventIn] | None:
        kind = next((key for key in kinds if key.endswith(SUFFIX)), "")
        if kind:
            tool, detail = kind.removesuffix(SUFFIX), kinds[kind]
        elif "function" in kinds:  # a tool without a kind of its own
            detail = kinds["function"]
            tool = str(detail.get("name", "function"))
        else:
            return None
        events = self._message("") if self._reasoning else []
        given = _given(detail)
        if subtype == "started" or name not in self._numbers:
            self._calls += 1
            self._numbers[name] = self._calls
            call = _event("tool_call", tool=tool, arguments=given)
            events.append({**call, "id": f"agent-call-{self._calls}"})
        if subtype == "completed":
            events += self._result(self._numbers.pop(name), tool, given, detail.get("result") or {})
        return events

    def _result(self, call: int, tool: str, given: Record, result: Record) -> list[EventIn]:
        failed = next((name for name in FAILED if name in result), "")
        detail = result.get("success")
        detail = detail if isinstance(detail, dict) else result.get(failed)
        code = detail.get("exitCode") if isinstance(detail, dict) else None
        ok = code == 0 if isinstance(code, int) else None
        if failed or (code is None and "success" in result and tool != SHELL):
            ok = not failed  # of a command without a code, nothing says how it ended
        body = {"call": f"agent-call-{call}", "tool": tool, "ok": ok, "output": _text(detail)}
        events = [_event("tool_result", **body, exit_code=code)]
        if tool in TODO_LISTS and ok:
            todos = [each for each in given.get("todos", ()) if isinstance(each, dict)]
            events.append(_event("todo_list", items=[*map(_todo, todos)]))
        return events


def _event(kind: str, **body: Any) -> EventIn:
    return {"kind": kind, "body": body}


def _given(detail: Record) -> dict[str, Any]:
    """Return the arguments of a call; those of a tool without a kind of its own are a text."""
    given = detail.get("args", detail.get("arguments")) or {}
    return dict(given) if isinstance(given, dict) else {"arguments": given}


def _todo(item: Record) -> dict[str, str]:
    """Return an item of a plan; its status may have the prefix of an enumeration."""
    status = re.sub(r"^todo_status_", "", str(item.get("status")).lower())
    text = str(item.get("content") or "")
    return {"text": text, "status": status if status in STATUSES else "pending"}


def _text(detail: Any) -> str:
    """Return the texts of a result."""
    if not isinstance(detail, dict):
        return str(detail or "")
    return "\n".join(str(detail[name]) for name in TEXTS if detail.get(name))
