"""Supervisor of one child process: its output by line, its time, and its complete end."""

from __future__ import annotations

import contextlib
import fcntl
import math
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from evaluation.sandbox.resource_watch import Excess, ResourceWatch
from runners.process.account import Account

SUBREAPER = Path(__file__).with_name("subreaper.py")
HEARTBEAT_SECONDS = 2.0
GRACE_SECONDS = 5.0
LINE_BYTES = 8 << 20
STDERR_BYTES = 16 << 10
CHUNK = 1 << 16

stopping = threading.Event()
"""Set when this process is to end: every child is stopped at its next heartbeat."""


class Ending(StrEnum):
    """Reason why a child ended."""

    EXITED = "exited"
    ANSWERED = "answered"
    """It has answered, and lives on."""
    DEADLINE = "deadline"
    STOPPED = "stopped"
    FLOOD = "flood"
    """The listener's limit was reached."""
    LONG_LINE = "long line"
    """A line of more bytes than its limit."""
    EXCESS = "excess"
    """A resource limit of the whole process tree was exceeded."""


@dataclass(frozen=True)
class Ended:
    """End of a child: `code` as a shell gives it (128 + n after signal n), and its last stderr."""

    ending: Ending
    code: int
    stderr: str
    excess: Excess | None = None


class LineTooLong(Exception):
    """Raised for a line beyond the limit."""


class Lines:
    """Splits bytes into whole lines."""

    def __init__(self, limit: int) -> None:
        self._rest = b""
        self._limit = limit

    def feed(self, data: bytes) -> list[str]:
        """Return the lines that `data` completes. Raises LineTooLong."""
        *whole, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > self._limit or any(len(line) > self._limit for line in whole):
            raise LineTooLong
        return [line.decode(errors="replace") for line in whole if line.strip()]

    def end(self) -> list[str]:
        """Return the unterminated last line, if there is one."""
        return self.feed(b"\n")


class Child:
    """A command under a subreaper, in a session of its own; `on_lines` gets its stdout.

    `stdin` is its whole input; with None lines are sent by `ask`. When it is to end, it has
    `grace_seconds` to do so by itself. It runs as `account`, by default as this user. `on_lines` is
    called by whoever drains, one caller at a time. It raises OverflowError to end the child; any
    other exception also ends it, and reaches the caller of `follow`.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        on_lines: Callable[[list[str]], None],
        stdin: str | None = "",
        cwd: str | Path | None = None,
        env: Mapping[str, str] | None = None,
        pass_fds: Sequence[int] = (),
        line_bytes: int = LINE_BYTES,
        grace_seconds: float = 0,
        account: Account | None = None,
    ) -> None:
        self.on_lines = on_lines
        self._grace_seconds = grace_seconds
        self._lines = Lines(line_bytes)
        self._stderr = b""
        self._draining = threading.RLock()
        self._closed = False
        self._cut: Ending | None = None
        self._excess: Excess | None = None
        # Stdin is a file, not a pipe: a child that never reads cannot block us.
        with tempfile.TemporaryFile() as given:
            given.write((stdin or "").encode())
            given.seek(0)
            self._process = subprocess.Popen(
                under_subreaper(command, grace_seconds),
                stdin=subprocess.PIPE if stdin is None else given,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=cwd,
                env=env,
                pass_fds=pass_fds,
                start_new_session=True,
                user=account.uid if account else None,
                group=account.gid if account else None,
                extra_groups=account.groups if account else None,
            )
        assert self._process.stdout and self._process.stderr
        self._out, self._err = self._process.stdout.fileno(), self._process.stderr.fileno()
        for stream in (self._out, self._err):
            os.set_blocking(stream, False)

    @property
    def pid(self) -> int:
        """Return the pid of its subreaper."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def ask(self, line: str) -> None:
        """Send it one line; blocks until it has been read, or is gone."""
        assert self._process.stdin, "what it is told was given at its start"
        self._stderr = b""
        with contextlib.suppress(BrokenPipeError):  # whoever follows it learns that it is gone
            self._process.stdin.write(f"{line}\n".encode())
            self._process.stdin.flush()

    def terminate(self) -> None:
        """Ask it to end; whoever follows it sees that."""
        self._process.terminate()

    def end(self) -> None:
        """End a child that nobody follows."""
        self._end()
        self._close()

    def drain(self) -> bool:
        """Pass on the output so far, without waiting; return False at its end."""
        with self._draining:
            if self._closed:
                return False
            for data in _chunks(self._err):
                self._stderr = (self._stderr + data)[-STDERR_BYTES:]
            for data in () if self._cut else _chunks(self._out):
                try:
                    if lines := self._lines.feed(data) if data else self._lines.end():
                        self.on_lines(lines)
                except LineTooLong:
                    self._cut = Ending.LONG_LINE
                except OverflowError:
                    self._cut = Ending.FLOOD
                if not data or self._cut:
                    return False
            return not self._cut

    def follow(
        self,
        *,
        deadline: Callable[[], float],
        heartbeat: Callable[[], bool] = lambda: True,
        watch: ResourceWatch | None = None,
        answered: Callable[[], bool] = lambda: False,
        heartbeat_seconds: float = 0.0,
    ) -> Ended:
        """Pass on output until the child ends, or has `answered()`.

        It is ended after `deadline()`, when `heartbeat()` returns False, or when `watch` finds an
        excess. `deadline` is polled and returns a time on the monotonic clock. There are
        `heartbeat_seconds` between two heartbeats, HEARTBEAT_SECONDS by default.
        """
        ending = Ending.EXITED
        try:
            pause = heartbeat_seconds or HEARTBEAT_SECONDS
            ending = self._listen(deadline, heartbeat, watch, answered, pause)
            if ending is Ending.ANSWERED:
                return Ended(ending, 0, self._stderr.decode(errors="replace").strip())
            self._end()
            self.drain()
        finally:
            if ending is not Ending.ANSWERED:
                self._end()
                self._close()
        code, stderr = self._process.returncode, self._stderr.decode(errors="replace").strip()
        return Ended(self._cut or ending, code, stderr, self._excess)

    def _listen(
        self,
        deadline: Callable[[], float],
        heartbeat: Callable[[], bool],
        watch: ResourceWatch | None,
        answered: Callable[[], bool],
        heartbeat_seconds: float,
    ) -> Ending:
        next_heartbeat = time.monotonic() + heartbeat_seconds
        with selectors.DefaultSelector() as selector:
            for stream in (self._out, self._err):
                selector.register(stream, selectors.EVENT_READ)
            while True:
                next_poll = watch.due if watch else math.inf
                selector.select(
                    max(0.0, min(next_heartbeat, next_poll, deadline()) - time.monotonic())
                )
                if not self.drain():
                    return Ending.EXITED
                if answered():
                    return Ending.ANSWERED
                if time.monotonic() >= deadline():
                    return Ending.DEADLINE
                if watch and (excess := watch.poll(self._process.pid)):
                    self._excess = excess
                    return Ending.EXCESS
                if time.monotonic() >= next_heartbeat:
                    next_heartbeat = time.monotonic() + heartbeat_seconds
                    if stopping.is_set() or not heartbeat():
                        return Ending.STOPPED

    def _end(self) -> None:
        """End the child and all its descendants; nothing happens if it has ended."""
        self._process.terminate()  # the subreaper, which ends all descendants
        try:
            self._process.wait(GRACE_SECONDS + self._grace_seconds)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def _close(self) -> None:
        with self._draining:
            self._closed = True
            for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
                if stream:
                    stream.close()


def under_subreaper(command: Sequence[str], grace_seconds: float) -> list[str]:
    """Return the command line that runs `command` under a subreaper."""
    subreaper = [sys.executable, "-I", "-S", str(SUBREAPER), str(os.getpid()), str(grace_seconds)]
    return [*subreaper, *command]


def _chunks(stream: int) -> Iterator[bytes]:
    """Return the present content of a pipe; at its end the last item is empty."""
    left = int.from_bytes(fcntl.ioctl(stream, termios.FIONREAD, bytes(4)), sys.byteorder)
    while left >= 0:  # once more when all is read: the end may stand behind it
        try:
            data = os.read(stream, CHUNK)
        except BlockingIOError:
            return
        yield data
        if not data:
            return
        left -= len(data)
