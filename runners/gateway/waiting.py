"""Rule for the clock of a run while its model calls wait for the provider."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from runners.gateway.call import Call


class WaitingCalls:
    """Reports `waiting` when the clock of a run must stop, and `working` when it must go on.

    The clock stands while at least one call is open and every open call waits for the provider. A
    call is open from its start until its answer ends or its agent hangs up.

    Limitation: the clock also stands while an agent runs tools beside such calls. Harnesses report
    a tool late or not at all, and an agent can forge these reports.
    """

    def __init__(self, report: Callable[[str, Mapping[str, Any]], None]) -> None:
        self._report = report
        self._open: dict[Call, str] = {}
        """Reason why each open call waits; empty for one that does not."""
        self._stopped = False

    def __len__(self) -> int:
        """Return how many calls are open."""
        return len(self._open)

    def open(self, call: Call) -> None:
        """Add a call, which does not wait yet."""
        self._open[call] = ""
        self._apply()

    def wait(self, call: Call, reason: str) -> None:
        """Note that an open call waits for the provider."""
        if call in self._open:
            self._open[call] = reason
            self._apply()

    def answer(self, call: Call) -> None:
        """Note that the answer to an open call begins."""
        if call in self._open:
            self._open[call] = ""
            self._apply()

    def close(self, call: Call) -> None:
        """Remove a call; nothing happens to one that was removed before."""
        self._open.pop(call, None)
        self._apply()

    def _apply(self) -> None:
        stopped = bool(self._open) and all(self._open.values())
        if stopped == self._stopped:
            return
        self._stopped = stopped
        if stopped:
            self._report("waiting", {"text": next(iter(self._open.values()))})
        else:
            self._report("working", {})
