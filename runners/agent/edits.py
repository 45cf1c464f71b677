"""Changes of the text files of a workspace, whoever made them: a tool, a shell or a program."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from runners.agent.session import AgentSession

MAX_FILES = 400
MAX_FILE_BYTES = 256 << 10
SETTLE_SECONDS = 0.02
MAX_EMPTY_SECONDS = 0.5
"""Time for which a file that was just emptied is expected to be written."""
Stamp = tuple[int, int]
"""Modification time in nanoseconds, and size."""


class EditObserver:
    """Compares the files of a workspace with their last recorded state.

    Files in hidden folders, links, and files that are large or no text are left out.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stamps: dict[str, Stamp] = {}
        self._texts: dict[str, str] = {}
        for path, stamp in self._files():
            self._remember(path, stamp)

    def record(self, session: AgentSession) -> None:
        """Record each change since the last call as a file edit of the session."""
        found = dict(self._files())
        while any(
            self._stamps.get(path) != stamp and _is_unsettled(stamp)
            for path, stamp in found.items()
        ):
            time.sleep(SETTLE_SECONDS)
            found = dict(self._files())
        for path, stamp in found.items():
            if self._stamps.get(path) == stamp:
                continue
            before = self._texts.get(path)
            self._remember(path, stamp)
            after = self._texts.get(path)
            if after is not None and after != before:
                session.file_edit(path, before, after)
        for path in self._stamps.keys() - found.keys():
            del self._stamps[path]
            if (before := self._texts.pop(path, None)) is not None:
                session.file_edit(path, before, None)

    def _remember(self, path: str, stamp: Stamp) -> None:
        self._stamps[path] = stamp
        try:
            text = (self._folder / path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return
        if "\0" not in text:
            self._texts[path] = text

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
                yield os.path.relpath(path, self._folder), (status.st_mtime_ns, status.st_size)


def _is_unsettled(stamp: Stamp) -> bool:
    """Return whether a file changed just now, or was emptied and may not yet be written."""
    changed_at, size = stamp
    age = abs(time.time_ns() - changed_at) / 1e9
    return age < (SETTLE_SECONDS if size else MAX_EMPTY_SECONDS)
