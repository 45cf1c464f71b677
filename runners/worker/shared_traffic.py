"""The recording of a run's model traffic, copied to the database as it grows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from arena.runs import traffic


class SharedTraffic:
    """Copies the recording of one run; only whole lines, each once."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self._stored = 0

    def upload(self, path: Path) -> None:
        """Store the whole lines that were added since the last call."""
        if not path.exists():
            return
        with path.open("rb") as file:
            file.seek(self._stored)
            added, _, _ = file.read().rpartition(b"\n")
        if added:
            traffic.add_part(self.run_id, self._stored, added + b"\n")
            self._stored += len(added) + 1

    def read(self, run_ids: Sequence[str]) -> bytes:
        """Return the recording of the first of these runs that has one; empty for none."""
        return traffic.recording(run_ids)
