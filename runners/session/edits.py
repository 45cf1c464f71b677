"""Changes of the text files of a workspace, whoever made them: a tool, a shell or a program."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from runners.session.session import AgentSession

MAX_FILES = 400
MAX_FILE_BYTES = 256 << 10
SETTLE_SECONDS = 0.02
MAX_CHANGING_SECONDS = 0.2
MAX_EMPTY_SECONDS = 1.0
"""Time for which a file that was emptied or removed is expected to be written again."""
Stamp = tuple[int, int]
"""Modification time in nanoseconds, and size."""


class EditObserver:
    """Compares the files of a workspace with their last recorded state.

    Files in hidden folders, links, and files that are large or no text are left out. `pause` waits
    between two comparisons of files that change, by the clock `now`. `wall_ns` is that of their
    modification times.
    """

    def __init__(
        self,
        folder: Path,
        pause: Callable[[float], None] = time.sleep,
        now: Callable[[], float] = time.monotonic,
        wall_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._folder, self._pause, self._now, self._wall_ns = folder, pause, now, wall_ns
        self._stamps: dict[str, Stamp] = {}
        self._texts: dict[str, str] = {}
        for path, stamp in self._files():
            self._remember(path, stamp)

    def record(self, session: AgentSession) -> None:
        """Record each change since the last call as a file edit of the session."""
        found = self._settled()
        for path, stamp in found.items():
            if self._stamps.get(path) == stamp:
                continue
            before = self._texts.get(path)
            if not self._remember(path, stamp):
                continue  # it changes again just now: the next call records it
            after = self._texts.get(path)
            if after is not None and after != before:
                session.file_edit(path, before, after)
        for path in self._stamps.keys() - found.keys():
            del self._stamps[path]
            if (before := self._texts.pop(path, None)) is not None:
                session.file_edit(path, before, None)

    def _settled(self) -> dict[str, Stamp]:
        """Return the files once none of them changes, or after a while."""
        start = self._now()
        while True:
            found = dict(self._files())
            waited = self._now() - start
            changed = [
                p for p in found.keys() | self._stamps if found.get(p) != self._stamps.get(p)
            ]
            at = self._wall_ns()
            if not any(_is_unsettled(found.get(path), waited, at) for path in changed):
                return found
            self._pause(SETTLE_SECONDS)

    def _remember(self, path: str, stamp: Stamp) -> bool:
        """Keep the text of a file; return False if it has changed since its stamp was taken."""
        file = self._folder / path
        try:
            text = file.read_text(encoding="utf-8")
            if _stamp(os.lstat(file)) != stamp:
                return False
        except (OSError, UnicodeDecodeError):
            text = "\0"
        self._stamps[path] = stamp
        if "\0" not in text:
            self._texts[path] = text
        return True

    def _files(self) -> Iterator[tuple[str, Stamp]]:
        count = 0
        for folder, folders, names in os.walk(self._folder):
            folders[:] = sorted(name for name in folders if not name.startswith((".", "__pyc")))
            for name in sorted(names):
                path = os.path.join(folder, name)
                try:
                    status = os.lstat(path)
                except OSError:
                    continue
                regular = (status.st_mode & 0o170000) == 0o100000
                if name.startswith(".") or not regular or status.st_size > MAX_FILE_BYTES:
                    continue
                count += 1
                if count > MAX_FILES:
                    return
                yield os.path.relpath(path, self._folder), _stamp(status)


def _stamp(status: os.stat_result) -> Stamp:
    return status.st_mtime_ns, status.st_size


def _is_unsettled(stamp: Stamp | None, waited: float, at_ns: int) -> bool:
    """Return whether to wait longer for a changed file, which is removed where it has no stamp."""
    changed_at, size = stamp or (0, 0)
    if not size:
        return waited < MAX_EMPTY_SECONDS
    return waited < MAX_CHANGING_SECONDS and abs(at_ns - changed_at) / 1e9 < SETTLE_SECONDS
