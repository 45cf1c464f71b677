"""The data folder of an arena: database, keys and logs, which no other local user may read."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from django.conf import settings

PRIVATE_MODE, PRIVATE_UMASK = 0o700, 0o077


def judge_home() -> Path:
    """Return the folder of what the judge reads and writes: tasks of the database, and its cache.

    It is ARENA_HOME, or a folder beside it where the judge is a user who cannot enter that.
    """
    home: Path = settings.ARENA_HOME
    return home.with_name(f"{home.name}-judge") if settings.JUDGE_USER else home


def make_private(home: Path) -> None:
    """Create the folder if needed, and close it to other users.

    One of another user stays as it is. So does one for all users, such as `/tmp`.

    Raises: OSError.
    """
    home.mkdir(mode=PRIVATE_MODE, parents=True, exist_ok=True)
    state = home.stat()
    is_open = bool(state.st_mode & PRIVATE_UMASK) and not state.st_mode & stat.S_ISVTX
    if is_open and state.st_uid == os.geteuid():
        home.chmod(PRIVATE_MODE)
