"""Agent that is any program, given in its settings: the way in for search and learning agents.

Its output is shown as log. A line that is an event of the session protocol becomes that event.
`docs/search-agents.md` has an example.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import IO, TYPE_CHECKING, Any, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from runners.agents import Harness, Spec
from runners.agents._parts.settings import checked
from runners.session.arena_check import ARENA_FAULT
from runners.session.edits import EditObserver
from runners.session.session import ArenaFailed
from runners.session.text import limited

if TYPE_CHECKING:
    from runners.session.session import AgentSession

HARNESS = Harness("Command")
SPECS = (
    Spec(
        slug="command",
        title="Command",
        description=(
            "Runs a program given in its settings. As it comes, it submits the starter source:"
            " make an agent of your own with another command."
        ),
        settings={"shell": "./arena-check 'the starter source'"},
    ),
)

FLUSH_SECONDS = 0.3
"""Lines that arrive within this time become one event."""
LAST_OUTPUT_SECONDS = 2.0
MAX_LINE, MAX_LINES = 4000, 500
MAX_FILE = 1_000_000


class Settings(BaseModel):
    """Settings of a command: a shell line, or a program with its arguments."""

    model_config = ConfigDict(extra="forbid")

    shell: str = Field("", description="Line for sh in the workspace, such as python3 search.py.")
    command: list[str] = Field([], description="A program and its arguments, instead of a line.")
    files: dict[str, str] = Field(
        {}, description='Text files for the workspace, by path: {"search.py": "..."}.'
    )

    @field_validator("files")
    @classmethod
    def _paths_stay_inside(cls, files: dict[str, str]) -> dict[str, str]:
        for name, text in files.items():
            path = PurePosixPath(name)
            if not path.parts or path.is_absolute() or ".." in path.parts:
                raise ValueError(f"{name!r} is not a path inside the workspace")
            if len(text) > MAX_FILE:
                raise ValueError(f"{name} has more than {MAX_FILE:,} characters")
        return files

    @model_validator(mode="after")
    def _one_command(self) -> Self:
        if bool(self.shell) == bool(self.command):
            raise ValueError("set either shell or command")
        return self


def work(session: AgentSession, settings: Mapping[str, Any]) -> None:
    """Run the program until it ends.

    Raises: ArenaFailed where its exit status is that of a failure of the arena.
    """
    chosen = checked(Settings, settings)
    for name, text in chosen.files.items():
        (session.folder / name).parent.mkdir(parents=True, exist_ok=True)
        session.write(name, text)
    words = chosen.command or ["sh", "-c", chosen.shell]
    try:
        process = subprocess.Popen(
            words,
            cwd=session.folder,
            env={**os.environ, **environment(session)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    except OSError as error:
        sys.exit(f"{words[0]} cannot be started: {error.strerror}")
    assert process.stdout and process.stderr
    output = _Output(session)
    pipes = (("stdout", process.stdout), ("stderr", process.stderr))
    threads = [threading.Thread(target=output.read, args=pipe, daemon=True) for pipe in pipes]
    for thread in threads:
        thread.start()
    code = process.wait()
    for thread in threads:
        thread.join(LAST_OUTPUT_SECONDS)  # what it left in the background may hold a pipe
    output.close()
    if code:
        last = output.last_error or "it printed no reason"
        text = f"{words[0]} ended with status {code}: {last}"
        if code == ARENA_FAULT:  # as of ./arena-check; the worker knows whether the arena failed
            raise ArenaFailed(text)
        sys.exit(text)


def environment(session: AgentSession) -> dict[str, str]:
    """Return the variables that tell the program its task, its budget and its model.

    With those of a model the official client libraries need no further settings.
    """
    brief = session.brief
    variables = {
        "ARENA_TASK": brief.task,
        "ARENA_TARGET": brief.target,
        "ARENA_ROUNDS": str(brief.rounds),
        "ARENA_SECONDS": f"{brief.seconds:g}",
        "PYTHONUNBUFFERED": "1",
    }
    if model := session.model:
        variables |= {"ARENA_MODEL": model.name, "ARENA_MODEL_WIRES": ",".join(model.wires)}
        for provider, url in (("ANTHROPIC", model.url), ("OPENAI", f"{model.url}/v1")):
            variables |= {f"{provider}_BASE_URL": url, f"{provider}_API_KEY": model.token}
    return variables


class _Output:
    """Output of the program: its events, and its other lines as log events of several lines."""

    def __init__(self, session: AgentSession) -> None:
        self.last_error = ""
        """The last line of its standard error."""
        self._session = session
        self._edits = EditObserver(session.folder)
        self._lines: dict[str, list[str]] = {"stdout": [], "stderr": []}
        self._changing = threading.Lock()
        self._closed = threading.Event()
        self._flusher = threading.Thread(target=self._flush_often, daemon=True)
        self._flusher.start()

    def read(self, stream: str, pipe: IO[bytes]) -> None:
        """Record each line of a stream until its end."""
        for data in pipe:
            line = data.decode(errors="replace").rstrip("\r\n")
            if not line.strip():
                continue
            event = _event(line) if stream == "stdout" else None
            with self._changing:
                if event is not None:
                    self._flush()
                    self._record(event)
                    continue
                line = limited(line, MAX_LINE)
                self._lines[stream].append(line)
                if stream == "stderr":
                    self.last_error = line
                if len(self._lines[stream]) >= MAX_LINES:
                    self._flush()

    def close(self) -> None:
        """Record what is left."""
        self._closed.set()
        self._flusher.join()
        with self._changing:
            self._flush()

    def _flush_often(self) -> None:
        while not self._closed.wait(FLUSH_SECONDS):
            with self._changing:
                self._flush()

    def _flush(self) -> None:
        for stream, lines in self._lines.items():
            if lines:
                level = "warning" if stream == "stderr" else "info"
                self._session.log("\n".join(lines), level=level, stream=stream)
                lines.clear()
        self._edits.record(self._session)

    def _record(self, event: Mapping[str, Any]) -> None:
        name, span, parent = (_name(event.get(each)) for each in ("id", "span", "parent"))
        body = {name: value for name, value in event["body"].items() if name not in _RESERVED}
        self._session.record(event["kind"], event=name, span=span, parent=parent, **body)


_OWN = re.compile(r"\Aagent-(?=(?:turn-|subagent-)?\d+\Z)")
_RESERVED = frozenset({"self", "kind", "event", "span", "parent"})
"""Names that no body of an event has."""


def _name(given: Any) -> str:
    """Return an id of the program's, as one that the session gives to no event of its own."""
    return _OWN.sub("agent-program-", str(given or ""))


def _event(line: str) -> Mapping[str, Any] | None:
    """Return the event that a line is; None for any other line."""
    if not line.startswith("{"):
        return None
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    match found:
        case {"kind": str(), "body": dict()}:
            event: Mapping[str, Any] = found
            return event
    return None
