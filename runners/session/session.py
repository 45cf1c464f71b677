"""Agent session: the brief, workspace and tools of an agent, and the events of its steps.

The protocol with the arena is JSON, one object per line. The arena writes to stdin:

    {"adapter": "tuner", "settings": {}, "brief": {"task": "k/cpp-to-cpp", "target": "k.cpp",
     "rounds": 20, "seconds": 600}, "model": null, "program": ""}

The agent writes events to stdout; any other line is kept as a log:

    {"kind": "message", "id": "agent-1", "body": {"role": "assistant", "text": "..."}}

`runners.session.recorder` lists the kinds, and `arena.runs.trace.events` the fields of each body.
An event with the id of an earlier one replaces it; `span` and `parent` are optional ids of spans.
A line of the harness's own output is kept as it is, and is no event; a long one comes in parts:

    {"kind": "raw", "text": "...", "more": false}

A request to the socket `.arena-socket`, as `./arena-check` and `./arena-profile` send it, is either
of the first two lines, and its answer the third:

    {"op": "check", "note": "..."}
    {"op": "profile", "case": "..."}
    {"exit": 0, "text": "...", "rounds_left": 19, "speedup": 1.5, "low": 1.4, "high": 1.6}

`exit` is 0 for passed, 1 for not passed, 2 for refused, 3 for a failure of the arena. With 3,
`"verdict": "inconclusive"` says that other work on the machine made the measurement impossible.
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
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any, TextIO

from runners.session.arena_check import ARENA_FAULT, INCONCLUSIVE, PROFILE
from runners.session.text import limited

TIMEOUT_EXIT_CODE = 124
"""Exit code of a command that was ended, as of `timeout`."""
NOT_STARTED_EXIT_CODE = 126
"""Exit code of a command that cannot be started, as of a shell."""
REFUSED = 2
"""Exit code of `arena-check` that gives no verdict."""
MAX_RESUBMISSIONS = 3
"""Times that `check` submits the same source again after inconclusive rounds."""
MAX_LINE = 4 << 20
"""Characters of a line of events, of which the arena reads 8 MiB."""
MAX_PART = 256 << 10
"""Characters of a part of a long line, each of which JSON may write as twelve."""
MAX_OUTPUT_BYTES = 1 << 20
"""Output of a command that is kept."""


@dataclass(frozen=True)
class TaskBrief:
    """Task of an agent: its name, the target file, and the budget of rounds and seconds.

    `submitted` names what is submitted, where that is not one file.
    """

    task: str
    target: str
    rounds: int
    seconds: float
    submitted: str = ""

    @property
    def subject(self) -> str:
        """Return what is to be made faster, as prompts name it."""
        return self.submitted or self.target


@dataclass(frozen=True)
class ModelAccess:
    """A model behind the gateway, which is all of a network that an agent has.

    A request to `url` needs `token`, as a provider needs its key. `wires` are the wire formats of
    the provider that the agent's harness can use, best first.
    """

    name: str
    url: str
    token: str
    wires: tuple[str, ...]


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

    def __init__(
        self,
        folder: Path,
        brief: TaskBrief,
        out: TextIO,
        model: ModelAccess | None = None,
        program: str = "",
    ) -> None:
        """`program` is the path of the harness's executable, where it has one."""
        self.folder = folder
        self.brief = brief
        self.model = model
        self.program = program
        self.span = ""
        """Span of events that name none."""
        self.rounds_left = brief.rounds
        self._out = out
        self._writing = threading.Lock()  # a harness's standard error has a thread of its own
        self._ids = itertools.count(1)

    def message(
        self,
        text: str,
        *,
        reasoning: str = "",
        model: str = "",
        usage: Usage | None = None,
        cost_usd: float | None = None,
        stop_reason: str = "",
        role: str = "assistant",
        event: str = "",
        span: str = "",
    ) -> str:
        """Record a message and return its id.

        `usage` and `cost_usd` are only for a model that is not behind the gateway, which counts its
        calls itself. An `event` id given again replaces the message.
        """
        return self.record(
            "message",
            event=event,
            span=span,
            role=role,
            text=text,
            reasoning=reasoning,
            model=model,
            usage=asdict(usage) if usage else None,
            cost_usd=cost_usd,
            stop_reason=stop_reason,
        )

    def note(self, text: str, **detail: Any) -> None:
        self.record("note", text=text, detail=detail)

    def log(self, text: str, level: str = "info", stream: str = "") -> None:
        self.record("log", text=text, level=level, stream=stream)

    def raw(self, line: str) -> None:
        """Keep a line of the harness's output as it is, to check its translation against."""
        for begin in range(0, len(line), MAX_PART):
            part, more = line[begin : begin + MAX_PART], begin + MAX_PART < len(line)
            self._write({"kind": "raw", "text": part, "more": more})

    def begin_span(self, kind: str, title: str, *, parent: str = "") -> str:
        """Begin a `turn` or `subagent` and return its id, for the `span` of its events."""
        span = f"agent-{kind}-{next(self._ids)}"
        self.record("span_begin", event=f"{span}-begin", span=span, parent=parent, span_kind=kind,
                    title=title)  # fmt: skip
        return span

    def end_span(self, span: str, kind: str, *, ok: bool | None = None, message: str = "") -> None:
        self.record("span_end", event=f"{span}-end", span=span, span_kind=kind, ok=ok,
                    message=message)  # fmt: skip

    def tool_call(self, tool: str, arguments: Mapping[str, Any], *, span: str = "") -> str:
        """Record a call of a harness's own tool and return the id of its event."""
        return self.record("tool_call", span=span, tool=tool, arguments=dict(arguments), cwd=".")

    def tool_result(
        self,
        call: str,
        tool: str,
        output: str,
        *,
        ok: bool | None = True,
        exit_code: int | None = None,
        duration_ms: float | None = None,
        span: str = "",
    ) -> None:
        """Record the result of the tool call with the id `call`; empty for a result without one.

        `ok` is None where nothing states whether it succeeded.
        """
        self.record("tool_result", span=span, call=call, tool=tool, ok=ok, exit_code=exit_code,
                    duration_ms=duration_ms, output=output)  # fmt: skip

    def todo_list(self, items: Sequence[Mapping[str, str]], *, span: str = "") -> None:
        """Record the whole list: `text` and `status` (pending, in_progress, completed) of each."""
        self.record("todo_list", event="agent-todo-list", span=span, items=[dict(i) for i in items])

    def file_edit(self, path: str, before: str | None, after: str | None) -> None:
        """Record the change of a text file; None where it did not exist, or does not any more."""
        operation = "create" if before is None else "delete" if after is None else "modify"
        self.record(
            "file_edit",
            path=path,
            operation=operation,
            before_hash=_digest(before) if before is not None else "",
            after_hash=_digest(after) if after is not None else "",
            diff=_unified_diff(path, before or "", after or ""),
        )

    def read(self, path: str) -> str:
        return (self.folder / path).read_text(encoding="utf-8")

    def write(self, path: str, text: str) -> None:
        """Write a file of the workspace; an unchanged file makes no event."""
        file = self.folder / path
        before = self.read(path) if file.exists() else None
        if text == before:
            return
        file.write_text(text, encoding="utf-8")
        self.file_edit(path, before, text)

    def run(self, command: str, *, seconds: float = 60) -> CommandResult:
        """Run a shell command in the workspace; after `seconds` its process group is killed.

        The middle of an output beyond `MAX_OUTPUT_BYTES` is left out.
        """
        words = ["sh", "-c", command]
        return self._call("shell", {"command": command}, words, seconds=seconds)

    def check(self, note: str = "") -> Verdict:
        """Submit the target and wait for its verdict, again where a round is inconclusive.

        It is refused where `arena-check` prints no answer: the agent may have changed it.

        Raises: ArenaFailed when there is no verdict after `MAX_RESUBMISSIONS`, or no round is left.
        """
        answer = self._submit(note)
        for number in range(1, MAX_RESUBMISSIONS + 1):
            if answer.get("verdict") != INCONCLUSIVE or not self.rounds_left:
                break
            self.note(
                "Other work on the machine disturbed the measurement. The same source is submitted "
                f"again, {number} of at most {MAX_RESUBMISSIONS} times."
            )
            answer = self._submit(note)
        code = answer["exit"]
        if code == ARENA_FAULT:
            raise ArenaFailed(answer["text"])
        text, reason = answer["text"], answer.get("reason") or ""
        interval = (answer.get(name) for name in ("speedup", "low", "high"))
        return Verdict(code == 0, code == REFUSED, text, reason, *interval)

    def _submit(self, note: str) -> dict[str, Any]:
        """Return the answer to one request for a verdict, which is a round."""
        command = ["./arena-check", "--json", note]
        result = self._call(
            "arena-check",
            {"note": note},
            command,
            text_of=lambda output: _answer(output)["text"],
            ok_of=_ok_of_check,
        )
        answer = _answer(result.output)
        # A sample of the model loop has fewer rounds left than its run, which faults state.
        left = int(answer.get("rounds_left", self.rounds_left))
        self.rounds_left = min(self.rounds_left, left)
        return answer

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
        *,
        seconds: float | None = None,
        text_of: Callable[[str], str] = str,
        ok_of: Callable[[CommandResult], bool | None] = lambda result: result.code == 0,
    ) -> CommandResult:
        """Run a command as a tool call; `text_of` converts its output to the recorded text."""
        call = self.tool_call(tool, arguments)
        began = time.monotonic()
        try:
            result = self._execute(command, seconds)
        except (OSError, ValueError) as error:  # it is gone, or has a NUL, or is too long
            result = CommandResult(NOT_STARTED_EXIT_CODE, f"not started: {error}")
        milliseconds = (time.monotonic() - began) * 1000
        self.tool_result(
            call,
            tool,
            text_of(result.output),
            ok=ok_of(result),
            exit_code=result.code,
            duration_ms=round(milliseconds, 1),
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
            output = _bounded(file).decode(errors="replace")
        if timeout and output and not output.endswith("\n"):
            output += "\n"
        return CommandResult(code, output + timeout)

    def record(
        self, kind: str, *, event: str = "", span: str = "", parent: str = "", **body: Any
    ) -> str:
        """Write an event and return its id."""
        event = event or f"agent-{next(self._ids)}"
        about = {"kind": kind, "id": event, "span": span or self.span, "parent": parent}
        self._write({**about, "body": body})
        return event

    def _write(self, line: Mapping[str, Any]) -> None:
        text, limit = json.dumps(line), MAX_PART
        while len(text) > MAX_LINE and limit > 1:
            text, limit = json.dumps(_limited(line, limit)), limit // 2
        with self._writing:
            self._out.write(text + "\n")
            self._out.flush()


def _bounded(file: IO[bytes]) -> bytes:
    """Return the content of a file; beyond the limit only its beginning and its end."""
    half = MAX_OUTPUT_BYTES // 2
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    if size <= MAX_OUTPUT_BYTES:
        return file.read()
    head = file.read(half)
    file.seek(size - half)
    return head + f"\n[{size - 2 * half:,} bytes left out]\n".encode() + file.read(half)


def _limited(value: Any, limit: int) -> Any:
    """Return JSON data with each text limited."""
    if isinstance(value, str):
        return limited(value, limit)
    if isinstance(value, Mapping):
        return {name: _limited(each, limit) for name, each in value.items()}
    return [_limited(each, limit) for each in value] if isinstance(value, list) else value


def _answer(output: str) -> dict[str, Any]:
    """Return the answer that `arena-check` printed; a refusal where it printed none."""
    try:
        answer = json.loads(output.splitlines()[-1])
    except (ValueError, IndexError, RecursionError):
        answer = None
    if isinstance(answer, dict) and isinstance(answer.get("text"), str) and "exit" in answer:
        return answer
    return {"exit": REFUSED, "text": output.strip() or "arena-check printed no answer"}


def _ok_of_check(result: CommandResult) -> bool | None:
    """Return whether a round passed; None where the machine could not measure it."""
    inconclusive = _answer(result.output).get("verdict") == INCONCLUSIVE
    return None if inconclusive else result.code == 0


def _unified_diff(path: str, before: str, after: str) -> str:
    lines = difflib.unified_diff(
        before.splitlines(keepends=True), after.splitlines(keepends=True), f"a/{path}", f"b/{path}"
    )
    return "".join(line if line.endswith("\n") else line + "\n" for line in lines)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
