"""Locks of devices, with which the processes of a machine measure one after the other."""

from __future__ import annotations

import fcntl
import os
from contextlib import ExitStack
from pathlib import Path
from typing import TextIO

LOCKS = Path("/tmp")
"""Folder of locks, the same for the whole machine, whatever `TMPDIR` is."""


def locked(name: str, stack: ExitStack, shared: bool = False) -> bool:
    """Hold the lock of this name in `stack`, unless this user holds it elsewhere.

    Raises: PermissionError where somebody else made the folder of locks.
    """
    return lock(stack.enter_context(lock_file(name)), shared)


def lock_file(name: str, parent: Path = LOCKS) -> TextIO:
    """Return the file of a lock, in the folder of this user in `parent`, open to read and write.

    Raises: PermissionError where somebody else made the folder of locks.
    """
    folder = parent / f"kernel-arena-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.lstat().st_uid != os.getuid() or folder.is_symlink():
        raise PermissionError(f"{folder} is somebody else's; remove it")
    path = folder / f"{name.replace('/', '-')}.lock"
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    return os.fdopen(descriptor, "r+", encoding="utf-8")


def lock(file: TextIO, shared: bool = False) -> bool:
    """Lock an open file until it is closed; return False where another open file has the lock."""
    try:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
