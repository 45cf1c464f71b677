"""Locks of devices, with which the processes of a machine measure one after the other."""

from __future__ import annotations

import fcntl
import os
from contextlib import ExitStack
from pathlib import Path

LOCKS = Path("/tmp")
"""Folder of locks, the same for the whole machine, whatever `TMPDIR` is."""


def locked(name: str, stack: ExitStack, shared: bool = False) -> bool:
    """Hold the lock of this name in `stack`, unless this user holds it elsewhere.

    Raises: PermissionError where somebody else made the folder of locks.
    """
    folder = LOCKS / f"kernel-arena-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.lstat().st_uid != os.getuid() or folder.is_symlink():
        raise PermissionError(f"{folder} is somebody else's; remove it")
    path = folder / f"{name.replace('/', '-')}.lock"
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    file = stack.enter_context(os.fdopen(descriptor, "w"))
    try:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
