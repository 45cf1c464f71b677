"""What a sandboxed build left in its folder: a stranger's files, to be read, taken and removed as
such once all its processes are gone.
"""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

BLOCK = 4096


def read(path: Path, most_bytes: int) -> bytes:
    """The beginning of a file; nothing where there is none, or a link, a pipe or a device."""
    try:
        with open(path, "rb", opener=_itself) as file:
            if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return file.read(most_bytes)
    except OSError:
        pass
    return b""


def _itself(path: str, flags: int) -> int:
    """Open what is there, not what it links to, and wait for nobody at the other end."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


def take(path: Path, target: Path) -> None:
    """Move a file to `target` in the same file system, read-only from then on. Anything else than
    a file is left where it is.
    """
    if stat.S_ISREG(path.lstat().st_mode):
        path.rename(target)
        target.chmod(0o555)


def lend(folder: Path) -> None:
    """Have every user read what lies in a folder of ours, whatever our umask was; no link is
    followed.
    """
    for place, _, names in os.walk(folder):
        Path(place).chmod(0o755)
        for name in names:
            if not (path := Path(place, name)).is_symlink():
                path.chmod(path.stat().st_mode | 0o444)


def size(folder: Path) -> int:
    """Bytes that the files below a folder take, of a block each at least; no link is followed."""
    return sum(
        max(BLOCK, Path(place, name).lstat().st_size)
        for place, _, names in os.walk(folder)
        for name in names
    )


def remove(folder: Path) -> None:
    """Remove a folder that its owner may have locked, or folders in it; no link is followed."""
    folder.chmod(0o700)
    for place, names, _ in os.walk(folder):
        for name in names:
            if not (path := Path(place, name)).is_symlink():
                path.chmod(0o700)
    shutil.rmtree(folder)
