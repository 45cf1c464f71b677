"""Gemini CLI: Google's command line, in its non-interactive mode.

Its output has no reasoning and no exit codes. Both are in the file of the chat, which is read
beside the output. The Agent Client Protocol has less of it: docs/adr/0029.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field

from runners.agents import Harness, Spec
from runners.agents._parts.settings import ExtraPrompt, MaxTurns, Mcp, checked
from runners.agents._parts.stream_json import todo
from runners.agents._parts.waits import MAX_ANSWER_SECONDS, MAX_WAIT_SECONDS
from runners.session.calls import Call
from runners.session.harness import Record, Translator, mcp_server, prompt, run_harness

if TYPE_CHECKING:
    from runners.session.session import AgentSession


TITLE = "Gemini CLI"
HARNESS = Harness(
    title=TITLE, wires=("generate-content",), program="gemini", package="@google/gemini-cli"
)
SPECS = (
    Spec(
        slug="gemini-cli",
        title=TITLE,
        description="Google's command line with its own tools, and a current model.",
        model="gemini-3-pro-preview",
        provider="google",
    ),
)

FOLDER = ".gemini"
CHATS = "tmp/*/chats/*.jsonl"
"""Files of chats below its folder."""
TURNS_SPENT = 53
"""Exit code at its limit of turns."""
TURNS_ARE_SPENT = "Reached max session turns"
SCOPES = ("core", "codebase_investigator", "cli_help", "generalist")
"""Names under which it configures its own calls and those of its subagents."""
SHELL, TODO_LIST = "run_shell_command", "write_todos"
EXPERIMENTS = "experiments.json"
REQUEST_TIMEOUT = 45773134
"""Number of its experiment with the longest wait for an answer, in seconds."""
MAX_CHAT_SECONDS = 1.0
"""Longest wait for the chat's entry of a call that is finished."""
_EXIT_CODE = re.compile(r"^Exit Code: (\d+)$", re.MULTILINE)
_NO_EXIT = re.compile(r"^(?:Error|Signal): ", re.MULTILINE)
"""Line after an output where the command did not exit by itself."""
OUTCOMES = {"success": True, "error": False}
"""Success that the status of a result states."""


class Settings(BaseModel):
    """Settings of Gemini CLI."""

    model_config = ConfigDict(extra="forbid")

    max_turns: MaxTurns = 0
    extra_prompt: ExtraPrompt = ""
    disallowed_tools: list[str] = Field(
        ["google_web_search", "web_fetch"],
        description="Tools that it must not use, such as run_shell_command.",
    )
    mcp: Mcp = False


def work(session: AgentSession, settings: Mapping[str, Any]) -> None:
    """Run it until it ends. Raises: HarnessFailed."""
    chosen = checked(Settings, settings)
    assert session.model, "a harness has a model"
    folder = session.folder / FOLDER
    folder.mkdir(exist_ok=True)
    text = json.dumps(_settings(session, chosen))
    (folder / "settings.json").write_text(text, encoding="utf-8")
    (folder / EXPERIMENTS).write_text(json.dumps(_experiments()), encoding="utf-8")
    command = [
        session.program, "-p", prompt(session, chosen.extra_prompt), "-m", session.model.name,
        "--output-format", "stream-json", "--yolo", "--skip-trust",
    ]  # fmt: skip
    env = {
        "HOME": str(session.folder),
        "GEMINI_API_KEY": session.model.token,
        "GOOGLE_GEMINI_BASE_URL": session.model.url,
        "GEMINI_CLI_NO_RELAUNCH": "true",
        "GEMINI_EXP": str(folder / EXPERIMENTS),
    }
    run_harness(session, command, GeminiEvents(session, folder), env, TURNS_SPENT)


def _settings(session: AgentSession, chosen: Settings) -> dict[str, Any]:
    """Return its settings: no traffic beside the model's, and long waits for verdicts.

    It has models of its own for helpers and subagents, and replaces some models by newer ones. The
    gateway refuses these, so all are set to the agent's model.
    """
    assert session.model
    model = session.model.name
    overrides = [
        {"match": {"overrideScope": scope}, "modelConfig": {"model": model}} for scope in SCOPES
    ]
    found: dict[str, Any] = {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "telemetry": {"enabled": False},
        "privacy": {"usageStatisticsEnabled": False},
        "general": {
            "enableAutoUpdate": False,
            "enableAutoUpdateNotification": False,
            "maxAttempts": 2,  # the gateway has tried already
        },
        "model": {"disableLoopDetection": True, "maxSessionTurns": chosen.max_turns or -1},
        "modelConfigs": {
            "customOverrides": overrides,
            "modelIdResolutions": {model: {"default": model, "contexts": []}},
        },
        "experimental": {"dynamicModelConfiguration": True},  # without it there are no resolutions
        "tools": {
            "exclude": chosen.disallowed_tools,
            "shell": {"inactivityTimeout": MAX_WAIT_SECONDS},
        },
    }
    if chosen.mcp:
        server = mcp_server(session)
        described = {"command": server.command, "timeout": MAX_WAIT_SECONDS * 1000, "trust": True}
        found["mcpServers"] = {server.name: described}
    return found


def _experiments() -> dict[str, Any]:
    """Return its experiments: one is its longest wait for an answer, else a minute."""
    return {"flags": [{"flagId": REQUEST_TIMEOUT, "intValue": str(MAX_ANSWER_SECONDS)}]}


@dataclass
class _Answer:
    """An answer of the model, with the event of its message; empty for none."""

    text: str = ""
    reasoning: str = ""
    event: str = ""


class GeminiEvents(Translator):
    """Records each record of its output as events of a session."""

    def __init__(self, session: AgentSession, folder: Path) -> None:
        super().__init__(session)
        self._chat = Chat(folder)
        self._answer = _Answer()
        self._answers: dict[Call, _Answer] = {}
        """Answers by the calls in them that have no result."""

    def __call__(self, record: Record) -> bool:
        match record:
            case {"type": "init"}:
                self._model = str(record.get("model") or self._model)
                self._session.note(f"{TITLE} begins.", model=self._model)
            case {"type": "message", "role": "user"}:  # the instruction
                pass
            case {"type": "message", "role": "assistant", "content": str(text)}:
                self._add(text)
            case {"type": "tool_use", "tool_id": str(call), "tool_name": str(tool)}:
                self._answers[self._calls.begin(call, tool, record.get("parameters"))] = (
                    self._answer
                )
            case {"type": "tool_result", "tool_id": str(call)}:
                self._result(call, record)
            case {"type": "error", "message": str(text)}:
                self._session.log(text, level="warning", stream="gemini")
            case {"type": "result"}:
                self._end(record)
            case _:
                return False
        return True

    def _add(self, text: str) -> None:
        """Record a part of a message; parts that follow each other become one."""
        self._answer.text += text
        self._record_message(self._answer)

    def _record_message(self, answer: _Answer) -> None:
        answer.event = self._session.message(
            answer.text, reasoning=answer.reasoning, model=self._model, event=answer.event
        )

    def _add_reasoning(self, answer: _Answer, reasoning: str) -> None:
        if reasoning and not answer.reasoning:
            answer.reasoning = reasoning
            self._record_message(answer)

    def _result(self, name: str, record: Record) -> None:
        call = self._calls.find(name)
        tool = call.tool if call else ""
        kept = self._chat.finished_call(name) if call else Kept()
        if call:
            self._add_reasoning(self._answers.pop(call), kept.reasoning)
        self._answer = _Answer()
        ok = OUTCOMES.get(str(record.get("status")))
        output = str(record.get("output") or _error(record))
        if tool == SHELL:
            ok = (
                False if ok is False else None
            )  # its success is that of the call, not of the command
        else:
            output = output or kept.output
        self._calls.end(name, output, ok=ok, exit_code=kept.exit_code)
        if call and tool == TODO_LIST and ok:
            todos = [each for each in call.arguments.get("todos", ()) if isinstance(each, dict)]
            self._session.todo_list([todo(t.get("description"), t.get("status")) for t in todos])

    def _end(self, record: Record) -> None:
        if self._answer.text:
            self._add_reasoning(self._answer, self._chat.reasoning_of(self._answer.text))
        reason = _error(record)
        if TURNS_ARE_SPENT in reason:
            self._session.log(reason, level="warning", stream="gemini")
            self.at_limit = True
        elif record.get("status") == "error":
            self.failure = reason or "it named no reason"


@dataclass(frozen=True)
class Kept:
    """Details of a call in the chat; none where there is no entry."""

    reasoning: str = ""
    """The reasoning before it."""
    output: str = ""
    exit_code: int | None = None


class Chat:
    """Reader of the chats that it keeps: each line is an answer so far, or something else."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[Path, int] = {}
        """Bytes that were read, by file."""
        self._reasoning: dict[str, str] = {}
        """Reasoning by the text of an answer."""
        self._calls: dict[str, dict[tuple[str, ...], Kept]] = {}
        """Calls by their id, which may repeat, and then by their place in the chat, in order."""
        self._asked: dict[str, int] = {}
        """Calls that were asked for, by their id."""

    def finished_call(self, name: str) -> Kept:
        """Return the next call with this id."""
        number = self._asked.get(name, 0)
        self._asked[name] = number + 1
        until = time.monotonic() + MAX_CHAT_SECONDS
        while True:
            self._poll()
            calls = [*self._calls.get(name, {}).values()]
            if number < len(calls):
                return calls[number]
            if not self._read or time.monotonic() > until:
                return Kept()
            time.sleep(0.02)

    def reasoning_of(self, text: str) -> str:
        """Return the reasoning of an answer without calls."""
        self._poll()
        return self._reasoning.get(text, "")

    def _poll(self) -> None:
        """Read the lines that are new."""
        for path in self._folder.glob(CHATS):
            start = self._read.get(path, 0)
            with path.open("rb") as file:
                file.seek(start)
                data = file.read()
            whole = data.rfind(b"\n") + 1
            self._read[path] = start + whole
            for line in data[:whole].splitlines():
                self._parse(line)

    def _parse(self, line: bytes) -> None:
        try:
            entry = json.loads(line)
            if entry.get("type") != "gemini":
                return
            reasoning = _thoughts(entry.get("thoughts") or ())
            self._reasoning[str(entry.get("content"))] = reasoning
            for number, call in enumerate(entry.get("toolCalls") or ()):
                output = _response(call)
                code = _exit_code(output, call) if call.get("name") == SHELL else None
                place = (str(entry.get("id")), str(entry.get("timestamp")), str(number))
                calls = self._calls.setdefault(call["id"], {})
                calls[place] = Kept(reasoning, output, code)
        except (ValueError, TypeError, KeyError, AttributeError):
            return  # the form of the file may change; only details are lost


def _thoughts(thoughts: Any) -> str:
    """Return the text of thoughts: one with a subject begins a paragraph, others go on."""
    text = ""
    for each in thoughts:
        if subject := each.get("subject"):
            text += "\n\n" if text else ""
            text += f"{subject}: "
        text += str(each.get("description") or "")
    return text


def _response(call: Record) -> str:
    """Return the output of a call, as the model got it."""
    parts = [part["functionResponse"]["response"] for part in call.get("result") or ()]
    return "\n".join(str(part.get("output") or part.get("error") or "") for part in parts)


def _exit_code(text: str, call: Record) -> int | None:
    """Return the exit code of a command, which stands after its output if it is not 0.

    The output itself may have lines of that form. It is known from what was displayed.
    """
    text = text.removeprefix("<untrusted_context>\n").removesuffix("\n</untrusted_context>")
    for output in (call.get("resultDisplay"), "(empty)"):
        if isinstance(output, str) and text.startswith(f"Output: {output}"):
            rest = text[len(f"Output: {output}") :]
            if rest and not rest.startswith("\n"):
                continue
            if found := _EXIT_CODE.search(rest):
                return int(found[1])
            return None if _NO_EXIT.search(rest) else 0
    return None


def _error(record: Record) -> str:
    """Return the message of a record's error."""
    error = record.get("error")
    return str(error.get("message") or "") if isinstance(error, dict) else ""
