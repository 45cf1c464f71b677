"""Execution of a harness's command line inside an agent's session.

An adapter starts the program with `run_harness`, and its translator makes each line of the output
events.
What it does not translate is kept as a log line; nothing is dropped, and nothing ends the run.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from runners.session.calls import Calls
from runners.session.edits import EditObserver
from runners.session.text import limited

if TYPE_CHECKING:
    from runners.session.session import AgentSession

Record = Mapping[str, Any]
MAX_LOG = 4000
STDERR_LINES = 40
PROMPT = """\
You optimise a kernel. Read TASK.md in this folder: it has the task, the calling convention, the
hardware, the cases and your budget. Edit {target}, then run ./arena-check in a shell to get a
verdict; it submits {target} as it is and costs one of your {rounds} rounds. ./arena-profile shows
where the time of the last round went. Make {target} correct first, then as fast as you can. Your
best round counts. Stop when nothing more can be gained or your rounds are spent."""


class HarnessFailed(Exception):
    """Raised when a program gave up; the last line of the message says why."""


class Translator(ABC):
    """Records each JSON object of one program's output as events of a session."""

    def __init__(self, session: AgentSession) -> None:
        self.failure = ""
        """Why the program gave up, as its output says; empty if it did not."""
        self.at_limit = False
        """True where it ended at a limit of its settings, which is no failure."""
        self._session = session
        self._model = session.model.name if session.model else ""
        self._calls = Calls(session)

    @abstractmethod
    def __call__(self, record: Record) -> bool:
        """Record the events of an object; False for one that is not known."""


@dataclass(frozen=True)
class Server:
    """An MCP server that a harness can start in the workspace."""

    name: str
    command: str

    def as_json(self) -> dict[str, Any]:
        """Return it in the form that most harnesses read."""
        return {"type": "stdio", "command": self.command, "args": []}


def mcp_server(session: AgentSession) -> Server:
    """Return the server of the tools check and profile. Raises: HarnessFailed."""
    path = session.folder / "arena-mcp"
    if not path.exists():
        raise HarnessFailed("arena-mcp is not in the workspace: install the library mcp")
    return Server("arena", str(path))


def prompt(session: AgentSession, extra: str = "") -> str:
    """Return the instruction that every harness gets, and `extra` of its settings."""
    brief = session.brief
    text = PROMPT.format(target=brief.subject, rounds=brief.rounds).replace("\n", " ")
    return f"{text}\n\n{extra}" if extra else text


def run_harness(
    session: AgentSession,
    command: Sequence[str],
    translate: Translator,
    env: Mapping[str, str] | None = None,
    limit_code: int = 0,
) -> None:
    """Run `command` in the workspace until it ends, and translate its standard output.

    `env` is added to the environment. Changes of text files in the workspace are recorded after
    each line. An exit with `limit_code` is one at a limit of its settings.

    Raises: HarnessFailed when there is a failure, or its exit code is neither 0 nor a limit's.
    """
    edits = EditObserver(session.folder)
    process = subprocess.Popen(
        command,
        cwd=session.folder,
        env={**os.environ, **(env or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout and process.stderr
    stderr: list[str] = []
    collector = threading.Thread(target=_collect, args=(session, process.stderr, stderr))
    collector.start()
    for data in process.stdout:
        line = data.decode(errors="replace").rstrip("\n")
        if line.strip():
            translate_line(session, line, translate)
            edits.record(session)
    code = process.wait()
    collector.join()
    edits.record(session)
    name = Path(command[0]).name
    if translate.failure:
        raise HarnessFailed(f"{name} gave up: {' '.join(translate.failure.split())}")
    if code < 0:
        raise HarnessFailed(f"{name} was ended by {signal.Signals(-code).name}")
    if code and not translate.at_limit and code != limit_code:
        *rest, last = stderr[-STDERR_LINES:] or ["it printed no reason"]
        raise HarnessFailed("\n".join((*rest, f"{name} ended with status {code}: {last}")))


def translate_line(session: AgentSession, line: str, translate: Translator) -> None:
    """Keep a line as it is and translate it; one that cannot be translated becomes a log line."""
    session.raw(line)
    try:
        record = json.loads(line)
        known = isinstance(record, dict) and translate(record)
        problem = "unknown record"
    except (ValueError, RecursionError):
        known, problem = False, ""
    except Exception as error:  # an unexpected form of a record must not end the run
        known, problem = False, f"not understood: {type(error).__name__}: {error}"
    if not known:
        text = limited(line, MAX_LOG)
        session.log(f"{text}\n({problem})" if problem else text, stream="stdout")


def _collect(session: AgentSession, stream: IO[bytes], lines: list[str]) -> None:
    """Record a program's standard error as log lines."""
    for data in stream:
        if line := limited(data.decode(errors="replace").rstrip(), MAX_LOG):
            lines.append(line)
            session.log(line, level="warning", stream="stderr")
