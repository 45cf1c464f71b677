"""Codex: OpenAI's command line, in its non-interactive mode."""

from __future__ import annotations

import itertools
import json
import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from runners.agents import Harness, Spec
from runners.agents._parts.settings import ExtraPrompt, Mcp, checked
from runners.agents._parts.waits import MAX_ANSWER_SECONDS, MAX_WAIT_SECONDS
from runners.session.harness import Record, Translator, mcp_server, prompt, run_harness

if TYPE_CHECKING:
    from runners.session.session import AgentSession


HARNESS = Harness(title="Codex", wires=("responses",), program="codex", package="@openai/codex")
SPECS = (
    Spec(
        slug="codex",
        title="Codex",
        description="OpenAI's command line with its own tools, and a current model.",
        model="gpt-5.6",
        provider="openai",
    ),
)

HOME = ".home"
"""Folder of its settings: codex refuses one below the folder of temporary files."""
TOKEN = "ARENA_TOKEN"
START_SECONDS = 60
"""Longest start of the MCP server, which is a Python process on a machine that may be busy."""
QUIET = {
    "analytics.enabled": False,
    "check_for_update_on_startup": False,
    "features.apps": False,
    "features.plugins": False,
    "web_search": "disabled",
}
"""Settings without which it asks for addresses that its sandbox refuses, and waits for them."""
SHELL = "exec_command"
PATCH = "apply_patch"
STARTED, UPDATED, COMPLETED = STEPS = ("item.started", "item.updated", "item.completed")
OUTCOMES = {"completed": True, "failed": False, "declined": False}
"""Success that the status of a finished item states."""


class Settings(BaseModel):
    """Settings of Codex."""

    model_config = ConfigDict(extra="forbid")

    effort: Literal["", "minimal", "low", "medium", "high", "xhigh"] = Field(
        "", description="Effort of the model's reasoning; empty for the default."
    )
    extra_prompt: ExtraPrompt = ""
    mcp: Mcp = False


def work(session: AgentSession, settings: Mapping[str, Any]) -> None:
    """Run it until it ends. Raises: HarnessFailed."""
    chosen = checked(Settings, settings)
    assert session.model, "a harness has a model"
    home = session.folder / HOME
    home.mkdir(exist_ok=True)
    options = {**_provider(session.model.url), **_options(session, chosen)}
    command = [
        session.program, "exec", "--json", "--skip-git-repo-check",
        "--dangerously-bypass-approvals-and-sandbox",
        "-m", session.model.name,
        *itertools.chain.from_iterable(("-c", f"{n}={json.dumps(v)}") for n, v in options.items()),
        prompt(session, chosen.extra_prompt),
    ]  # fmt: skip
    env = {TOKEN: session.model.token, "HOME": str(home), "CODEX_HOME": str(home)}
    run_harness(session, command, CodexEvents(session), env)


def _provider(url: str) -> dict[str, Any]:
    """Return the settings of its provider, which is the gateway."""
    head = "model_providers.arena"
    return {
        "model_provider": "arena",
        f"{head}.name": "arena",
        f"{head}.base_url": f"{url}/v1",
        f"{head}.wire_api": "responses",
        f"{head}.env_key": TOKEN,
        f"{head}.request_max_retries": 2,  # the gateway has tried already
        f"{head}.stream_max_retries": 2,
        f"{head}.stream_idle_timeout_ms": MAX_ANSWER_SECONDS * 1000,
    }


def _options(session: AgentSession, chosen: Settings) -> dict[str, Any]:
    options: dict[str, Any] = dict(QUIET)
    if chosen.effort:
        options["model_reasoning_effort"] = chosen.effort
    if chosen.mcp:
        server = mcp_server(session)
        table = f"mcp_servers.{server.name}"
        options[f"{table}.command"] = server.command
        options[f"{table}.required"] = True  # or the first turn may begin without the tools
        options[f"{table}.startup_timeout_sec"] = START_SECONDS
        options[f"{table}.tool_timeout_sec"] = MAX_WAIT_SECONDS
    return options


class CodexEvents(Translator):
    """Records each record of its output as events of a session.

    An item is a message, reasoning, a command, a change of files, a call of a tool or a plan. A
    command that runs for longer than codex waits is one item: its polls are not in the output.
    """

    def __init__(self, session: AgentSession) -> None:
        super().__init__(session)
        self._reasoning: list[str] = []
        self._messages: dict[str, str] = {}
        """Events of messages that are not complete, by the id of their item."""

    def __call__(self, record: Record) -> bool:
        match record:
            case {"type": "thread.started", "thread_id": str(thread)}:
                self._session.note("Codex begins.", thread=thread)
            case {"type": "turn.started"}:
                self.failure = ""
            case {"type": "turn.completed"}:
                self._flush_reasoning()
            case {"type": "turn.failed", "error": {"message": str(text)}}:
                self._flush_reasoning()
                self.failure = _reason(text)
            case {"type": "error", "message": str(text)}:  # it may try again
                self.failure = _reason(text)
                self._session.log(text, level="warning", stream="codex")
            case {"type": str(kind), "item": {"id": str(), "type": str()}} if kind in STEPS:
                return self._item(record["item"], kind)
            case _:
                return False
        return True

    def _item(self, item: Record, step: str) -> bool:
        if item["type"] in ("agent_message", "reasoning") or self._is_new(item, step):
            self.failure = ""  # it goes on
        match item:
            case {"type": "reasoning", "text": str(text)}:
                self._reasoning.append(text)
            case {"type": "agent_message", "text": str(text)}:
                self._message(text, item["id"])
                if step == COMPLETED:
                    self._messages.pop(item["id"], None)
            case {"type": "command_execution", "command": str(command)}:
                self._call(SHELL, {"cmd": script_of(command)}, item, step)
            case {"type": "file_change", "changes": list(changes)}:
                self._call(PATCH, {"changes": changes}, item, step)
            case {"type": "mcp_tool_call", "server": str(server), "tool": str(tool)}:
                self._call(f"{server}.{tool}", item.get("arguments"), item, step)
            case {"type": "collab_tool_call", "tool": str(tool)}:
                known = ("prompt", "receiver_thread_ids", "agents_states")
                given = {name: item[name] for name in known if name in item}
                self._call(tool, given, item, step)
            case {"type": "web_search"}:
                self._call("web_search", {"query": item.get("query", "")}, item, step)
            case {"type": "todo_list", "items": list(todos)}:
                self._plan(todos)
            case {"type": "error", "message": str(text)}:
                self._session.log(text, level="warning", stream="codex")
            case _:
                return False
        return True

    def _is_new(self, item: Record, step: str) -> bool:
        """Return whether an item begins a call: ids may repeat, so a start always does."""
        return step == STARTED or self._calls.find(item["id"]) is None

    def _call(self, tool: str, arguments: Any, item: Record, step: str) -> None:
        """Record a call when its item is new, and its result when it is finished."""
        if self._is_new(item, step):
            self._flush_reasoning()
            self._calls.begin(item["id"], tool, arguments)
        status = item.get("status")
        if step != COMPLETED and status not in OUTCOMES:
            return
        ok = OUTCOMES.get(status) if isinstance(status, str) else None
        code = item.get("exit_code")
        if tool == SHELL and ok and code is None:
            ok = None  # the item is complete, and nothing says how the command ended
        self._calls.end(item["id"], _output(item), ok=ok, exit_code=code)

    def _plan(self, todos: list[Any]) -> None:
        entries = [each for each in todos if isinstance(each, dict)]
        self._session.todo_list(
            [
                {
                    "text": str(each.get("text", "")),
                    "status": "completed" if each.get("completed") else "pending",
                }
                for each in entries
            ]
        )

    def _message(self, text: str, name: str = "") -> None:
        """Record a message with the reasoning before it; of the item `name` a later one."""
        reasoning, self._reasoning = "\n\n".join(self._reasoning), []
        event = self._messages.get(name, "")
        event = self._session.message(text, reasoning=reasoning, model=self._model, event=event)
        if name:
            self._messages[name] = event

    def _flush_reasoning(self) -> None:
        """Record reasoning that no message followed."""
        if self._reasoning:
            self._message("")


def script_of(command: str) -> str:
    """Return the script in `/bin/bash -lc 'script'`, and any other command as it is."""
    try:
        words = shlex.split(command)
    except ValueError:
        return command
    return words[2] if len(words) == 3 and words[1] in ("-c", "-lc") else command


def _output(item: Record) -> str:
    """Return the output of a finished item."""
    match item:
        case {"aggregated_output": str(text)}:
            return text
        case {"error": {"message": str(text)}}:
            return text
        case {"result": {"content": list(parts)}}:
            return "\n".join(
                str(part.get("text", f"[{part.get('type')}]"))
                for part in parts
                if isinstance(part, dict)
            )
    return ""


def _reason(text: str) -> str:
    """Return the message in an error, which may be a provider's body."""
    try:
        found = json.loads(text)["error"]["message"]
    except (ValueError, KeyError, TypeError):
        return text
    return str(found)
