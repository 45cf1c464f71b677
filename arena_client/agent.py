"""An agent on this machine: a program in a folder, its checks, and its output as a live trace.

The program runs with the rights and accounts of its user. It never sees the token of the arena:
`./arena-check` in its folder asks this process, which asks the arena.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socketserver
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from arena_client import ArenaError, OwnRun
from arena_client.cursor import CursorEvents
from arena_client.types import EventIn, RewardOut, TaskDetail

Translator = Callable[[Mapping[str, Any]], "list[EventIn] | None"]

CHECK = "arena-check"
PROMPT = (
    "Make the kernel in {target} as fast as you can, and keep it right. TASK.md in this folder has"
    " the task. ./arena-check NOTE submits the file and prints its verdict; you have {rounds}"
    " checks. End when you find nothing faster."
)
FLUSH_SECONDS, SIGN_OF_LIFE_SECONDS, END_SECONDS = 0.5, 30.0, 5.0
MAX_BATCH, MAX_BATCH_CHARS, MAX_LINE = 500, 1_000_000, 100_000
READ_BYTES = 1 << 20
"""Bytes of one read: as many as the largest pipe holds, so that it takes all that waits."""
PASSED, NOT_PASSED, REFUSED, FAULT = 0, 1, 2, 3
AGAIN = "Submit it again: such rounds are free, up to the number of rounds."
"""Advice after a round that is inconclusive, since other work disturbed the measurement."""
CONFLICT, TOO_LARGE = 409, 413
REFUSALS = (400, TOO_LARGE, 422)
"""Statuses of a batch of which nothing is stored, whose run goes on."""
_CHECK_SCRIPT = """\
#!{python}
\"\"\"Submit {target} and print its verdict: ./arena-check [NOTE ...]

Exit status: 0 passed, 1 not passed, 2 refused, 3 a fault of the arena.
\"\"\"
import json, socket, sys

with socket.socket(socket.AF_UNIX) as asked:
    try:
        asked.connect({socket!r})
        asked.sendall(json.dumps(" ".join(sys.argv[1:])).encode() + b"\\n")
        status, text = json.loads(asked.makefile("rb").readline())
    except (OSError, ValueError) as error:
        status, text = 3, f"the run is over: {{error}}"
print(text)
sys.exit(status)
"""


@dataclass(frozen=True)
class Program:
    """A program that works as an agent: its name, its words but for the prompt, its output."""

    name: str
    words: tuple[str, ...]
    model: str = ""
    translate: Translator = lambda record: None
    """Events of a record of its output. Lines without any are lines of log."""

    @classmethod
    def of(cls, name: str, options: Sequence[str] = (), model: str = "") -> Program:
        """Return Cursor's program, or any other with its options."""
        chosen = ("--model", model) if model else ()
        if name == "cursor":
            fixed = ("cursor-agent", "-p", "--output-format", "stream-json", "--force")
            return cls(name, (*fixed, *chosen, *options), model, CursorEvents())
        return cls(Path(name).name, (name, *options), model, own_event)


def own_event(record: Mapping[str, Any]) -> list[EventIn] | None:
    """Return a record that is an event itself, as `docs/client.md` describes."""
    if isinstance(record.get("kind"), str) and isinstance(record.get("body"), dict):
        names = ("kind", "body", "id", "span", "parent", "rev")
        return [{name: record[name] for name in names if name in record}]  # type: ignore[list-item]
    return None


def prepare(folder: Path, task: TaskDetail) -> Path:
    """Write the files of a task into an empty folder and return the one to submit."""
    for name, text in task["public"]["starter"].items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder / str(task["public"]["target_file"])


class Output:
    """The lines of a pipe, which any thread may take; `add` gets each of them once, in order."""

    def __init__(self, pipe: IO[bytes], add: Callable[[str], None]) -> None:
        self._pipe, self._add = pipe, add  # the pipe is kept open
        self._taking = threading.Lock()
        self._rest: list[bytes] = []
        os.set_blocking(pipe.fileno(), False)

    def follow(self) -> None:
        """Take lines as they come, until all writers have ended."""
        while self.take():
            select.select([self._pipe], [], [])

    def take(self) -> bool:
        """Take the lines that were written so far; return whether more may come."""
        with self._taking:
            try:
                found = os.read(self._pipe.fileno(), READ_BYTES)
            except BlockingIOError:
                return True
            *ends, rest = found.split(b"\n")
            for end in ends:
                self._add_line(end)
            self._rest.append(rest)
            if not found and any(self._rest):
                self._add_line(b"")  # a last line without an end
            return bool(found)

    def _add_line(self, end: bytes) -> None:
        line = b"".join((*self._rest, end))
        self._rest.clear()
        self._add(line.decode(errors="replace").rstrip("\r"))


class Agent:
    """One run of a program: its output is sent as it comes, and its checks are answered."""

    def __init__(self, run: OwnRun, program: Program, target: Path) -> None:
        self._run, self._program, self._target = run, program, target
        self._events: deque[EventIn] = deque()
        self._output: Output | None = None
        self._sending, self._checking = threading.Lock(), threading.Lock()
        self._checked: str | None = None
        """The source that was submitted last."""

    def work(self, rounds: int) -> None:
        """Run the program until it ends or the run does. What it left unchecked is checked then."""
        prompt = PROMPT.format(target=self._target.name, rounds=rounds)
        folder = self._target.parent
        environment = {name: value for name, value in os.environ.items() if name != "ARENA_TOKEN"}
        with self._answering(folder):
            process = subprocess.Popen(
                (*self._program.words, prompt),
                cwd=folder,
                env={**environment, "PYTHONUNBUFFERED": "1", "ARENA_TARGET": self._target.name},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            assert process.stdout
            self._output = output = Output(process.stdout, self._add)
            reader = threading.Thread(target=output.follow, daemon=True)
            reader.start()
            try:
                active = self._follow(process)
            finally:
                end(process)
            reader.join(END_SECONDS)  # what it left in the background may hold the pipe
            if active:
                self._conclude(process.returncode)

    def finish(self) -> None:
        """End the run, after the check that is under way: its best round gets the final verdict."""
        with self._checking:
            with suppress(ArenaError, OSError):  # the run is ended all the same
                self._send_written()
            self._run.finish()

    def check(self, note: str) -> tuple[int, str]:
        """Submit the file as it is; return an exit status and the verdict as text.

        Output that was written before is sent before, so that the trace has it in its place.
        """
        with self._checking:
            try:
                self._send_written()
                source = self._target.read_text(encoding="utf-8")
                verdict = self._run.check(source, note)
                self._checked = source
            except (UnicodeDecodeError, FileNotFoundError) as error:
                return REFUSED, f"{self._target.name} cannot be read: {error}"
            except ArenaError as error:
                return (REFUSED if error.status < 500 else FAULT), str(error)
            except (OSError, TimeoutError) as error:
                return FAULT, f"the arena does not answer: {error}"
        text = text_of(verdict)
        print(text.splitlines()[0], flush=True)
        if verdict["verdict"] == "inconclusive":
            text = f"{text}\n{AGAIN}"
        if verdict["status"] == "broken":
            return FAULT, text
        return PASSED if verdict["verdict"] == "passed" else NOT_PASSED, text

    def _follow(self, process: subprocess.Popen[bytes]) -> bool:
        """Send what comes until the program ends; return whether the run is still active."""
        sent_at = time.monotonic()
        while True:
            ended = process.poll() is not None
            due = time.monotonic() - sent_at > SIGN_OF_LIFE_SECONDS
            if due or self._events:
                sent_at = time.monotonic()
                if not self._send():
                    return False
            if ended:
                return True
            try:
                process.wait(FLUSH_SECONDS)
            except subprocess.TimeoutExpired:
                continue

    def _send_written(self) -> None:
        """Send the output that was written so far, before anything else makes an event."""
        if self._output:
            self._output.take()
        if self._events:
            self._send(last=True)

    def _send(self, last: bool = False) -> bool:
        """Send the events that wait, or a sign of life; return whether the run is active.

        With `last` all that wait now are sent. An event waits until its batch has arrived.
        """
        with self._sending:
            left = len(self._events)
            while True:
                batch: list[EventIn] = []
                size = 0
                while len(batch) < min(MAX_BATCH, left) and size < MAX_BATCH_CHARS:
                    batch.append(self._events[len(batch)])
                    size += len(json.dumps(batch[-1]))
                active = self._deliver(batch)
                for _ in batch:
                    self._events.popleft()
                left -= len(batch)
                if not active or not last or not left:
                    return active

    def _deliver(self, batch: Sequence[EventIn]) -> bool:
        """Send a batch, without the events that the arena refuses; return whether the run goes on.

        Raises: ArenaError for another refusal.
        """
        try:
            return self._run.send(batch)["status"] == "running"
        except ArenaError as error:
            if error.status == CONFLICT:  # the run has ended
                return False
            if error.status not in REFUSALS:
                raise
            if len(batch) > 1 and error.status != TOO_LARGE:
                middle = len(batch) // 2
                return self._deliver(batch[:middle]) and self._deliver(batch[middle:])
            print(f"arena: {len(batch)} events were refused: {error}", file=sys.stderr)
            return True

    def _add(self, line: str) -> None:
        self._events.extend(self._translated(line))

    def _translated(self, line: str) -> list[EventIn]:
        try:
            record = json.loads(line)
            events = self._program.translate(record) if isinstance(record, dict) else None
        except (ValueError, RecursionError):
            events = None
        if events is None:
            text = line[:MAX_LINE]
            return [{"kind": "log", "body": {"text": text}}] if text.strip() else []
        return events

    def _conclude(self, status: int) -> None:
        """Send the rest, and check what was left without a check; a spent budget may refuse it."""
        if status:
            text = f"{self._program.words[0]} ended with status {status}."
            self._events.append({"kind": "error", "body": {"message": text}})
        if not self._send(last=True):
            return
        try:
            left = self._target.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return
        if left.strip() and left != self._checked:
            self.check("as it was left")

    @contextmanager
    def _answering(self, folder: Path) -> Iterator[None]:
        """Serve ./arena-check in the folder, by a socket that only this user reaches."""
        agent = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                note = json.loads(self.rfile.readline() or b'""')
                self.wfile.write(json.dumps(agent.check(str(note))).encode() + b"\n")

        class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
            daemon_threads = True

        with tempfile.TemporaryDirectory(prefix="arena-") as place:
            address = f"{place}/socket"
            script = folder / CHECK
            words = {"python": sys.executable, "target": self._target.name, "socket": address}
            script.write_text(_CHECK_SCRIPT.format(**words), encoding="utf-8")
            script.chmod(0o755)
            with Server(address, Handler) as server:
                threading.Thread(target=server.serve_forever, daemon=True).start()
                try:
                    yield
                finally:
                    server.shutdown()


def end(process: subprocess.Popen[bytes]) -> None:
    """End a program and what it started in its session."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except (ProcessLookupError, PermissionError):
            break
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            continue
    process.wait()


def text_of(verdict: RewardOut) -> str:
    """Return a verdict as lines for an agent."""
    seen, words = verdict["seen"], [verdict["verdict"] or verdict["status"]]
    if seen:
        words.append(f"{seen['speedup']:.3f}x on public cases")
        if seen["low"] is not None and seen["high"] is not None:
            words.append(f"95 % from {seen['low']:.3f}x to {seen['high']:.3f}x")
    words += filter(None, (verdict["reason"], verdict["message"]))
    lines = [f"Round {verdict['round']}: {', '.join(words)}"]
    for gate in verdict["gates"]:
        why = " ".join(filter(None, (gate["reason"], gate["message"])))
        lines.append(f"  {gate['gate']}: {gate['verdict']} {why}".rstrip())
    lines += [f"    {case['case']}: {case['speedup']:.2f}x" for case in verdict["cases"]]
    return "\n".join(lines)
