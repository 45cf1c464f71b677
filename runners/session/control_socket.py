"""Control socket: the only way from a workspace to the arena, for verdicts and profiles."""

from __future__ import annotations

import contextlib
import contextvars
import json
import math
import os
import socketserver
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from runners.session.arena_check import ARENA_FAULT, SOCKET_NAME

MAX_REQUEST_BYTES = 64 << 10
CLIENT_TIMEOUT_SECONDS = 5.0
POLL_SECONDS = 0.2

Answer = Mapping[str, Any]
"""Has `exit`, `text` for a person, and further data for a program."""

PASSED, NOT_PASSED, REFUSED = 0, 1, 2


def refused(text: str) -> Answer:
    return {"exit": REFUSED, "text": text}


class TimeBudget:
    """Time of an agent, counted down from now; any thread may pause it, also several at once."""

    def __init__(self, seconds: float, now: Callable[[], float] = time.monotonic) -> None:
        """Create it; `now` is a monotonic clock."""
        self._now = now
        self._end = now() + seconds
        self._paused_at = 0.0
        self._pauses = 0
        self._changing = threading.Lock()

    def deadline(self) -> float:
        """Return the end on the monotonic clock; infinity while paused."""
        return math.inf if self._pauses else self._end

    def pause(self) -> None:
        """Stop the clock until each pause has been ended by `resume`."""
        with self._changing:
            if self._pauses == 0:
                self._paused_at = self._now()
            self._pauses += 1

    def resume(self) -> None:
        with self._changing:
            self._pauses -= 1
            if self._pauses == 0:
                self._end += self._now() - self._paused_at

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        self.pause()
        try:
            yield
        finally:
            self.resume()


class ControlSocket:
    """Serves a Unix socket in `folder` while open, one request at a time, in its own thread.

    `check(note)` and `profile(case)` answer requests. An exception from them is the arena's fault:
    the client receives that reply, and `failure` keeps it for the run.
    """

    def __init__(
        self, folder: Path, check: Callable[[str], Answer], profile: Callable[[str], Answer]
    ) -> None:
        self.failure: BaseException | None = None
        self._folder = folder
        self._check, self._profile = check, profile

    def __enter__(self) -> Self:
        # By its descriptor: the path of a socket is limited to 107 bytes, that of a folder is not.
        folder = os.open(self._folder, os.O_PATH | os.O_DIRECTORY)
        try:
            self._server = _Server(f"/proc/self/fd/{folder}/{SOCKET_NAME}", self._answer)
        finally:
            os.close(folder)
        self._thread = threading.Thread(
            target=contextvars.copy_context().run,  # its log lines name the run
            args=(self._server.serve_forever, POLL_SECONDS),
            name=f"control socket of {self._folder.name}",
        )
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _answer(self, line: bytes) -> Answer:
        try:
            request = json.loads(line)
        except (ValueError, RecursionError):
            request = None
        answer: Callable[[str], Answer]
        match request:
            case {"op": "check", "note": str(text)}:
                answer = self._check
            case {"op": "profile", "case": str(text)}:
                answer = self._profile
            case _:
                forms = '{"op": "check", "note": "..."} or {"op": "profile", "case": "..."}'
                return refused(f"send {forms} on one line")
        try:
            return answer(text)
        except BaseException as failure:
            self.failure = failure
            return {"exit": ARENA_FAULT, "text": "the arena failed, through no fault of yours"}


class _Server(socketserver.UnixStreamServer):
    request_queue_size = 128

    def __init__(self, path: str, answer: Callable[[bytes], Answer]) -> None:
        self.answer = answer
        super().__init__(path, _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a client that disconnected or did not finish its request."""


class _Handler(socketserver.StreamRequestHandler):
    server: _Server
    timeout = CLIENT_TIMEOUT_SECONDS

    def handle(self) -> None:
        line = self.rfile.readline(MAX_REQUEST_BYTES)
        self.wfile.write(json.dumps(self.server.answer(line)).encode() + b"\n")
