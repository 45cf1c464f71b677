"""Recorded output of harnesses, translated to events as in a run.

The recordings are of the pinned versions before the scripted model server, without identifiers.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from arena.runs.trace.events import EventDraft, checked_body
from runners.session.harness import Translator, translate_line
from runners.session.session import AgentSession, ModelAccess, TaskBrief

RECORDINGS = Path(__file__).with_name("recordings")
MODEL = ModelAccess("m", "http://127.0.0.1:8400", "token", ("messages",))


class Stream:
    """Events of translated lines. Each must be one that the arena records."""

    def __init__(self, folder: Path, translator: Callable[[AgentSession], Translator]) -> None:
        self._out = io.StringIO()
        brief = TaskBrief("k/cpp-to-cpp", "k.cpp", 3, 60)
        self.session = AgentSession(folder, brief, self._out, MODEL)
        self._translate = translator(self.session)

    def feed(self, *records: Mapping[str, Any]) -> Stream:
        return self._feed(map(json.dumps, records))

    def play(self, name: str) -> Stream:
        """Feed a recording."""
        return self._feed((RECORDINGS / f"{name}.jsonl").read_text().splitlines())

    def feed_line(self, line: str) -> Stream:
        """Feed a line as it is, which may be no record."""
        return self._feed([line])

    def _feed(self, lines: Iterable[str]) -> Stream:
        for line in lines:
            translate_line(self.session, line, self._translate)
        return self

    @property
    def lines(self) -> list[str]:
        """Return the lines that the arena reads."""
        return self._out.getvalue().splitlines()

    @property
    def events(self) -> list[dict[str, Any]]:
        """Return the events, without the lines of the output itself."""
        found = [json.loads(line) for line in self.lines]
        events = [each for each in found if each["kind"] != "raw"]
        for event in events:
            checked_body(EventDraft(event["kind"], event["body"], event["id"]))
        return events

    def of(self, *kinds: str) -> list[dict[str, Any]]:
        """Return the bodies of the last revisions of events of these kinds, in order."""
        latest = {event["id"]: event for event in self.events if event["kind"] in kinds}
        return [event["body"] for event in latest.values()]

    def unknown(self) -> list[str]:
        """Return the logs of what was not understood."""
        return [log["text"] for log in self.of("log") if log["stream"] == "stdout"]
