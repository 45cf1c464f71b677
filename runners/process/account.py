"""The user of the machine as whom a child process runs, where that is another than the worker's."""

from __future__ import annotations

import os
import pwd
from dataclasses import dataclass
from pathlib import Path


class BadAccount(Exception):
    """Raised for a user as whom nothing can be started here; the message says why."""


@dataclass(frozen=True)
class Account:
    """A user, with the groups that open devices, such as `video` and `render`."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]

    @classmethod
    def named(cls, name: str) -> Account:
        """Return a user by name. Raises BadAccount where the worker cannot become it."""
        try:
            found = pwd.getpwnam(name)
        except KeyError:
            raise BadAccount(f"there is no user {name!r} on this machine") from None
        if os.geteuid() != 0:
            raise BadAccount(f"only root starts processes of {name!r}: start the worker as root")
        if found.pw_uid == 0:
            raise BadAccount(f"{name!r} is root, as the worker is")
        groups = tuple(os.getgrouplist(name, found.pw_gid))
        return cls(name, found.pw_uid, found.pw_gid, groups)

    def give(self, folder: Path, mode: int) -> None:
        """Make this user the owner of a folder, which is made if missing."""
        folder.mkdir(parents=True, exist_ok=True)
        os.chown(folder, self.uid, self.gid, follow_symlinks=False)
        folder.chmod(mode)

    def let_in(self, folder: Path) -> None:
        """Let this user, and nobody else but root, enter a folder of root, made if missing."""
        folder.mkdir(parents=True, exist_ok=True)
        os.chown(folder, 0, self.gid, follow_symlinks=False)
        folder.chmod(0o750)
