"""Translator of `stream-json`, the output of Claude Code and of Qwen Code, to events of a run.

A record has a `type`: `system`, `assistant`, `user` or `result`. The first two of a conversation
hold the content blocks of the Messages API. Records of a subagent name the call that started it.
Claude Code speaks no Agent Client Protocol, so that of Qwen Code would replace none of this:
docs/adr/0029.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from runners.session.calls import Call
from runners.session.harness import Record, Translator

if TYPE_CHECKING:
    from runners.session.session import AgentSession


SUBAGENTS = frozenset({"Task", "Agent", "agent", "task"})
TODO_LISTS = frozenset({"TodoWrite", "todo_write"})
STATUSES = frozenset({"pending", "in_progress", "completed", "cancelled"})
BACKGROUND = ("async_launched", "Background agent launched")
"""Status in a result's detail, and beginning of its text, of a subagent that goes on.

A notification tells its end.
"""
PROGRESS = frozenset({"thinking_tokens", "task_started", "task_progress", "task_updated", "status"})
"""System records without content of their own: only the raw output keeps them."""
_EXIT_CODES = {
    "Bash": re.compile(r"\AExit code (\d+)(?=\n|\Z)"),
    "run_shell_command": re.compile(
        r"\nExit Code: (\d+)\nSignal: [^\n]*\nProcess Group PGID: [^\n]*\s*\Z"
    ),
}
"""Exit code in the error of a command: the first line, or at the end after the output."""


class StreamJson(Translator):
    """Records each record of one program's output as events of a session."""

    def __init__(self, session: AgentSession, title: str) -> None:
        super().__init__(session)
        self._title = title
        self._message: dict[str, Any] = {}
        """Message that further blocks can be added to, with its event."""
        self._spans: dict[str, list[str]] = {}
        """Spans of subagents that have not ended, by the id of their call, in order."""
        self._subagents: dict[Call, str] = {}
        """Spans of subagents by their call."""
        self._tasks: list[dict[str, str]] = []

    def __call__(self, record: Record) -> bool:
        match record.get("type"):
            case "system":
                return self._system(record)
            case "assistant":
                return self._assistant(record)
            case "user":
                return self._user(record)
            case "result":
                self._result(record)
                return True
            case "stream_event" | "tool_progress":  # a part of a later record, or a heartbeat
                return True
        return False

    def _system(self, record: Record) -> bool:
        match record.get("subtype"):
            case "init":
                version = record.get("claude_code_version") or record.get("qwen_code_version") or ""
                text = f"{self._title} {version}".strip()
                known = ("model", "tools", "mcp_servers", "agents")
                self._session.note(text, **{name: record[name] for name in known if name in record})
            case "compact_boundary":
                self._session.note("The conversation was compacted.", **_detail(record))
            case "api_retry":
                error = record.get("error") or record.get("error_status") or "no answer"
                text = f"The model did not answer ({error}); {self._title} tries again."
                self._session.log(text, level="warning", stream="provider")
            case "task_notification":
                task = record.get("data") or record
                call, status = str(task.get("tool_use_id")), task.get("status")
                if spans := self._spans.get(call):
                    done = status == "completed" if isinstance(status, str) else None
                    self._end_subagent(call, spans[0], done, str(task.get("summary", "")))
            case str(subtype):
                return subtype in PROGRESS
            case _:
                return False
        return True

    def _assistant(self, record: Record) -> bool:
        message, span = record["message"], self._span(record)
        known = True
        for block in _blocks(message.get("content")):
            match block:
                case {"type": "text", "text": str(text)}:
                    self._add_block(message, span, text=text)
                case {"type": "thinking", "thinking": str(text)}:
                    self._add_block(message, span, reasoning=text)
                case {"type": "redacted_thinking"}:
                    self._add_block(message, span, reasoning="(hidden by the provider)")
                case {"type": "tool_use" | "server_tool_use", "id": str(call), "name": str(tool)}:
                    self._call(call, tool, block.get("input"), span)
                case {"type": str(kind)} if kind.endswith("_tool_result"):
                    self._answer(block, span, None)
                case _:
                    known = False
        return known

    def _add_block(self, message: Record, span: str, text: str = "", reasoning: str = "") -> None:
        """Record a block of text or reasoning; those of one answer become one message."""
        if not (text or reasoning):
            return
        last, name = self._message, message.get("id")
        same = last.get("span") == span and (
            last["id"] == name or (text and not last["text"] and not last["called"])
        )
        if not same:
            last = {"id": name, "span": span, "text": "", "reasoning": "", "event": ""}
            last["called"] = False
            self._message = last
        last["text"] = "\n\n".join(filter(None, (last["text"], text)))
        last["reasoning"] = "\n\n".join(filter(None, (last["reasoning"], reasoning)))
        last["model"] = str(message.get("model", ""))
        self._record_message(str(message.get("stop_reason") or ""))

    def _record_message(self, stop_reason: str) -> None:
        last = self._message
        last["event"] = self._session.message(
            last["text"],
            reasoning=last["reasoning"],
            model=last["model"],
            stop_reason=stop_reason,
            event=last["event"],
            span=last["span"],
        )

    def _call(self, name: str, tool: str, arguments: Any, span: str) -> None:
        if self._message:
            self._message["called"] = True
        call = self._calls.begin(name, tool, arguments, span=span)
        if tool in SUBAGENTS:
            given = call.arguments
            title = str(given.get("description") or given.get("subagent_type") or tool)
            child = self._session.begin_span("subagent", title, parent=span)
            self._spans.setdefault(name, []).append(child)
            self._subagents[call] = child

    def _follow_plan(self, tool: str, arguments: Record, span: str) -> None:
        """Record the todo list that a call changed."""
        if tool in TODO_LISTS:
            todos = [each for each in arguments.get("todos", ()) if isinstance(each, dict)]
            self._tasks = [todo(each.get("content"), each.get("status")) for each in todos]
        elif tool == "TaskCreate":
            self._tasks.append(todo(arguments.get("subject"), "pending"))
        elif tool == "TaskUpdate":
            number = str(arguments.get("taskId", ""))
            if not (number.isdecimal() and 0 < int(number) <= len(self._tasks)):
                return
            before = self._tasks[int(number) - 1]
            status = arguments.get("status") or before["status"]
            status = "cancelled" if status == "deleted" else status
            self._tasks[int(number) - 1] = todo(arguments.get("subject") or before["text"], status)
        else:
            return
        self._session.todo_list(self._tasks, span=span)

    def _user(self, record: Record) -> bool:
        span = self._span(record)
        self._message = {}
        known = True
        for block in _blocks(record["message"].get("content")):
            match block:
                case {"type": "tool_result"}:
                    self._answer(block, span, record.get("tool_use_result"))
                case {"type": "text", "text": str(text)}:
                    self._session.message(text, role="user", span=span)
                case _:
                    known = False
        return known

    def _answer(self, block: Record, span: str, detail: Any) -> None:
        name, output = str(block.get("tool_use_id", "")), _text(block.get("content"))
        stated = block.get("is_error", False)  # the format's default
        ok = not stated if isinstance(stated, bool) else None
        call = self._calls.find(name)
        code = _exit_code(call.tool, output) if call and ok is False else None
        self._calls.end(name, output, ok=ok, exit_code=code, span=span)
        if call is None:
            return
        if ok:
            self._follow_plan(call.tool, call.arguments, span)
        status = detail.get("status") if isinstance(detail, dict) else ""
        goes_on = status == BACKGROUND[0] or output.startswith(BACKGROUND[1])
        child = self._subagents.pop(call, "")
        if child in self._spans.get(name, ()) and not goes_on:
            self._end_subagent(name, child, ok, "")

    def _end_subagent(self, name: str, span: str, ok: bool | None, text: str) -> None:
        self._spans[name].remove(span)
        self._session.end_span(span, "subagent", ok=ok, message=text)

    def _result(self, record: Record) -> None:
        for name, spans in self._spans.items():
            for span in [*spans]:
                self._end_subagent(name, span, None, "It had not ended.")
        stop_reason = str(record.get("stop_reason") or "")
        if stop_reason and self._message:
            self._record_message(stop_reason)
        subtype, text = str(record.get("subtype", "")), _reason(record)
        if subtype in ("error_max_turns", "error_max_budget_usd"):
            text = text or f"{self._title} ended at a limit of its settings: {subtype}"
            self._session.log(text, level="warning")
            self.at_limit = True
        elif record.get("is_error") or subtype.startswith("error"):
            self.failure = text or subtype

    def _span(self, record: Record) -> str:
        parent = record.get("parent_tool_use_id")
        spans = self._spans.get(parent) if isinstance(parent, str) else None
        return spans[-1] if spans else ""


def _reason(record: Record) -> str:
    """Return why a conversation ended, in the words of its last record."""
    error = record.get("error")
    if isinstance(error, dict):
        return str(error.get("message", ""))
    errors = record.get("errors")
    if isinstance(errors, list) and errors:
        return "; ".join(map(str, errors))
    return str(record.get("result") or error or "")


def _blocks(content: Any) -> Iterator[Record]:
    """Return the blocks of a message's content, which is a text or a list."""
    if isinstance(content, str):
        yield {"type": "text", "text": content}
    elif isinstance(content, list):
        yield from (each if isinstance(each, dict) else {} for each in content)


def _text(content: Any) -> str:
    """Return the text of a tool's result; other parts are named in brackets."""
    if isinstance(content, str):
        return content
    parts = []
    for block in _blocks(content):
        text = block.get("text")
        parts.append(text if isinstance(text, str) else f"[{block.get('type', 'unknown')}]")
    return "\n".join(parts)


def todo(text: Any, status: Any) -> dict[str, str]:
    return {"text": str(text or ""), "status": status if status in STATUSES else "pending"}


def _detail(record: Record) -> dict[str, Any]:
    detail = record.get("compact_metadata")
    return detail if isinstance(detail, dict) else {}


def _exit_code(tool: str, output: str) -> int | None:
    """Return the exit code that the error of a command states."""
    pattern = _EXIT_CODES.get(tool)
    found = pattern.search(output) if pattern else None
    return int(found[1]) if found else None
