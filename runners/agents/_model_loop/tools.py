"""Tools of the model loop: read, write, edit, shell, check and profile.

Whatever a model does wrong, unknown tools and bad arguments included, is an answer to the model
and never ends the run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from runners.agents._model_loop.conversations import Call, Result, ToolSpec, object_of
from runners.session.calls import arguments_of
from runners.session.edits import EditObserver
from runners.session.text import limited

if TYPE_CHECKING:
    from runners.session.session import AgentSession

ToolName = Literal["read", "write", "edit", "shell", "check", "profile"]
TOOL_NAMES: tuple[ToolName, ...] = ("read", "write", "edit", "shell", "check", "profile")
MAX_OUTPUT = 30_000
"""Characters of a result that the model gets."""
MAX_LINES = 1000
MAX_SHELL_SECONDS = 3600.0


class ToolFailed(Exception):
    """Raised where a tool cannot do what it was called for; the model gets the message."""


class _Arguments(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Read(_Arguments):
    """Return lines of a text file, by default from its beginning."""

    path: str = Field(description="Path in the workspace, or an absolute path.")
    offset: int = Field(1, ge=1, description="Number of the first line.")
    limit: int = Field(MAX_LINES, ge=1, description="Number of lines.")


class Write(_Arguments):
    """Write a whole text file of the workspace; what it held is replaced."""

    path: str
    text: str


class Edit(_Arguments):
    """Replace a text in a file of the workspace. `old` must occur exactly once."""

    path: str
    old: str = Field(min_length=1, description="Text to replace, with enough around it.")
    new: str
    replace_all: bool = Field(False, description="Replace each occurrence.")


class Shell(_Arguments):
    """Run a command with sh in the workspace. There is no network; compilers are on PATH."""

    command: str
    seconds: float = Field(
        600, gt=0, le=MAX_SHELL_SECONDS, description="The command is killed after these seconds."
    )


class Check(_Arguments):
    """Submit the target file and return its verdict. It costs one round of the budget."""

    note: str = Field("", description="What was changed, in a few words.")


class Profile(_Arguments):
    """Return the times of the kernels of the last round on a seen case. It needs a GPU."""

    case: str = Field("", description="Name of a seen case, by default the largest.")


class Tools:
    """The tools of one sample, in the folder of its session."""

    def __init__(self, session: AgentSession, names: Sequence[ToolName]) -> None:
        self._session = session
        self._edits = EditObserver(session.folder)
        known: Mapping[str, tuple[type[_Arguments], Callable[[Any], str]]] = {
            "read": (Read, self._read),
            "write": (Write, self._write),
            "edit": (Edit, self._edit),
            "shell": (Shell, self._shell),
            "check": (Check, self._check),
            "profile": (Profile, self._profile),
        }
        self._known = {name: known[name] for name in names}

    @property
    def specs(self) -> list[ToolSpec]:
        """The tools as a model is told of them."""
        return [
            ToolSpec(name, arguments.__doc__ or "", _schema(arguments))
            for name, (arguments, _) in self._known.items()
        ]

    def answer(self, call: Call) -> Result:
        """Do what a call asks for, and record it. Raises: ArenaFailed."""
        try:
            arguments, act = self._find(call)
        except ToolFailed as error:
            return self.refuse(call, str(error))
        try:
            output = act(arguments)
        except ToolFailed as error:
            return Result(call, _sendable(str(error)), ok=False)
        finally:
            self._edits.record(self._session)
        return Result(call, _sendable(output))

    def refuse(self, call: Call, problem: str) -> Result:
        """Answer a call with a problem, and record both."""
        event = self._session.tool_call(call.tool, arguments_of(call.arguments))
        self._session.tool_result(event, call.tool, problem, ok=False)
        return Result(call, _sendable(problem), ok=False)

    def _find(self, call: Call) -> tuple[_Arguments, Callable[[Any], str]]:
        if call.tool not in self._known:
            raise ToolFailed(f"There is no tool {call.tool!r}; there are {', '.join(self._known)}.")
        form, act = self._known[call.tool]
        arguments = object_of(call.arguments)
        if arguments is None:
            raise ToolFailed(f"The arguments of {call.tool} must be a JSON object.")
        try:
            return form.model_validate(dict(arguments)), act
        except ValidationError as error:
            problems = (
                f"{'.'.join(map(str, each['loc'])) or 'arguments'}: {each['msg']}"
                for each in error.errors()
            )
            raise ToolFailed(f"Bad arguments of {call.tool}: {'; '.join(problems)}") from error

    def _record(self, tool: str, arguments: _Arguments, act: Callable[[], str]) -> str:
        """Do and record what is no command. Raises: ToolFailed."""
        event = self._session.tool_call(tool, arguments.model_dump())
        try:
            output = act()
        except (OSError, ValueError, ToolFailed) as error:
            self._session.tool_result(event, tool, str(error), ok=False)
            raise ToolFailed(str(error)) from error
        self._session.tool_result(event, tool, output)
        return output

    def _read(self, asked: Read) -> str:
        def act() -> str:
            lines = self._text(asked.path).splitlines()
            first, count = asked.offset - 1, min(asked.limit, MAX_LINES)
            shown = lines[first : first + count]
            left = len(lines) - first - len(shown)
            more = [f"[{left} more lines from {first + count + 1} on]"] if left > 0 else []
            if not shown:
                return f"[{asked.path} has {len(lines)} lines]"
            return limited("\n".join((*shown, *more)), MAX_OUTPUT)

        return self._record("read", asked, act)

    def _write(self, asked: Write) -> str:
        def act() -> str:
            path = self._path(asked.path)
            path.parent.mkdir(parents=True, exist_ok=True)
            data = asked.text.encode()  # before the file is emptied: not every text has bytes
            path.write_bytes(data)
            return f"Wrote {len(data):,} bytes to {asked.path}."

        return self._record("write", asked, act)

    def _edit(self, asked: Edit) -> str:
        def act() -> str:
            text = self._text(asked.path)
            count = text.count(asked.old)
            if not count:
                raise ToolFailed(f"{asked.path} does not contain the text in `old`.")
            if count > 1 and not asked.replace_all:
                raise ToolFailed(f"{asked.path} contains the text in `old` {count} times.")
            edited = text.replace(asked.old, asked.new).encode()
            self._path(asked.path).write_bytes(edited)
            return f"Replaced {count} of {count}."

        return self._record("edit", asked, act)

    def _shell(self, asked: Shell) -> str:
        result = self._session.run(asked.command, seconds=asked.seconds)
        if result.code:
            raise ToolFailed(f"{result.output}\n[exit code {result.code}]".lstrip("\n"))
        return result.output

    def _check(self, asked: Check) -> str:
        verdict = self._session.check(asked.note)
        if not verdict.passed:
            raise ToolFailed(verdict.text)
        return verdict.text

    def _profile(self, asked: Profile) -> str:
        result = self._session.profile(asked.case)
        if result.code:
            raise ToolFailed(result.output)
        return result.output

    def _path(self, path: str) -> Path:
        return self._session.folder / path

    def _text(self, path: str) -> str:
        """Return the text of a file. Raises: OSError, ToolFailed for one that is no text."""
        file = self._path(path)
        if file.exists() and not file.is_file():
            raise ToolFailed(f"{path} is not a file.")
        try:
            return file.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise ToolFailed(f"{path} is not a text file.") from error


def _sendable(text: str) -> str:
    """Return what the model gets of a result: bounded, and without lone surrogates.

    A model can write these as escapes of JSON, such as `\\ud83d`, and no client library sends them.
    """
    return limited(text, MAX_OUTPUT).encode("utf-8", "replace").decode()


def _schema(arguments: type[_Arguments]) -> Mapping[str, Any]:
    schema = arguments.model_json_schema()
    for name in ("title", "description"):
        schema.pop(name, None)
    for each in schema["properties"].values():
        each.pop("title", None)
    return schema
