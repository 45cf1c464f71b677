"""What a sandboxed build left in its folder: a stranger's files, to be read, taken and removed as
such once all its processes are gone.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
import tempfile
from collections.abc import Iterator
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


@contextlib.contextmanager
def scratch(place: Path | None = None, prefix: str = "arena-") -> Iterator[Path]:
    """A new folder in `place`, or where such folders lie, for strangers to write into."""
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=place))
    try:
        yield folder
    finally:
        remove(folder)


def remove(folder: Path) -> bool:
    """Remove a folder that may be of any depth, hold names of any length and be locked; whether it
    is gone. Nothing that lies there raises; no link is followed and no mount entered.
    """
    try:
        top = opened(folder)
        try:
            _empty(top)
        finally:
            os.close(top)
        folder.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _empty(top: int) -> None:
    """Remove what lies in an open folder. The folders in it are moved to its top first, from where
    no path is long; a mount cannot be moved.
    """
    left = list(_clear(top, top))
    while left:
        name = left.pop()
        with contextlib.suppress(OSError):
            folder = opened(name, top)
            try:
                left.extend(_clear(folder, top))
            finally:
                os.close(folder)
            os.rmdir(name, dir_fd=top)


def _clear(folder: int, top: int) -> Iterator[str]:
    """Remove what lies in one folder, and move the folders that hold something to the top, by the
    names that are told.
    """
    held = []
    with os.scandir(folder) as entries:
        for entry in entries:
            try:
                os.unlink(entry.name, dir_fd=folder)
            except IsADirectoryError:
                try:
                    os.rmdir(entry.name, dir_fd=folder)
                except OSError:
                    held.append(entry.name)
            except OSError:
                pass  # a file that something is mounted on
    for name in held:
        with contextlib.suppress(OSError):
            new = secrets.token_hex(16)
            os.rename(name, new, src_dir_fd=folder, dst_dir_fd=folder)
            os.close(opened(new, folder))  # what is locked cannot be moved to another folder
            os.rename(new, new, src_dir_fd=folder, dst_dir_fd=top)
            yield new


def opened(folder: Path | str, at: int | None = None) -> int:
    """A handle of a folder, unlocked, of the path of one in `at`; no link is followed at its end.
    Raises OSError.
    """
    place = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=at)
    try:
        with contextlib.suppress(OSError):  # another's, which may be open to us all the same
            os.chmod(f"/proc/self/fd/{place}", 0o700)
        return os.open(".", os.O_RDONLY | os.O_DIRECTORY, dir_fd=place)
    finally:
        os.close(place)
