"""Agent session: the brief, workspace and tools of an agent, and the events of its steps.

The protocol with the arena is JSON, one object per line. The arena writes to stdin:

    {"adapter": "tuner", "settings": {}, "brief": {"task": "k/cpp-to-cpp", "target": "k.cpp",
     "rounds": 20, "seconds": 600}}

The agent writes events to stdout; any other line is kept as a log:

    {"kind": "message", "id": "agent-1", "body": {"role": "assistant", "text": "..."}}

`runners.agent.recorder` lists the kinds, and `arena.runs.trace.events` the fields of each body. An
event with the id of an earlier one replaces it; `span` and `parent` are optional ids of spans.

A request to the socket `.arena-socket`, as `./arena-check` and `./arena-profile` send it, is either
of the first two lines, and its answer the third:

    {"op": "check", "note": "..."}
    {"op": "profile", "case": "..."}
    {"exit": 0, "text": "...", "rounds_left": 19, "speedup": 1.5, "low": 1.4, "high": 1.6}

`exit` is 0 for passed, 1 for not passed, 2 for refused, 3 for a failure of the arena.
"""

from __future__ import annotations

import difflib
import hashlib
import itertools
import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TextIO

from runners.agent.arena_check import ARENA_FAULT, PROFILE

TIMEOUT_EXIT_CODE = 124
"""Exit code of a command that was ended, as of `timeout`."""


@dataclass(frozen=True)
class TaskBrief:
    """Task of an agent: its name, the target file, and the budget of rounds and seconds."""

    task: str
    target: str
    rounds: int
    seconds: float


@dataclass(frozen=True)
class CommandResult:
    """Exit code and output of a finished command."""

    code: int
    output: str


@dataclass(frozen=True)
class Usage:
    """Tokens of one model message."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0


class ArenaFailed(Exception):
    """Raised where the arena could not judge; the run ends."""


@dataclass(frozen=True)
class Verdict:
    """Answer to one request. The speedup and its 95 % interval are None where nothing was timed."""

    passed: bool
    refused: bool
    text: str
    reason: str
    speedup: float | None
    low: float | None
    high: float | None


class AgentSession:
    """A workspace as an agent sees it. Every step is written to `out` as an event."""

    def __init__(self, folder: Path, brief: TaskBrief, out: TextIO) -> None:
        self.folder = folder
        self.brief = brief
        self.rounds_left = brief.rounds
        self._out = out
        self._ids = itertools.count(1)

    def message(
        self,
        text: str,
        *,
        reasoning: str = "",
        model: str = "",
        usage: Usage | None = None,
        cost_usd: float | None = None,
    ) -> None:
        """Record a message. The run shows the sums of tokens and cost."""
        self._record(
            "message",
            role="assistant",
            text=text,
            reasoning=reasoning,
            model=model,
            usage=asdict(usage) if usage else None,
            cost_usd=cost_usd,
        )

    def note(self, text: str, **detail: Any) -> None:
        self._record("note", text=text, detail=detail)

    def read(self, path: str) -> str:
        return (self.folder / path).read_text(encoding="utf-8")

    def write(self, path: str, text: str) -> None:
        """Write a file of the workspace; an unchanged file makes no event."""
        file = self.folder / path
        before = self.read(path) if file.exists() else None
        if text == before:
            return
        file.write_text(text, encoding="utf-8")
        self._record(
            "file_edit",
            path=path,
            operation="create" if before is None else "modify",
            before_hash=_digest(before) if before is not None else "",
            after_hash=_digest(text),
            diff=_unified_diff(path, before or "", text),
        )

    def run(self, command: str, *, seconds: float = 60) -> CommandResult:
        """Run a shell command in the workspace; after `seconds` its process group is killed."""
        return self._call("shell", {"command": command}, ["sh", "-c", command], seconds)

    def check(self, note: str = "") -> Verdict:
        """Submit the target and wait for its verdict.

        Raises: ArenaFailed when there is none.
        """
        command = ["./arena-check", "--json", note]
        result = self._call(
            "arena-check", {"note": note}, command, text_of=lambda output: _answer(output)["text"]
        )
        answer = _answer(result.output)
        if result.code == ARENA_FAULT:
            raise ArenaFailed(answer["text"])
        self.rounds_left = int(answer.get("rounds_left", self.rounds_left))
        text, reason = answer["text"], answer.get("reason") or ""
        interval = (answer.get(name) for name in ("speedup", "low", "high"))
        return Verdict(result.code == 0, result.code == 2, text, reason, *interval)

    def profile(self, case: str = "") -> CommandResult:
        """Request a profile of the last round on a seen case, by default the largest.

        Returns: a table as text, or why there is none.
        """
        return self._call(PROFILE, {"case": case}, [f"./{PROFILE}", *filter(None, [case])])

    def _call(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        command: Sequence[str],
        seconds: float | None = None,
        text_of: Callable[[str], str] = str,
    ) -> CommandResult:
        """Run a command as a tool call; `text_of` converts its output to the recorded text."""
        call = self._record("tool_call", tool=tool, arguments=arguments, cwd=".")
        began = time.monotonic()
        result = self._execute(command, seconds)
        milliseconds = (time.monotonic() - began) * 1000
        self._record(
            "tool_result",
            call=call,
            tool=tool,
            ok=result.code == 0,
            exit_code=result.code,
            duration_ms=round(milliseconds, 1),
            output=text_of(result.output),
        )
        return result

    def _execute(self, command: Sequence[str], seconds: float | None) -> CommandResult:
        # To a file: a background process may keep its end of a pipe open forever.
        with tempfile.TemporaryFile() as file:
            process = subprocess.Popen(
                command,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            code, timeout = TIMEOUT_EXIT_CODE, ""
            try:
                code = process.wait(seconds)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                timeout = f"ended after {seconds:g} seconds"
            file.seek(0)
            output = file.read().decode(errors="replace")
        if timeout and output and not output.endswith("\n"):
            output += "\n"
        return CommandResult(code, output + timeout)

    def _record(self, kind: str, **body: Any) -> str:
        """Write an event and return its id."""
        event = f"agent-{next(self._ids)}"
        print(json.dumps({"kind": kind, "id": event, "body": body}), file=self._out, flush=True)
        return event


def _answer(output: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(output.splitlines()[-1])
    return answer


def _unified_diff(path: str, before: str, after: str) -> str:
    lines = difflib.unified_diff(
        before.splitlines(keepends=True), after.splitlines(keepends=True), f"a/{path}", f"b/{path}"
    )
    return "".join(line if line.endswith("\n") else line + "\n" for line in lines)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
