"""The file system that a sandboxed process sees, laid out in a mount namespace."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Sequence, Set
from pathlib import Path

from evaluation.sandbox.policy import Policy
from evaluation.sandbox.syscalls import checked, libc

TOOLCHAIN_PATHS = (
    "/usr /lib /lib64 /lib32 /bin /sbin /etc/ld.so.cache /etc/ld.so.conf /etc/ld.so.conf.d"
    " /etc/alternatives /dev/random /dev/urandom"
).split()
SYSTEM_PATHS = (
    *TOOLCHAIN_PATHS,
    *"/proc /sys/devices/system /sys/fs/cgroup /etc/localtime /etc/passwd /etc/group".split(),
    "/etc/nsswitch.conf",
)
DEVICE_PATHS = ("/dev/null", "/dev/zero")
GPU_PATHS = ("/sys", "/opt/rocm")
"""Folders that drivers of GPUs read."""
DEVICES = Path("/dev")
DEVICE_LINKS = {"fd": "fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"}
"""From `/dev` to `/proc/self`."""
KERNEL_PATHS = "/proc/acpi /proc/bus /proc/fs /proc/irq /proc/scsi /proc/sysrq-trigger".split()
"""Files by which root changes the machine, even without capabilities."""

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC = 0x0002_0000, 0x0400_0000, 0x0800_0000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x1000_0000, 0x2000_0000, 0x4000_0000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 1 << 18
SYS_MOUNT_SETATTR, AT_FDCWD, AT_RECURSIVE = 442, -100, 0x8000
OTHERS_ENTER = 0o001
MAX_PATH_STEPS = 1000


def enter_namespaces(new_user: bool) -> None:
    """Move this process to new namespaces, and its children to a new PID namespace."""
    flags = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS
    uid, gid = os.getuid(), os.getgid()
    checked(libc.unshare(flags | (CLONE_NEWUSER if new_user else 0)), "unshare")
    if new_user:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
        Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")


def arrange(policy: Policy, user: int) -> None:
    """Lay out the mounts of a policy in a new mount namespace.

    `user` is the unprivileged user that the sandboxed process becomes, or 0.
    Raises: OSError.
    """
    _mount("none", "/", None, MS_REC | MS_PRIVATE)
    if policy.features.private_proc:
        _mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    if policy.features.read_only_system:
        # A GPU's driver names its threads: it writes /proc/self/task/*/comm.
        writes_proc = policy.gpu and policy.features.private_proc
        # With Landlock only the first of these could be written.
        protected = ("/proc/sys", *(() if policy.features.landlock else KERNEL_PATHS))
        for path in filter(os.path.exists, protected if writes_proc else ()):
            _mount(path, path, None, MS_BIND)  # as a mount of its own it stays read-only
        cwd = os.getcwd()
        granted = (*policy.readable, *policy.writable)
        # Without Landlock a process needs /proc, which names only the processes of its sandbox.
        system = (*system_paths(policy), "/proc")
        every = (*system, *DEVICE_PATHS, *granted, *gpu_paths(policy))
        # Landlock refuses other paths; where there is none, they are hidden.
        if policy.minimal_root or not (policy.features.landlock or policy.confines_itself):
            with os.scandir("/") as entries:
                folders = {Path(entry) for entry in entries if entry.is_dir(follow_symlinks=False)}
            _hide_others(every, folders)
        elif policy.gpu:
            _hide_others(every, {DEVICES})
        elif user:
            _make_reachable(granted)
        for path in policy.writable:
            if user and not policy.scratch_bytes:
                _give(path, user)
            owner = f",mode=700,uid={user},gid={user}" if user else ""
            size = f"size={policy.scratch_bytes}{owner}"
            in_memory = ("tmpfs", path, "tmpfs", MS_NOSUID | MS_NODEV, size)
            _mount(*(in_memory if policy.scratch_bytes else (path, path, None, MS_BIND)))
        _set_read_only("/", on=True, recursive=True)
        for path in (*policy.writable, *(("/proc",) if writes_proc else ())):
            _set_read_only(path, on=False, recursive=False)
        os.chdir(cwd)


def _give(folder: str, user: int) -> None:
    """Make a user the owner of a folder and of all in it."""
    for place, _, names in os.walk(folder):
        for path in (place, *(os.path.join(place, name) for name in names)):
            os.chown(path, user, user, follow_symlinks=False)


def system_paths(policy: Policy) -> Sequence[str]:
    """Return what a policy lets a process read of the system."""
    return TOOLCHAIN_PATHS if policy.toolchain_only else SYSTEM_PATHS


def gpu_paths(policy: Policy) -> tuple[str, ...]:
    """Return the device files of a policy's GPUs, and what their drivers read; else nothing."""
    return (*policy.gpu_files, *GPU_PATHS) if policy.gpu else ()


def _hide_others(paths: Iterable[str], folders: Set[Path]) -> None:
    """Leave only these paths visible in folders below `/`, and the links that lead to them.

    Any process that sees the path of a socket can connect to it. `/dev` is one of the folders.
    """
    _make_reachable(paths, folders)
    for name, target in DEVICE_LINKS.items():
        (DEVICES / name).symlink_to(f"/proc/self/{target}")


def _make_reachable(paths: Iterable[str], hidden: Set[Path] = frozenset()) -> None:
    """Let an unprivileged user reach paths that it can read.

    An empty file system covers each folder on the way that others cannot enter, and each `hidden`
    one. In it are only the given paths, as bind mounts, and the links that lead to them.
    """
    links: dict[Path, str] = {}
    granted = {path for path in (_resolve(path, links) for path in paths) if path.exists()}
    descriptors = {path: os.open(path, os.O_PATH | os.O_CLOEXEC) for path in granted}
    files = {path for path in granted if not path.is_dir()}
    wanted = sorted({*granted, *links})
    covered: list[Path] = []
    for folder in sorted({*_closed(wanted), *(hidden - granted)}):
        above = [each for each in covered if each in folder.parents]
        bound = granted & {folder, *folder.parents}
        if above and not any(above[-1] in path.parents for path in bound):
            continue  # it was created anew in a covered folder, so others can enter it
        _mount("tmpfs", str(folder), "tmpfs", MS_NOSUID | MS_NODEV, "mode=755")
        covered.append(folder)
        for path in wanted:
            containing = granted.intersection(path.parents)
            if folder not in path.parents or any(folder in each.parents for each in containing):
                continue  # it is elsewhere, or part of another granted folder
            path.parent.mkdir(parents=True, exist_ok=True)
            if path in links:
                path.symlink_to(links[path])
            else:
                make = path.touch if path in files else path.mkdir
                make()
                source = f"/proc/self/fd/{descriptors[path]}"
                _mount(source, str(path), None, MS_BIND | MS_REC)
    for descriptor in descriptors.values():
        os.close(descriptor)


def _closed(paths: Iterable[Path]) -> set[Path]:
    """Return the folders above these paths that others cannot enter."""
    folders = {folder for path in paths for folder in path.parents}
    return {folder for folder in folders if not folder.stat().st_mode & OTHERS_ENTER}


def _resolve(path: str, links: dict[Path, str]) -> Path:
    """Resolve a path, and add the symbolic links on the way to `links`.

    Raises: OSError where the links form a circle.
    """
    resolved, parts = Path("/"), [*reversed(Path(path).parts)]
    for _ in range(MAX_PATH_STEPS):
        if not parts:
            return resolved
        step = resolved / (part := parts.pop())
        if part in ("..", "/"):
            resolved = resolved.parent if part == ".." else Path("/")
        elif step.is_symlink():
            links[step] = os.readlink(step)
            parts += reversed(Path(links[step]).parts)
        else:
            resolved = step
    raise OSError(f"the links of {path} form a circle")


def _mount(source: str, target: str, kind: str | None, flags: int, data: str = "") -> None:
    texts = source.encode(), target.encode(), kind and kind.encode()
    checked(libc.mount(*texts, flags, data.encode()), f"mount {target}")


def _set_read_only(path: str, on: bool, recursive: bool) -> None:
    attributes = struct.pack("QQQQ", MS_RDONLY if on else 0, 0 if on else MS_RDONLY, 0, 0)
    flags = AT_RECURSIVE if recursive else 0
    result = libc.syscall(
        SYS_MOUNT_SETATTR, AT_FDCWD, path.encode(), flags, attributes, len(attributes)
    )
    checked(result, f"mount_setattr {path}")
