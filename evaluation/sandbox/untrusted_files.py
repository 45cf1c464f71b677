"""Files that untrusted processes wrote: read, moved and removed without following links.

All processes that could write to a folder must have ended before.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

BLOCK_BYTES = 4096


def read(path: Path, max_bytes: int) -> bytes:
    """Return the beginning of a regular file; nothing for a link, a pipe, a device or no file."""
    try:
        with open(path, "rb", opener=open_no_follow) as file:
            if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return file.read(max_bytes)
    except OSError:
        pass
    return b""


def open_no_follow(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


def is_regular(path: Path) -> bool:
    """Return whether there is a regular file, and no link to one."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


def move(path: Path, target: Path) -> None:
    """Move a regular file within its file system and make it read-only; ignore anything else."""
    if is_regular(path):
        path.rename(target)
        target.chmod(0o555)


def make_readable(folder: Path) -> None:
    """Let every user read a folder of ours, whatever our umask was."""
    for place, _, names in os.walk(folder):
        Path(place).chmod(0o755)
        for name in names:
            if not (path := Path(place, name)).is_symlink():
                path.chmod(path.stat().st_mode | 0o444)


def size(folder: Path) -> int:
    """Return the bytes of all files below a folder, each at least one block."""
    return sum(
        max(BLOCK_BYTES, Path(place, name).lstat().st_size)
        for place, _, names in os.walk(folder)
        for name in names
    )


@contextlib.contextmanager
def scratch(parent: Path | None = None, prefix: str = "arena-") -> Iterator[Path]:
    """Create a folder for untrusted processes, and remove it in the end."""
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
    try:
        yield folder
    finally:
        remove(folder)


def remove(folder: Path) -> bool:
    """Remove a folder of any depth, with names of any length and any modes; enter no mount.

    Returns: whether it is gone. Nothing in the folder can make this raise.
    """
    try:
        top = open_folder(folder)
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
    """Remove the contents of an open folder.

    Subfolders are first moved to its top level, so that no path is long. Mounts cannot be moved.
    """
    pending = list(_clear(top, top))
    while pending:
        name = pending.pop()
        with contextlib.suppress(OSError):
            folder = open_folder(name, top)
            try:
                pending.extend(_clear(folder, top))
            finally:
                os.close(folder)
            os.rmdir(name, dir_fd=top)


def _clear(folder: int, top: int) -> Iterator[str]:
    """Remove the contents of one folder, move subfolders to the top, and yield their new names."""
    subfolders = []
    with os.scandir(folder) as entries:
        for entry in entries:
            try:
                os.unlink(entry.name, dir_fd=folder)
            except IsADirectoryError:
                try:
                    os.rmdir(entry.name, dir_fd=folder)
                except OSError:
                    subfolders.append(entry.name)
            except OSError:
                pass  # a file that something is mounted on
    for name in subfolders:
        with contextlib.suppress(OSError):
            new = secrets.token_hex(16)
            os.rename(name, new, src_dir_fd=folder, dst_dir_fd=folder)
            os.close(open_folder(new, folder))  # without access it cannot be moved
            os.rename(new, new, src_dir_fd=folder, dst_dir_fd=top)
            yield new


def open_folder(folder: Path | str, parent: int | None = None) -> int:
    """Open a folder and set its mode to 700; a relative path starts at `parent`.

    Raises: OSError, also where the folder is a link.
    """
    path_only = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
    try:
        with contextlib.suppress(OSError):  # another user's, which may be accessible all the same
            os.chmod(f"/proc/self/fd/{path_only}", 0o700)
        return os.open(".", os.O_RDONLY | os.O_DIRECTORY, dir_fd=path_only)
    finally:
        os.close(path_only)
