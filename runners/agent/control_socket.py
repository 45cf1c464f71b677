"""Control socket: the only way from a workspace to the arena, for verdicts and profiles."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from runners.agent.arena_check import ARENA_FAULT, DOOR

REQUEST_BYTES = 64 << 10
PATIENCE_SECONDS = 5.0
TICK_SECONDS = 0.2

Answer = Mapping[str, Any]
"""Has `exit`, `text` for a person, and further data for a program."""

PASSED, NOT_PASSED, REFUSED = 0, 1, 2


def refused(text: str) -> Answer:
    return {"exit": REFUSED, "text": text}


class ControlSocket:
    """Serves a Unix socket in `folder` while open, one request at a time, in its own thread.

    `check(note)` and `profile(case)` answer requests. An exception from them is the arena's fault:
    the client is told so, and `failure` keeps it for the run.
    """

    def __init__(
        self, folder: Path, check: Callable[[str], Answer], profile: Callable[[str], Answer]
    ) -> None:
        self.failure: BaseException | None = None
        self._folder = folder
        self._check, self._profile = check, profile
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._serve, name=f"door of {folder.name}")
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)

    def __enter__(self) -> Self:
        here = os.open(self._folder, os.O_PATH | os.O_DIRECTORY)
        try:  # by its handle: the path of a socket may have 107 bytes, a folder's may have more
            self._socket.bind(f"/proc/self/fd/{here}/{DOOR}")
        finally:
            os.close(here)
        self._socket.listen()
        self._socket.settimeout(TICK_SECONDS)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._closing.set()
        self._thread.join()
        self._socket.close()

    def _serve(self) -> None:
        while not self._closing.is_set():
            try:
                client, _ = self._socket.accept()
            except TimeoutError:
                continue
            with client:
                client.settimeout(PATIENCE_SECONDS)
                try:
                    request = _read_line(client)
                    client.sendall(json.dumps(self._answer(request)).encode() + b"\n")
                except OSError:
                    continue  # the asker hung up, or never finished asking

    def _answer(self, request: bytes) -> Answer:
        try:
            asked = json.loads(request)
        except (ValueError, RecursionError):
            asked = None
        answer: Callable[[str], Answer]
        match asked:
            case {"op": "check", "note": str(text)}:
                answer = self._check
            case {"op": "profile", "case": str(text)}:
                answer = self._profile
            case _:
                ways = '{"op": "check", "note": "..."} or {"op": "profile", "case": "..."}'
                return refused(f"ask {ways} on one line")
        try:
            return answer(text)
        except BaseException as failure:
            self.failure = failure
            return {"exit": ARENA_FAULT, "text": "the arena failed, through no fault of yours"}


def _read_line(client: socket.socket) -> bytes:
    line = b""
    while not line.endswith(b"\n") and len(line) <= REQUEST_BYTES:
        data = client.recv(4096)
        if not data:
            break
        line += data
    return line
