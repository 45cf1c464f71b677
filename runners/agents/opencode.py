"""OpenCode: an open command line for models of any provider, in its non-interactive mode.

The Agent Client Protocol carries no more of it: docs/adr/0029.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field

from runners.agents import Harness, Spec
from runners.agents._parts.settings import ExtraPrompt, Mcp, checked
from runners.agents._parts.stream_json import todo
from runners.agents._parts.waits import MAX_ANSWER_SECONDS, MAX_WAIT_SECONDS
from runners.session.harness import Record, Translator, mcp_server, prompt, run_harness

if TYPE_CHECKING:
    from runners.session.session import AgentSession


TITLE = "OpenCode"
HARNESS = Harness(
    title=TITLE,
    wires=("chat-completions", "messages", "responses"),
    program="opencode",
    package="opencode-ai",
)
SPECS = (
    Spec(
        slug="opencode",
        title=TITLE,
        description="An open command line with its own tools, and a model of OpenRouter.",
        model="qwen/qwen3-coder",
        provider="openrouter",
    ),
)

LIBRARIES = {
    "chat-completions": "@ai-sdk/openai-compatible",
    "messages": "@ai-sdk/anthropic",
    "responses": "@ai-sdk/openai",
}
"""Client libraries in the program, by wire format."""
PROVIDER = "arena"
CONTEXT_TOKENS, OUTPUT_TOKENS = 200_000, 32_000
QUIET = {
    "OPENCODE_DISABLE_AUTOUPDATE": "1",
    "OPENCODE_DISABLE_MODELS_FETCH": "1",
    "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
    "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
}
"""Variables without which it asks for addresses that its sandbox refuses."""
TODO_LIST = "todowrite"
OUTCOMES = {"completed": True, "error": False}
"""Success that the status of a finished call states."""


class Settings(BaseModel):
    """Settings of OpenCode."""

    model_config = ConfigDict(extra="forbid")

    variant: str = Field("", description="Variant of the model, such as an effort of reasoning.")
    context_tokens: int = Field(
        CONTEXT_TOKENS, ge=1024, description="Context of the model, before it is compacted."
    )
    extra_prompt: ExtraPrompt = ""
    disallowed_tools: list[str] = Field(
        ["webfetch", "websearch"],
        description="Tools that it must not use, such as task for subagents.",
    )
    mcp: Mcp = False


def work(session: AgentSession, settings: Mapping[str, Any]) -> None:
    """Run it until it ends. Raises: HarnessFailed."""
    chosen = checked(Settings, settings)
    assert session.model, "a harness has a model"
    command = [
        session.program, "run", "--format", "json", "--thinking",
        "--title", session.brief.task,  # else a model is asked for one
        "--model", f"{PROVIDER}/{session.model.name}",
        *(("--variant", chosen.variant) if chosen.variant else ()),
        prompt(session, chosen.extra_prompt),
    ]  # fmt: skip
    env = {
        **QUIET,
        "HOME": str(session.folder),
        "OPENCODE_CONFIG_CONTENT": json.dumps(_configuration(session, chosen)),
        "OPENCODE_EXPERIMENTAL_BASH_DEFAULT_TIMEOUT_MS": str(MAX_WAIT_SECONDS * 1000),
    }
    run_harness(session, command, OpenCodeEvents(session), env)


def _configuration(session: AgentSession, chosen: Settings) -> dict[str, Any]:
    """Return its configuration: one provider, which is the gateway, and all tools allowed."""
    assert session.model
    name, (wire, *_) = session.model.name, session.model.wires
    model = {
        "name": name,
        "reasoning": True,
        "tool_call": True,
        "limit": {"context": chosen.context_tokens, "output": OUTPUT_TOKENS},
    }
    answer_ms, wait_ms = MAX_ANSWER_SECONDS * 1000, MAX_WAIT_SECONDS * 1000
    options = {
        "baseURL": f"{session.model.url}/v1",
        "apiKey": session.model.token,
        "timeout": answer_ms,
        "headerTimeout": answer_ms,
        "chunkTimeout": answer_ms,
    }
    found: dict[str, Any] = {
        "share": "disabled",
        "autoupdate": False,
        "provider": {
            PROVIDER: {
                "npm": LIBRARIES[wire],
                "name": PROVIDER,
                "options": options,
                "models": {name: model},
            }
        },
        "enabled_providers": [PROVIDER],
        "small_model": f"{PROVIDER}/{name}",
        "permission": {"*": "allow", **dict.fromkeys(chosen.disallowed_tools, "deny")},
    }
    if chosen.mcp:
        server = mcp_server(session)
        found["mcp"] = {
            server.name: {"type": "local", "command": [server.command], "timeout": wait_ms}
        }
    return found


@dataclass
class _Message:
    """Text and reasoning of one answer, with its event."""

    text: str = ""
    reasoning: str = ""
    event: str = ""


class OpenCodeEvents(Translator):
    """Records each record of its output as events of a session.

    A record has a part of an answer: reasoning, text, or a call that is finished.
    """

    def __init__(self, session: AgentSession) -> None:
        super().__init__(session)
        self._messages: dict[str, _Message] = {}
        """Messages of answers that are not finished, by the id of an answer."""
        self._begun = False

    def __call__(self, record: Record) -> bool:
        match record:
            case {"type": "step_start"}:
                if not self._begun:
                    self._begun = True
                    self._session.note(f"{TITLE} begins.", session=record.get("sessionID"))
            case {"type": "text", "part": {"messageID": str(answer), "text": str(text)}}:
                self._add(answer, text=text)
            case {"type": "reasoning", "part": {"messageID": str(answer), "text": str(text)}}:
                self._add(answer, reasoning=text)
            case {"type": "step_finish", "part": {"messageID": str(answer), "reason": str(reason)}}:
                self.failure = ""  # it went on after an error
                if message := self._messages.pop(answer, None):
                    self._record(message, reason)
            case {"type": "tool_use", "part": {"callID": str(call), "tool": str(tool)}}:
                self._call(call, tool, record["part"]["state"])
            case {"type": "error"}:
                self.failure = _reason(record.get("error"))
                self._session.log(self.failure, level="warning", stream="opencode")
            case _:
                return False
        return True

    def _add(self, answer: str, *, text: str = "", reasoning: str = "") -> None:
        """Add a part to the message of an answer."""
        if not (text or reasoning):
            return
        message = self._messages.setdefault(answer, _Message())
        message.text = "\n\n".join(filter(None, (message.text, text)))
        message.reasoning = "\n\n".join(filter(None, (message.reasoning, reasoning)))
        self._record(message)

    def _record(self, message: _Message, stop_reason: str = "") -> None:
        message.event = self._session.message(
            message.text,
            reasoning=message.reasoning,
            model=self._model,
            stop_reason=stop_reason,
            event=message.event,
        )

    def _call(self, call: str, tool: str, state: Record) -> None:
        """Record a call with its result: a record has both."""
        begun = self._calls.begin(call, tool, state.get("input"))
        status, detail = state.get("status"), state.get("metadata")
        if not isinstance(status, str) or status not in OUTCOMES:
            return
        ok: bool | None = OUTCOMES[status]
        code = None
        if isinstance(detail, dict) and "exit" in detail:
            code = detail["exit"]
            ok = ok if ok is False or code is not None else None
        self._calls.end(
            call,
            str(state.get("output") or state.get("error") or ""),
            ok=ok,
            exit_code=code,
            duration_ms=_duration(state.get("time")),
        )
        if tool == TODO_LIST and ok:
            todos = [each for each in begun.arguments.get("todos", ()) if isinstance(each, dict)]
            items = [todo(each.get("content"), each.get("status")) for each in todos]
            self._session.todo_list(items)


def _duration(times: Any) -> float | None:
    """Return the milliseconds between the times of a call; None where one is missing."""
    match times:
        case {"start": int(start), "end": int(end)} if end >= start:
            return float(end - start)
    return None


def _reason(error: Any) -> str:
    """Return the message of an error."""
    match error:
        case {"data": {"message": str(text)}} | {"message": str(text)}:
            return text
        case {"name": str(name)}:
            return name
    return str(error or "it named no reason")
