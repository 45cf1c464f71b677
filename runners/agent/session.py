"""Agent session: its brief, its folder, its tools, and the events of its steps."""

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
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TextIO

from runners.agent.arena_check import ARENA_FAULT, PROFILE

LATE = 124
"""Exit code of a command that was ended, as of `timeout`."""


@dataclass(frozen=True)
class TaskBrief:
    """Task of an agent: its name, the target file, and the budget of rounds and seconds."""

    task: str
    target: str
    rounds: int
    seconds: float


@dataclass(frozen=True)
class Ran:
    """A finished command: its exit code and output."""

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

    @classmethod
    def of(cls, answer: Mapping[str, Any]) -> Verdict:
        return cls(
            passed=answer["exit"] == 0,
            refused=answer["exit"] == 2,
            text=answer["text"],
            reason=answer.get("reason") or "",
            speedup=answer.get("speedup"),
            low=answer.get("low"),
            high=answer.get("high"),
        )


class AgentSession:
    """A workspace as an agent sees it. Every step is written to `out` as an event."""

    def __init__(self, folder: Path, brief: TaskBrief, out: TextIO) -> None:
        self.folder = folder
        self.brief = brief
        self.rounds_left = brief.rounds
        self._out = out
        self._ids = itertools.count(1)

    def say(
        self,
        text: str,
        *,
        reasoning: str = "",
        model: str = "",
        usage: Usage | None = None,
        cost_usd: float | None = None,
    ) -> None:
        """Send a message. The run shows the sums of tokens and cost."""
        self._tell(
            "message",
            role="assistant",
            text=text,
            reasoning=reasoning,
            model=model,
            usage=asdict(usage) if usage else None,
            cost_usd=cost_usd,
        )

    def note(self, text: str, **detail: Any) -> None:
        self._tell("note", text=text, detail=detail)

    def read(self, path: str) -> str:
        return (self.folder / path).read_text(encoding="utf-8")

    def write(self, path: str, text: str) -> None:
        """Write a file of the workspace; an unchanged file makes no event."""
        file = self.folder / path
        before = self.read(path) if file.exists() else None
        if text == before:
            return
        file.write_text(text, encoding="utf-8")
        self._tell(
            "file_edit",
            path=path,
            operation="create" if before is None else "modify",
            before_hash=_digest(before) if before is not None else "",
            after_hash=_digest(text),
            diff=unified_diff(path, before or "", text),
        )

    def run(self, command: str, *, seconds: float = 60) -> Ran:
        """Run a shell command in the workspace; after `seconds` its process group is killed."""
        call = self._tell("tool_call", tool="shell", arguments={"command": command}, cwd=".")
        ran, took = self._spawn(["sh", "-c", command], seconds)
        self._told(call, "shell", ran, took, ran.output)
        return ran

    def check(self, note: str = "") -> Verdict:
        """Submit the target and wait for its verdict. Raises `ArenaFailed` when there is none."""
        call = self._tell("tool_call", tool="arena-check", arguments={"note": note}, cwd=".")
        ran, took = self._spawn(["./arena-check", "--json", note], seconds=None)
        answer = json.loads(ran.output.splitlines()[-1])
        self._told(call, "arena-check", ran, took, answer["text"])
        if ran.code == ARENA_FAULT:
            raise ArenaFailed(answer["text"])
        verdict = Verdict.of(answer)
        self.rounds_left = int(answer.get("rounds_left", self.rounds_left))
        return verdict

    def profile(self, case: str = "") -> Ran:
        """Request a profile of the last round on a seen case, by default the largest.

        Returns: a table as text, or why there is none.
        """
        call = self._tell("tool_call", tool=PROFILE, arguments={"case": case}, cwd=".")
        ran, took = self._spawn([f"./{PROFILE}", *filter(None, [case])], seconds=None)
        self._told(call, PROFILE, ran, took, ran.output)
        return ran

    def _spawn(self, command: Sequence[str], seconds: float | None) -> tuple[Ran, float]:
        began = time.monotonic()
        # To a file: what was sent away may hold its end of a pipe for ever.
        with tempfile.TemporaryFile() as said:
            process = subprocess.Popen(
                command,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            code, late = LATE, ""
            try:
                code = process.wait(seconds)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                late = f"ended after {seconds:g} seconds"
            said.seek(0)
            output = said.read().decode(errors="replace")
        if late and output and not output.endswith("\n"):
            output += "\n"
        return Ran(code, output + late), (time.monotonic() - began) * 1000

    def _told(self, call: str, tool: str, ran: Ran, took_ms: float, output: str) -> None:
        self._tell(
            "tool_result",
            call=call,
            tool=tool,
            ok=ran.code == 0,
            exit_code=ran.code,
            duration_ms=round(took_ms, 1),
            output=output,
        )

    def _tell(self, kind: str, **body: Any) -> str:
        event = f"agent-{next(self._ids)}"
        print(json.dumps({"kind": kind, "id": event, "body": body}), file=self._out, flush=True)
        return event


def unified_diff(path: str, before: str, after: str) -> str:
    lines = difflib.unified_diff(
        before.splitlines(keepends=True), after.splitlines(keepends=True), f"a/{path}", f"b/{path}"
    )
    return "".join(line if line.endswith("\n") else line + "\n" for line in lines)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
