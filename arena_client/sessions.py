"""Sessions of Claude Code, Codex and OpenCode that were run elsewhere, as events of a run.

Claude Code keeps a session as JSON lines below `~/.claude/projects`, Codex below
`~/.codex/sessions`; `opencode export ID` prints one as JSON. What a file holds and no event has,
such as a summary for a list of sessions, is left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from arena_client.types import EventIn

MAX_TEXT = 100_000
"""Characters of a text; the arena takes more in an event, and fewer bytes in a batch."""
Record = Mapping[str, Any]


class UnknownSession(ValueError):
    """Raised for a file that is no session of a known harness."""


@dataclass
class Session:
    """A session: its harness, the model that answered last, and its events in order."""

    harness: str
    model: str = ""
    events: list[EventIn] = field(default_factory=list)

    def add(self, kind: str, body: Record, name: str = "") -> None:
        """Add an event; a later one of the same name replaces it."""
        event: EventIn = {"kind": kind, "body": dict(body)}
        if name:
            event["id"] = _id(name)
        self.events.append(event)

    def message(self, role: str, text: str, **more: Any) -> None:
        if text.strip() or more.get("reasoning"):
            self.add("message", {"role": role, "text": text[:MAX_TEXT], **_known(more)})

    def call(self, name: str, tool: str, arguments: Any) -> None:
        given = arguments if isinstance(arguments, dict) else {"input": arguments}
        self.add("tool_call", {"tool": tool, "arguments": given}, name)

    def result(self, call: str, output: str, ok: bool | None, **more: Any) -> None:
        body = {"call": _id(call), "ok": ok, "output": output[:MAX_TEXT], **_known(more)}
        self.add("tool_result", body)


def read(path: Path) -> Session:
    """Return the session in a file. Raises: UnknownSession; OSError."""
    try:
        text = path.read_text(encoding="utf-8")
        records = _records(text)
    except ValueError as error:
        raise UnknownSession(f"{path} is not JSON: {error}") from None
    for reader in (_opencode, _codex, _claude_code):
        session = reader(records)
        if session is not None and session.events:
            return session
    raise UnknownSession(f"{path} is no session of Claude Code, Codex or OpenCode.")


def _records(text: str) -> list[Record]:
    """Return the objects of a file of JSON, or of JSON lines whose last one may be cut."""
    try:
        whole = json.loads(text)
        found = whole if isinstance(whole, list) else [whole]
    except ValueError:
        *lines, last = [line for line in text.splitlines() if line.strip()] or [""]
        found = [json.loads(line) for line in lines]
        try:
            found.append(json.loads(last))
        except ValueError:
            if not found:
                raise
    return [record for record in found if isinstance(record, dict)]


def _claude_code(records: list[Record]) -> Session | None:
    """Read records of `~/.claude/projects`: one for each block of an answer."""
    session = Session("Claude Code")
    last_at, seen = None, set[str]()
    for record in records:
        message = record.get("message")
        if record.get("type") not in ("user", "assistant") or not isinstance(message, dict):
            continue
        at = _time(record.get("timestamp"))
        took, last_at = _milliseconds(last_at, at), at
        for block in _blocks(message.get("content")):
            match block:
                case {"type": "text", "text": str(text)} if record["type"] == "user":
                    session.message("user", text)
                case {"type": "text", "text": str(text)}:
                    more = _claude_usage(message, seen)
                    session.message("assistant", text, latency_ms=took, **more)
                case {"type": "thinking", "thinking": str(text)}:
                    more = _claude_usage(message, seen)
                    session.message("assistant", "", reasoning=text[:MAX_TEXT], **more)
                case {"type": "tool_use", "id": str(name), "name": str(tool)}:
                    session.call(name, tool, block.get("input"))
                case {"type": "tool_result", "tool_use_id": str(name)}:
                    output = _text(block.get("content"))
                    failed = block.get("is_error")
                    ok = None if failed is None else not failed
                    session.result(name, output, ok, duration_ms=took)
        session.model = str(message.get("model") or session.model)
    return session


def _claude_usage(message: Record, seen: set[str]) -> dict[str, Any]:
    """Return the model and the usage of an answer, which each of its blocks repeats."""
    more: dict[str, Any] = {"model": message.get("model")}
    name, usage = message.get("id"), message.get("usage")
    if isinstance(usage, dict) and isinstance(name, str) and name not in seen:
        seen.add(name)
        read_, written = (
            _count(usage, f"cache_{which}_input_tokens") for which in ("read", "creation")
        )
        more["usage"] = {
            "input_tokens": _count(usage, "input_tokens") + read_ + written,
            "cached_tokens": read_,
            "cache_write_tokens": written,
            "output_tokens": _count(usage, "output_tokens"),
        }
    return more


def _codex(records: list[Record]) -> Session | None:
    """Read records of `~/.codex/sessions`: items of the Responses API, and messages about them."""
    session = Session("Codex")
    if not any(record.get("type") in ("session_meta", "response_item") for record in records):
        return None
    began: dict[str, datetime | None] = {}
    for record in records:
        payload = record.get("payload")
        if not isinstance(payload, dict):
            continue
        at = _time(record.get("timestamp"))
        if record.get("type") == "turn_context":
            session.model = str(payload.get("model") or session.model)
        elif record.get("type") == "response_item":
            _codex_item(session, payload, at, began)
        elif record.get("type") == "event_msg" and payload.get("type") == "token_count":
            _codex_usage(session, payload)
    return session


def _codex_item(
    session: Session, item: Record, at: datetime | None, began: dict[str, datetime | None]
) -> None:
    match item:
        case {"type": "message", "role": "user" | "assistant" as role}:
            more = {"model": session.model} if role == "assistant" else {}
            session.message(str(role), _text(item.get("content")), **more)
        case {"type": "reasoning"}:
            text = _text(item.get("summary")) or _text(item.get("content"))
            session.message("assistant", "", reasoning=text[:MAX_TEXT], model=session.model)
        case {"type": "function_call" | "custom_tool_call", "call_id": str(name)}:
            began[name] = at
            given = item.get("arguments", item.get("input"))
            session.call(name, str(item.get("name")), _parsed(given))
        case {"type": "local_shell_call", "call_id": str(name)}:
            began[name] = at
            session.call(name, "shell", item.get("action"))
        case {"type": "function_call_output" | "custom_tool_call_output", "call_id": str(name)}:
            output, code = _codex_output(item.get("output"))
            ok = None if code is None else code == 0
            took = _milliseconds(began.get(name), at)
            session.result(name, output, ok, exit_code=code, duration_ms=took)


def _codex_output(value: Any) -> tuple[str, int | None]:
    """Return the text and the exit code of a call's output, which may be JSON in a text."""
    found = _parsed(value)
    if isinstance(found, dict):
        about = found.get("metadata")
        code = about.get("exit_code") if isinstance(about, dict) else None
        text = found.get("output", found.get("content"))
        return _text(text), code if type(code) is int else None
    return _text(value), None


def _codex_usage(session: Session, payload: Record) -> None:
    """Add the usage of the last call to the message of the agent before it."""
    info = payload.get("info")
    usage = info.get("last_token_usage") if isinstance(info, dict) else None
    said = [e for e in session.events if e["body"].get("role") == "assistant"]
    if isinstance(usage, dict) and said and "usage" not in said[-1]["body"]:
        said[-1]["body"]["usage"] = {
            "input_tokens": _count(usage, "input_tokens"),
            "cached_tokens": _count(usage, "cached_input_tokens"),
            "output_tokens": _count(usage, "output_tokens"),
            "reasoning_tokens": _count(usage, "reasoning_output_tokens"),
        }


def _opencode(records: list[Record]) -> Session | None:
    """Read what `opencode export` prints: messages with their parts."""
    session = Session("OpenCode")
    whole = records[0] if len(records) == 1 else {}
    messages = whole.get("messages")
    if not isinstance(messages, list):
        return None
    for message in messages:
        match message:
            case {"info": dict(info), "parts": list(parts)}:
                _opencode_message(session, info, [p for p in parts if isinstance(p, dict)])
    return session


def _opencode_message(session: Session, info: Record, parts: list[Record]) -> None:
    role = "assistant" if info.get("role") == "assistant" else "user"
    texts = {
        kind: "\n\n".join(str(p.get("text", "")) for p in parts if p.get("type") == kind)
        for kind in ("text", "reasoning")
    }
    more: dict[str, Any] = {}
    if role == "assistant":
        session.model = str(info.get("modelID") or session.model)
        more = {"model": session.model, "reasoning": texts["reasoning"][:MAX_TEXT]}
        tokens, cost = info.get("tokens"), info.get("cost")
        if isinstance(tokens, dict):
            kept = tokens.get("cache")
            cached = kept if isinstance(kept, dict) else {}
            read_, written = _count(cached, "read"), _count(cached, "write")
            more["usage"] = {
                "input_tokens": _count(tokens, "input") + read_ + written,
                "cached_tokens": read_,
                "cache_write_tokens": written,
                "output_tokens": _count(tokens, "output") + _count(tokens, "reasoning"),
                "reasoning_tokens": _count(tokens, "reasoning"),
            }
        if isinstance(cost, int | float):
            more["cost_usd"] = cost
    session.message(role, texts["text"], **more)
    for part in parts:
        match part:
            case {"type": "tool", "callID": str(name), "tool": str(tool), "state": dict(state)}:
                session.call(name, tool, state.get("input", {}))
                status = state.get("status")
                if status in ("completed", "error"):
                    output = _text(state.get("output") or state.get("error"))
                    session.result(name, output, status == "completed")


def _blocks(content: Any) -> Iterator[Record]:
    """Yield the blocks of a message, whose content may be a text."""
    if isinstance(content, str):
        yield {"type": "text", "text": content}
    elif isinstance(content, list):
        yield from (block for block in content if isinstance(block, dict))


def _text(value: Any) -> str:
    """Return the text of a value: of a list, of its parts; of others, JSON."""
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, list):
        return "\n".join(
            str(part["text"]) if isinstance(part, dict) and "text" in part else _text(part)
            for part in value
        )
    return json.dumps(value, ensure_ascii=False)


def _parsed(value: Any) -> Any:
    """Return the JSON in a text; the value itself if there is none."""
    try:
        return json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        return value


def _known(values: Record) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value not in (None, "")}


def _count(usage: Record, name: str) -> int:
    value = usage.get(name)
    return value if type(value) is int and value >= 0 else 0


def _id(name: str) -> str:
    """Return the id of an agent's event for a call's."""
    return "agent-" + "".join(c if c.isascii() and c.isalnum() else "-" for c in name)[:80]


def _time(value: Any) -> datetime | None:
    try:
        return datetime.fromisoformat(str(value).replace("Z", "+00:00"))
    except ValueError:
        return None


def _milliseconds(begin: datetime | None, end: datetime | None) -> float | None:
    if begin is None or end is None or bool(begin.tzinfo) != bool(end.tzinfo):
        return None
    return max(0.0, (end - begin).total_seconds() * 1000)
