"""What a sandboxed build left in its folder: a stranger's files, to be read, taken and removed as
such once all its processes are gone.
"""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path


def read(path: Path, most_bytes: int) -> bytes:
    """The beginning of a file; nothing where there is none, or a link, a pipe or a device."""
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            return b""
        with path.open("rb") as file:
            return file.read(most_bytes)
    except OSError:
        return b""


def take(path: Path, target: Path) -> None:
    """Move a file to `target` in the same file system, read-only from then on. Anything else than
    a file is left where it is.
    """
    if stat.S_ISREG(path.lstat().st_mode):
        path.rename(target)
        target.chmod(0o555)


def size(folder: Path) -> int:
    """Bytes of the files below a folder; no link is followed."""
    return sum(
        Path(place, name).lstat().st_size for place, _, names in os.walk(folder) for name in names
    )


def remove(folder: Path) -> None:
    """Remove a folder that its owner may have locked, or folders in it; no link is followed."""
    folder.chmod(0o700)
    for place, names, _ in os.walk(folder):
        for name in names:
            if not (path := Path(place, name)).is_symlink():
                path.chmod(0o700)
    shutil.rmtree(folder)
