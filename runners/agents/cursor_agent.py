"""Cursor's command line, in its print mode: only from its documentation, and not yet able to run.

Limitation: it reaches models only through Cursor's own service, in an undocumented protocol. The
gateway does not speak it, and an agent's sandbox reaches nothing but the gateway. So no provider
has its wire format, and pages show it as unavailable. `docs/harnesses.md` says what is required.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field

from runners.agents import Harness, Spec
from runners.agents._parts.stream_json import todo
from runners.session.calls import Calls
from runners.session.harness import prompt, run_harness

if TYPE_CHECKING:
    from runners.session.session import AgentSession

Record = Mapping[str, Any]

TITLE = "Cursor"
WIRE = "cursor"
"""Name of the protocol of Cursor's service, which no provider has."""
HARNESS = Harness(
    title=TITLE,
    wires=(WIRE,),
    program="cursor-agent",
    install="the installer of cursor.com, and read docs/harnesses.md",
)
SPECS = (
    Spec(
        slug="cursor-agent",
        title=TITLE,
        description=(
            "Cursor's command line. It cannot run yet: it needs Cursor's own service and"
            " CURSOR_API_KEY, and the gateway does not pass that service on. Its adapter follows"
            " the documentation and was never run with the program."
        ),
        model="auto",
        provider="cursor",
    ),
)

SUFFIX = "ToolCall"
"""End of the name of each tool in its records, such as `shellToolCall`."""
SHELL, TODO_LISTS = "shell", frozenset({"updateTodos", "todoWrite", "writeTodos"})
FAILED = ("error", "failure", "rejected", "fileNotFound", "permissionDenied", "timeout")
"""Names of results of a call that failed."""
TEXTS = ("stdout", "stderr", "content", "output", "message", "error", "reason")
"""Fields of a result that hold text."""


class Settings(BaseModel):
    """Settings of Cursor."""

    model_config = ConfigDict(extra="forbid")

    extra_prompt: str = Field("", description="Text after the instruction that all agents get.")


def work(session: AgentSession, settings: Mapping[str, Any]) -> None:
    """Run it until it ends. Raises: HarnessFailed."""
    chosen = Settings.model_validate(settings)
    assert session.model, "a harness has a model"
    translate = CursorEvents(session)
    command = [
        session.program, "-p", "--output-format", "stream-json", "--force",
        "--model", session.model.name,
        prompt(session, chosen.extra_prompt),
    ]  # fmt: skip
    run_harness(
        session,
        command,
        translate,
        env={"CURSOR_API_KEY": session.model.token},
        failure=lambda: translate.failure,
    )


class CursorEvents:
    """Records each record of its output as events of a session."""

    def __init__(self, session: AgentSession) -> None:
        self.failure = ""
        """Why it gave up, as its last record says; empty if it did not."""
        self._session = session
        self._model = session.model.name if session.model else ""
        self._reasoning = ""
        self._calls = Calls(session)

    def __call__(self, record: Record) -> bool:
        match record:
            case {"type": "system", "subtype": "init"}:
                self._model = str(record.get("model") or self._model)
                self._session.note(f"{TITLE} begins.", model=self._model)
            case {"type": "user"} | {"type": "thinking", "subtype": "completed"}:
                pass  # the instruction; the end of what the parts had
            case {"type": "thinking", "text": str(text)}:
                self._reasoning += text
            case {"type": "assistant", "message": {"content": list(parts)}}:
                self._message("".join(str(part["text"]) for part in parts if "text" in part))
            case {"type": "tool_call", "call_id": str(call), "tool_call": dict(kinds)}:
                return self._call(call, kinds, record.get("subtype"))
            case {"type": "result"}:
                if self._reasoning:
                    self._message("")
                if record.get("is_error"):
                    self.failure = str(record.get("result") or "it named no reason")
            case _:
                return False
        return True

    def _message(self, text: str) -> None:
        """Record a message with the reasoning before it."""
        reasoning, self._reasoning = self._reasoning, ""
        self._session.message(text, reasoning=reasoning, model=self._model)

    def _call(self, call: str, kinds: Record, subtype: Any) -> bool:
        name = next((key for key in kinds if key.endswith(SUFFIX)), "")
        if name:
            tool, detail = name.removesuffix(SUFFIX), kinds[name]
        elif "function" in kinds:  # a tool without a kind of its own
            detail = kinds["function"]
            tool = str(detail.get("name", "function"))
        else:
            return False
        if self._reasoning:
            self._message("")
        if subtype == "started" or self._calls.find(call) is None:
            self._calls.begin(call, tool, _given(detail))
        if subtype == "completed":
            self._result(call, tool, detail.get("result") or {})
        return True

    def _result(self, name: str, tool: str, result: Record) -> None:
        outcome = result.get("success")
        failed = next((name for name in FAILED if name in result), "")
        detail = outcome if isinstance(outcome, dict) else result.get(failed)
        code = detail.get("exitCode") if isinstance(detail, dict) else None
        ok = False if failed else True if "success" in result else None
        if tool == SHELL and ok and code is None:
            ok = None  # nothing says how the command ended
        call = self._calls.end(name, _text(detail), ok=ok, exit_code=code)
        if call and tool in TODO_LISTS and ok:
            todos = [each for each in call.arguments.get("todos", ()) if isinstance(each, dict)]
            items = [todo(each.get("content"), _status(each.get("status"))) for each in todos]
            self._session.todo_list(items)


def _given(detail: Record) -> Any:
    """Return the arguments of a call; those of a tool without a kind of its own are a text."""
    given = detail.get("args", detail.get("arguments"))
    return {"arguments": given} if isinstance(given, str) else given


def _status(status: Any) -> str:
    """Return a todo's status in lower case, without the prefix of an enumeration."""
    return re.sub(r"^todo_status_", "", str(status).lower())


def _text(detail: Any) -> str:
    """Return the texts of a result."""
    if not isinstance(detail, dict):
        return str(detail or "")
    return "\n".join(str(detail[name]) for name in TEXTS if detail.get(name))
