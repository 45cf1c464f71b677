"""Locks of devices: one process at a time measures on each, for as long as it lives.

On a machine it is a locked file. Two containers or two users share no such file: for them a row of
the database decides. A second process learns who holds the device, and measures nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import socket
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from arena.catalog import devices
from arena.catalog.models import Hardware
from evaluation.bench.devices.locks import LOCKS, lock, lock_file
from runners.worker.bench import CORES

CONTAINER_MARKS = (".dockerenv", "run/.containerenv", "run/systemd/container")
"""Files that Docker, Podman and systemd make in containers."""
INITIAL_PIDS = "pid:[4026531836]"
"""First namespace of processes. Source: `PROC_PID_INIT_INO` in Linux, include/linux/proc_ns.h."""


@dataclass(frozen=True)
class Identity:
    """Names of the machine of this process, as the files of `root` have them."""

    root: Path = Path("/")

    def name(self) -> str:
        """Return the id of the installation, and in a container that of the kernel's boot.

        The file of a container is that of its image, which runs on other machines too. The id of
        the boot is the same in all containers of a machine. The id of an installation is hashed.
        Source: machine-id(5), which asks that it is not shown.
        """
        if not self.is_contained() and (found := self._read("etc/machine-id")):
            return hashlib.sha256(f"kernel-arena {found}".encode()).hexdigest()[:32]
        return self._read("proc/sys/kernel/random/boot_id") or socket.gethostname()

    def is_contained(self) -> bool:
        """Return whether this process is in a container.

        It is where a runtime left its mark, processes are numbered apart, or `/` is an overlay. A
        kernel that does not say how it numbers processes counts as that of a container.
        """
        if any((self.root / name).exists() for name in CONTAINER_MARKS):
            return True
        try:
            numbering = os.readlink(self.root / "proc/self/ns/pid")
        except OSError:
            return True
        mounts = [line.split()[1:3] for line in self._read("proc/self/mounts").splitlines()]
        return numbering != INITIAL_PIDS or ["/", "overlay"] in mounts

    def _read(self, name: str) -> str:
        """Return the text of a file; empty where it cannot be read."""
        try:
            return (self.root / name).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError):
            return ""


def machine_id() -> str:
    """Return the name under which processes of this machine share its cores."""
    return os.environ.get("ARENA_MACHINE_ID", "")[:80] or Identity().name()


def key_of(device: str) -> str:
    """Return the name of a device among those of all machines.

    The cores are those of the machine, whatever the folders of its workers. A GPU is known by its
    UUID.
    """
    return device if device and not device.startswith(CORES) else f"{CORES}{machine_id()}"


@dataclass
class DeviceLock:
    """The lock of one device, for the worker of this name."""

    key: str
    worker: str
    folder: Path = LOCKS
    """Parent of the folder of its file."""
    _file: TextIO | None = None
    _token: str = ""

    @property
    def holder(self) -> str:
        return f"{self.worker} (process {os.getpid()})"

    def hold(self, hardware: Hardware) -> tuple[str, str]:
        """Take the device or renew the hold.

        Returns: who holds it instead, and why nothing is measured on it (it is taken out, or its
        file cannot be opened). Each is empty where it does not apply.
        """
        try:
            other = self._lock_file()
        except PermissionError as error:
            return "", _advice(error)
        if other:
            return other, ""
        row = devices.hold(self.key, hardware, self.worker, os.getpid(), self._token)
        return ("" if row.token == self._token else row.holder), row.excluded

    def _lock_file(self) -> str:
        """Lock the file, and return who has locked it instead; empty once it is ours."""
        if self._file is not None:
            return ""
        file = lock_file(f"worker-{self.key}", self.folder)
        try:
            written = json.load(file)
        except ValueError:  # nobody has held it yet
            written = {}
        if not lock(file):
            file.close()
            return str(written.get("holder") or "another process")
        self._token = str(written.get("token") or secrets.token_hex(16))
        file.seek(0)
        file.truncate()
        json.dump({"token": self._token, "holder": self.holder}, file)
        file.flush()
        self._file = file
        return ""

    def give_back(self) -> None:
        """End the hold, so that another process may take the device at once."""
        if self._file is None:
            return
        devices.give_back(self.key, self._token)
        self.close()

    def close(self) -> None:
        """Unlock the file alone: the row of a lost database ends by itself."""
        if self._file is not None:
            self._file.close()
            self._file = None


def _advice(error: PermissionError) -> str:
    """Return what to do about a lock file that cannot be opened."""
    if error.filename is None:  # of `lock_file`, which names the folder and the remedy
        return f"It cannot be locked: {error}."
    remedy = "give it to the worker's user, or remove it"
    return f"It cannot be locked: {error.filename}: {error.strerror}; {remedy}."


@dataclass
class DeviceLocks:
    """The locks of the devices of this process, by the names of its workers."""

    _locks: dict[str, DeviceLock] = field(default_factory=dict)

    def hold(self, worker: str, device: str, hardware: Hardware) -> tuple[str, str]:
        """Take or renew a device for a worker, as `DeviceLock.hold` does."""
        found = self._locks.setdefault(worker, DeviceLock(key_of(device), worker))
        return found.hold(hardware)

    def give_back(self) -> None:
        """End all holds."""
        try:
            for each in self._locks.values():
                each.give_back()
        finally:
            for each in self._locks.values():
                each.close()
            self._locks.clear()


here = DeviceLocks()
"""Of this process."""
