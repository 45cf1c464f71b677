"""Recorded model traffic: one JSON object per call, which a continued run gets again."""

from __future__ import annotations

import json
from collections import defaultdict, deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TextIO


class BadRecording(Exception):
    """Raised for a file that is no recording; the message names the line."""


@dataclass(frozen=True)
class Exchange:
    """A request and its whole answer, in the pieces in which it came."""

    method: str
    path: str
    model: str
    request: str
    """The request's body."""
    status: int
    content_type: str
    pieces: list[tuple[float, str]]
    """Seconds since the request, and text."""

    @property
    def key(self) -> tuple[str, str, str]:
        return self.method, self.path, self.model


class TrafficWriter:
    """Appends exchanges to a file; each is whole or absent."""

    def __init__(self, path: Path) -> None:
        self._file: TextIO = path.open("a", encoding="utf-8")

    def add(self, exchange: Exchange) -> None:
        self._file.write(json.dumps(asdict(exchange)) + "\n")
        self._file.flush()

    def close(self) -> None:
        self._file.close()


class Replay:
    """The exchanges of a recording, each served once.

    Requests differ from one run to the next in times, folders and ids, so an exchange is found by
    method, path and model, in the order of the recording.
    """

    def __init__(self, exchanges: list[Exchange], reported: int | None = None) -> None:
        """Create it; the trace of the earlier run has the first `reported` calls, or with None all.

        It lacks a call where the process ended between the answer and the event.
        """
        self._unreported = exchanges[reported:] if reported is not None else []
        self._waiting: dict[tuple[str, str, str], deque[Exchange]] = defaultdict(deque)
        for exchange in exchanges:
            self._waiting[exchange.key].append(exchange)

    @classmethod
    def read(cls, path: Path, reported: int | None = None) -> Replay:
        """Read a recording; a last line that was cut is left out.

        Raises: BadRecording.
        """
        exchanges = []
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        for number, line in enumerate(lines, start=1):
            try:
                exchanges.append(_exchange(json.loads(line)))
            except (ValueError, TypeError, KeyError) as error:
                if number == len(lines) and not line.endswith("\n"):
                    break
                raise BadRecording(f"{path}, line {number}: not an exchange: {error}") from error
        return cls(exchanges, reported)

    def take(self, method: str, path: str, model: str) -> Exchange | None:
        """Return the next exchange for such a request; None when all are served."""
        waiting = self._waiting[method, path, model]
        return waiting.popleft() if waiting else None

    def is_reported(self, exchange: Exchange) -> bool:
        """Return whether the trace of an earlier run has the call, and so its cost."""
        return exchange not in self._unreported


def _exchange(data: Mapping[str, Any]) -> Exchange:
    pieces = [(float(seconds), str(text)) for seconds, text in data["pieces"]]
    return Exchange(**{**data, "pieces": pieces})
