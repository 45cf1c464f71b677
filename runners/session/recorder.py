"""Recorder of an agent's output as events of its run. Only the arena records verdicts.

The format of a line is documented in `runners.session.session`.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence

from arena.runs import services
from arena.runs.trace.agent_events import agent_event
from arena.runs.trace.events import BadEvent, EventDraft
from runners.session.text import limited

MAX_EVENTS, MAX_BYTES = 100_000, 256 << 20
"""Limits of one run."""
MAX_LINE, MAX_LOG = 2000, 1 << 20
"""Characters that are kept of a line, and of adjacent lines, that are no events."""
RAW_BYTES = 256 << 10
"""Size of a harness's raw output that is collected before it is stored as an event."""


class Recorder:
    """Records the lines of one agent's process in its run, in order and once each."""

    def __init__(self, run_id: str, producer: str, max_bytes: int = MAX_BYTES) -> None:
        self._run_id = run_id
        self._producer = producer
        self._max_bytes = max_bytes
        self._recorded = self._bytes = 0
        self._raw: list[str] = []
        self._raw_bytes = self._raw_parts = 0

    def record(self, lines: list[str]) -> None:
        """Record lines.

        Raises: OverflowError beyond `MAX_EVENTS` or `max_bytes` in all.
        """
        lines = [line for line in lines if not self._keep_raw(line)]
        drafts = self._drafts(lines)
        self._recorded += len(lines)
        self._bytes += sum(map(len, lines))
        if self._recorded > MAX_EVENTS or self._bytes > self._max_bytes:
            raise OverflowError(f"more than {MAX_EVENTS} events or {self._max_bytes} bytes")
        services.record(self._run_id, drafts, producer=self._producer)
        if self._raw_bytes >= RAW_BYTES:
            self.flush()

    def flush(self) -> None:
        """Store the harness's own output so far as one event."""
        if self._raw:
            self._raw_parts += 1
            body = {"part": self._raw_parts, "text": "".join(self._raw)}
            draft = EventDraft("raw_output", body, id=f"raw-output-{self._raw_parts}")
            services.record(self._run_id, [draft], producer=self._producer)
            self._raw, self._raw_bytes = [], 0

    def _keep_raw(self, line: str) -> bool:
        """Keep a line of the harness's own output until the next flush; False for any other."""
        if not line.startswith('{"kind": "raw"'):
            return False
        try:
            found = json.loads(line)
            text = found["text"]
        except (ValueError, KeyError, RecursionError):
            return False
        if not isinstance(text, str):
            return False
        self._raw.append(text if found.get("more") is True else f"{text}\n")
        self._raw_bytes += len(text)
        self._bytes += len(text)
        return True

    def _drafts(self, lines: Sequence[str]) -> list[EventDraft]:
        """Return the events of lines; adjacent lines of plain text become one log event."""
        drafts: list[EventDraft] = []
        numbered = enumerate(lines, start=self._recorded)
        for plain, group in itertools.groupby(numbered, lambda item: not item[1].startswith("{")):
            for first, *rest in [list(group)] if plain else [[each] for each in group]:
                number, line = first
                if not rest:
                    drafts.append(self._draft(line, number))
                else:
                    drafts.append(_log([line, *(text for _, text in rest)], number, "no events"))
        return drafts

    def _draft(self, line: str, number: int) -> EventDraft:
        """Return the event of a line; a malformed line is kept as a log."""
        try:
            return agent_event(json.loads(line), number)
        except (ValueError, TypeError, RecursionError) as error:
            problem = str(error) if isinstance(error, BadEvent) else "not an event"
            return _log([line], number, problem)


def _log(lines: Sequence[str], number: int, problem: str) -> EventDraft:
    text = limited("\n".join(limited(line, MAX_LINE) for line in lines), MAX_LOG)
    body = {"text": f"{text}\n({problem})", "level": "warning", "stream": "stdout"}
    return EventDraft("log", body, producer_seq=number)
