"""Scripts of the model server: turns in neutral form, and what a request and a reply consist of."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

SHELLS = (
    "Bash", "exec_command", "shell_command", "run_shell_command", "bash", "shell", "run_command",
    "terminal",
)  # fmt: skip
"""Names that harnesses give to their shell, in the order of preference."""
COMMANDS = ("command", "cmd", "commands", "script")
"""Names of the argument that holds the command."""
FILE_TOOLS = (("Read", "Write"), ("read_file", "write_file"))
"""Names of tools that read and write files; the second pair wants absolute paths."""
SHELL_OF_CODEX = "exec_command"
POLL = "write_stdin"
"""Tool that codex polls a running command with."""
MAX_WAIT_MS = 600_000
_ID = re.compile(r"_c(\d+)t(\d+)n(\d+)(?:p(\d+))?$")
_CWD = re.compile(r"currently working in the directory: (\S+)")
_RUNNING = re.compile(r"running with session ID (\d+)")


@dataclass(frozen=True)
class Fault:
    """A failure that a turn answers with, the first `times` that it is asked for."""

    kind: Literal["status", "garbage", "cut", "short", "stall", "silence"]
    """Half of a stream is followed by a cut, by an end in order, or by a silence (`stall`)."""
    status: int = 500
    retry_after: float | None = None
    seconds: float = 0.0
    """Length of a silence, which ends in a cut."""
    times: float = 1
    message: str = "scripted failure"


@dataclass(frozen=True)
class FileRead:
    """Reading of a file with the harness's own tool, else with its shell."""

    path: str

    @property
    def command(self) -> str:
        return f"cat {self.path}"


@dataclass(frozen=True)
class FileWrite:
    """Writing of a file with the harness's own tool, else with its shell."""

    path: str
    text: str

    @property
    def command(self) -> str:
        return f"cat > {self.path} <<'SOURCE'\n{self.text}SOURCE"

    @property
    def patch_command(self) -> str:
        """The command of codex, which applies a patch itself that a shell is asked to apply."""
        lines = "".join(f"+{line}\n" for line in self.text.splitlines())
        head = f"*** Begin Patch\n*** Add File: {self.path}\n"
        return f"apply_patch <<'PATCH'\n{head}{lines}*** End Patch\nPATCH"


Action = str | FileRead | FileWrite
"""A shell command, or what a harness may have a tool for."""


@dataclass(frozen=True)
class Turn:
    """One answer of the model. A turn without commands ends the conversation."""

    text: str = ""
    commands: tuple[Action, ...] = ()
    """Each is a tool call; all of a turn are asked for at once."""
    calls: tuple[tuple[str, Mapping[str, Any] | str], ...] = ()
    """Further calls, by tool: arguments, or a text that is no JSON object."""
    cut: bool = False
    """Whether the answer ends at the limit of its tokens."""
    reasoning: str = ""
    faults: tuple[Fault, ...] = ()
    seconds: float = 0.0
    """Duration of a streamed answer."""


@dataclass(frozen=True)
class Script:
    """The turns of a conversation, in order. After the last, each answer is the word Done."""

    turns: tuple[Turn, ...]

    def turn(self, index: int) -> Turn:
        return self.turns[index] if index < len(self.turns) else Turn("Done.")


ScriptSource = Script | Callable[[str], Script]
"""A script, or a function that chooses one by the text of the request."""


@dataclass(frozen=True)
class Usage:
    """Tokens of one answer: `cached` are among the input, `reasoning` among the output."""

    input: int
    output: int
    cached: int = 0
    reasoning: int = 0


@dataclass(frozen=True)
class ToolCall:
    """A call that a reply asks for."""

    id: str
    tool: str
    arguments: Mapping[str, Any] | str
    command: str = ""
    """The script's command as a shell has it; empty for a poll of one that still runs."""

    @property
    def names(self) -> dict[str, str]:
        """Its name, and for `namespace.tool` that of the namespace, as in Responses."""
        return dict(zip(("name", "namespace"), reversed(self.tool.split(".")), strict=False))

    @property
    def json(self) -> str:
        return self.arguments if isinstance(self.arguments, str) else json.dumps(self.arguments)


@dataclass(frozen=True)
class Reply:
    """An answer in neutral form."""

    id: str
    model: str
    text: str
    reasoning: str
    calls: tuple[ToolCall, ...]
    usage: Usage
    cut: bool = False


@dataclass(frozen=True)
class Tool:
    """A tool that a request offers, with its JSON Schema."""

    name: str
    schema: Mapping[str, Any] = field(default_factory=dict)

    def shell_arguments(self, command: str) -> dict[str, Any]:
        """Return arguments that run `command`: further required ones are filled by their type."""
        properties = self.schema.get("properties", {})
        name = next((each for each in COMMANDS if each in properties), COMMANDS[0])
        as_list = properties.get(name, {}).get("type") == "array"
        arguments: dict[str, Any] = {name: ["bash", "-lc", command] if as_list else command}
        for other in self.schema.get("required", ()):
            if other != name:
                arguments[other] = _filler(properties.get(other, {}))
        if "millisecond" in str(properties.get("timeout", {}).get("description", "")):
            arguments["timeout"] = MAX_WAIT_MS
        if "yield_time_ms" in properties:
            arguments["yield_time_ms"] = MAX_WAIT_MS
        return arguments


def _filler(schema: Mapping[str, Any]) -> Any:
    match schema.get("type"):
        case "boolean":
            return False
        case "number" | "integer":
            return 60
        case "array":
            return []
        case "object":
            return {}
    return str(schema.get("enum", ["Run a command"])[0])


@dataclass(frozen=True)
class Asked:
    """A request in neutral form."""

    model: str
    stream: bool
    tools: tuple[Tool, ...]
    prompt: str
    """All text of the user, of the system and of the developer."""
    calls: tuple[str, ...]
    """Ids of the tool calls in its history, in order."""
    results: Mapping[str, str]
    """Outputs of tools, by the id of their call."""
    include_usage: bool = True
    """Whether a stream must end with its usage."""

    @property
    def shell(self) -> Tool | None:
        """The tool that runs commands; None for a request beside the conversation."""
        by_name = {tool.name: tool for tool in self.tools}
        return next((by_name[name] for name in SHELLS if name in by_name), None)

    def arguments(self, action: Action) -> tuple[str, dict[str, Any]]:
        """Return the tool for an action, and its arguments."""
        cwd = self.cwd
        shell = self.shell
        assert shell, "an action needs a shell at least"
        names = {tool.name for tool in self.tools}
        for reader, writer in FILE_TOOLS:
            if isinstance(action, FileRead) and reader in names:
                return reader, {"file_path": f"{cwd}/{action.path}"}
            if isinstance(action, FileWrite) and writer in names:
                return writer, {"file_path": f"{cwd}/{action.path}", "content": action.text}
        if isinstance(action, FileWrite) and shell.name == SHELL_OF_CODEX:
            return shell.name, shell.shell_arguments(action.patch_command)
        return shell.name, shell.shell_arguments(command_of(action))

    def position(self) -> tuple[int, int]:
        """Return the conversation, 0 for a new one, and the index of the turn that comes next."""
        found = [match for each in self.calls if (match := _ID.search(each))]
        if not found:
            return 0, 0
        return int(found[-1][1]), int(found[-1][2]) + 1

    def running(self) -> dict[str, str]:
        """Return the sessions of commands that still run, by the id of the last call of each."""
        latest: dict[tuple[str, ...], str] = {}
        for each in self.calls:
            if match := _ID.search(each):
                latest[match.group(1, 2, 3)] = each
        found = {}
        for each in latest.values():
            if match := _RUNNING.search(self.results.get(each, "")):
                found[each] = match[1]
        return found

    @property
    def cwd(self) -> str:
        """The working directory that the prompt names."""
        found = _CWD.search(self.prompt)
        return found[1] if found else "."


def command_of(action: Action) -> str:
    return action if isinstance(action, str) else action.command


def call_id(conversation: int, turn: int, number: int) -> str:
    return f"call_c{conversation}t{turn}n{number}"


def poll_id(previous: str) -> str:
    """Return the id of the next poll of the command that `previous` started or polled."""
    match = _ID.search(previous)
    assert match, "an id of a script"
    return f"{previous[: match.end(3)]}p{int(match[4] or 0) + 1}"


def first_id(call: str) -> str:
    """Return the id of the call that started the command which `call` started or polled."""
    match = _ID.search(call)
    return call[: match.end(3)] if match else call
