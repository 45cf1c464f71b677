"""The data folder of an arena: created, tested for writing, and locked by one arena at a time."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import TextIO


class CannotStart(Exception):
    """Raised where a requirement is missing; the message is one line that says what to do."""


def made(home: Path) -> Path:
    """Create the folder if needed and test that it is writable. Raises `CannotStart`."""
    try:
        for folder in (home, home / "logs"):
            folder.mkdir(parents=True, exist_ok=True)
        trial = home / f".trial.{os.getpid()}"
        trial.touch()
        trial.unlink()
    except OSError as error:
        raise CannotStart(
            f"{home} cannot be written to ({error.strerror}): name another by ARENA_HOME=."
        ) from error
    return home


def locked(home: Path) -> TextIO:
    """Lock this folder while the returned file is open. Raises `CannotStart`."""
    lock = open(home / "lock", "a")  # noqa: SIM115  (the caller's `with` closes it)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        raise CannotStart(
            f"an arena runs in {home} already: stop it, or name another by ARENA_HOME=."
        ) from None
    return lock
