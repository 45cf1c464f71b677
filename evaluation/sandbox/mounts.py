"""What an inmate finds where: a `/proc` of its own, folders of its own, the rest read-only.

Standard library alone, as `sandbox`.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterable, Set
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from evaluation.sandbox.policy import Policy

libc = ctypes.CDLL(None, use_errno=True)

SYSTEM_PATHS = (
    "/usr /lib /lib64 /lib32 /bin /sbin /proc /sys/devices/system /sys/fs/cgroup /etc/ld.so.cache"
    " /etc/ld.so.conf /etc/ld.so.conf.d /etc/alternatives /etc/localtime /etc/passwd /etc/group"
    " /etc/nsswitch.conf /dev/random /dev/urandom"
).split()
DEVICE_PATHS = ("/dev/null", "/dev/zero")
DEVICE_LINKS = {"fd": "fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"}
"""Of `/dev`, to `/proc/self`."""

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 1 << 18
SYS_MOUNT_SETATTR, AT_FDCWD, AT_RECURSIVE = 442, -100, 0x8000
KERNEL_PATHS = "/proc/acpi /proc/bus /proc/fs /proc/irq /proc/scsi /proc/sysrq-trigger".split()
"""Where root changes the machine, even without capabilities."""
OTHERS_ENTER = 0o001
MOST_STEPS = 1000


def checked(result: int, what: str) -> int:
    """The result of a call; raises OSError where it is negative."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def arrange(policy: Policy, user: int) -> None:
    """In a new mount namespace: lay out what an inmate finds, who is to be that `user`, 0 for none
    but ourselves. Raises OSError.
    """
    _mount("none", "/", None, MS_REC | MS_PRIVATE)
    if policy.walls.private_proc:
        _mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    if policy.walls.read_only_system:
        # A GPU's driver names its threads: it writes /proc/self/task/*/comm.
        named = policy.gpu and policy.walls.private_proc
        for path in filter(os.path.exists, _kernel_paths(policy) if named else ()):
            _mount(path, path, None, MS_BIND)  # and read-only it stays
        here = os.getcwd()
        own = (*policy.readable, *policy.writable)
        if policy.enclosed:
            _enclose((*SYSTEM_PATHS, *DEVICE_PATHS, *own))
        elif user:
            _open_ways(own)
        for path in policy.writable:
            owned = f",mode=700,uid={user},gid={user}" if user else ""
            size = f"size={policy.scratch_bytes}{owned}"
            of_memory = ("tmpfs", path, "tmpfs", MS_NOSUID | MS_NODEV, size)
            _mount(*(of_memory if policy.scratch_bytes else (path, path, None, MS_BIND)))
        _set_read_only("/", on=True, recursive=True)
        for path in (*policy.writable, *(("/proc",) if named else ())):
            _set_read_only(path, on=False, recursive=False)
        os.chdir(here)


def _enclose(paths: Iterable[str]) -> None:
    """Leave these paths alone, and the links that lead there: a socket that has a path can be
    reached by whoever sees it.
    """
    with os.scandir("/") as entries:
        folders = {Path(entry) for entry in entries if entry.is_dir(follow_symlinks=False)}
    _open_ways(paths, folders)
    for name, target in DEVICE_LINKS.items():
        Path("/dev", name).symlink_to(f"/proc/self/{target}")


def _open_ways(paths: Iterable[str], shut: Set[Path] = frozenset()) -> None:
    """Have a stranger reach these paths, which it may read: over every folder on the way that lets
    no others in, and over those to be `shut`, lies an empty one, with nothing but what was asked
    for and the links that lead there.
    """
    links: dict[Path, str] = {}
    granted = {path for path in (_followed(path, links) for path in paths) if path.exists()}
    handles = {path: os.open(path, os.O_PATH | os.O_CLOEXEC) for path in granted}
    files = {path for path in granted if not path.is_dir()}
    wanted = sorted({*granted, *links})
    laid: list[Path] = []
    for gate in sorted({*_closed(wanted), *(shut - granted)}):
        above = [each for each in laid if each in gate.parents]
        bound = granted & {gate, *gate.parents}
        if above and not any(above[-1] in path.parents for path in bound):
            continue  # made anew below that one, it is open
        _mount("tmpfs", str(gate), "tmpfs", MS_NOSUID | MS_NODEV, "mode=755")
        laid.append(gate)
        for path in wanted:
            over = granted.intersection(path.parents)
            if gate not in path.parents or any(gate in each.parents for each in over):
                continue  # it is elsewhere, or comes with another
            path.parent.mkdir(parents=True, exist_ok=True)
            if path in links:
                path.symlink_to(links[path])
            else:
                make = path.touch if path in files else path.mkdir
                make()
                _mount(f"/proc/self/fd/{handles[path]}", str(path), None, MS_BIND | MS_REC)
    for handle in handles.values():
        os.close(handle)


def _closed(paths: Iterable[Path]) -> set[Path]:
    """The folders on the way to these that let no others in."""
    folders = {folder for path in paths for folder in path.parents}
    return {folder for folder in folders if not folder.stat().st_mode & OTHERS_ENTER}


def _followed(path: str, links: dict[Path, str]) -> Path:
    """Where a path leads; the links on the way are added to `links`. Raises OSError where they go
    round in a circle.
    """
    real, parts = Path("/"), [*reversed(Path(path).parts)]
    for _ in range(MOST_STEPS):
        if not parts:
            return real
        step = real / (part := parts.pop())
        if part in ("..", "/"):
            real = real.parent if part == ".." else Path("/")
        elif step.is_symlink():
            links[step] = os.readlink(step)
            parts += reversed(Path(links[step]).parts)
        else:
            real = step
    raise OSError(f"{path} leads in a circle")


def _kernel_paths(policy: Policy) -> tuple[str, ...]:
    """What stays read-only of a `/proc` that can be written; Landlock sees to all but the first."""
    return ("/proc/sys", *(() if policy.walls.landlock else KERNEL_PATHS))


def _mount(source: str, target: str, kind: str | None, flags: int, data: str = "") -> None:
    words = source.encode(), target.encode(), kind and kind.encode()
    checked(libc.mount(*words, flags, data.encode()), f"mount {target}")


def _set_read_only(path: str, on: bool, recursive: bool) -> None:
    attributes = struct.pack("QQQQ", MS_RDONLY if on else 0, 0 if on else MS_RDONLY, 0, 0)
    flags = AT_RECURSIVE if recursive else 0
    result = libc.syscall(
        SYS_MOUNT_SETATTR, AT_FDCWD, path.encode(), flags, attributes, len(attributes)
    )
    checked(result, f"mount_setattr {path}")
