"""The walls around code that is not trusted: namespaces, Landlock, seccomp, capabilities, limits.

Standard library alone, and no import of its siblings: it also runs as a script, to confine a
command:

    python -I -S sandbox.py '<policy as JSON>' command argument ...

Three processes stand behind each confined body. The *warden* enters new namespaces and forks the
*init*, which mounts a fresh `/proc` and makes the system read-only, forks the *inmate*, and ends
with it; the kernel then kills whatever the inmate left behind. Only the inmate runs what is not
trusted.
"""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import json
import os
import platform
import resource
import signal
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_libc = ctypes.CDLL(None, use_errno=True)

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC = 0x0002_0000, 0x0400_0000, 0x0800_0000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x1000_0000, 0x2000_0000, 0x4000_0000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 1 << 18
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_SECCOMP = 1, 4, 22
PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 24, 38
SYS_MOUNT_SETATTR, SYS_LANDLOCK_CREATE, SYS_LANDLOCK_ADD, SYS_LANDLOCK_RESTRICT = 442, 444, 445, 446
AT_FDCWD, AT_RECURSIVE = -100, 0x8000

SYSTEM_PATHS = (
    "/usr /lib /lib64 /lib32 /bin /sbin /proc /sys/devices/system /sys/fs/cgroup /etc/ld.so.cache"
    " /etc/ld.so.conf /etc/ld.so.conf.d /etc/alternatives /etc/localtime /etc/passwd /etc/group"
    " /etc/nsswitch.conf /dev/random /dev/urandom"
).split()
DEVICE_PATHS = ("/dev/null", "/dev/zero")
GPU_NODES, GPU_PATHS = ("nvidia*", "kfd", "dri"), ("/sys", "/opt/rocm")
MOST_SAID = 1 << 20


@dataclass(frozen=True)
class Walls:
    """What this machine can put around a process, found by trying it."""

    namespaces: bool = False
    user_namespace: bool = False
    private_proc: bool = False
    read_only_system: bool = False
    landlock: int = 0
    seccomp: bool = False

    @property
    def any(self) -> bool:
        return self.namespaces or self.landlock > 0


@dataclass(frozen=True)
class Policy:
    """What an inmate may do. Paths are absolute; `processes` counts threads too.

    With `scratch_bytes` the writable folders are memory of that size, gone with the inmate; with
    `gpu` it reaches this machine's GPUs. No `memory_bytes` are no limit on addresses.
    `fork=False` leaves threads but neither new processes, nor other programs, nor a choice of
    cores.
    """

    walls: Walls
    readable: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    memory_bytes: int = 8 << 30
    file_bytes: int = 1 << 30
    cpu_seconds: int = 600
    processes: int = 256
    scratch_bytes: int = 0
    fork: bool = True
    unix_sockets: bool = False
    gpu: bool = False

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Policy:
        data = json.loads(text)
        data["walls"] = Walls(**data["walls"])
        data |= {name: tuple(data[name]) for name in ("readable", "writable")}
        return cls(**data)


def contain(policy: Policy, body: Callable[[], None]) -> int:
    """In the warden: run `body` behind the walls in a grandchild. Returns the pid of the init.

    The init's exit status is the inmate's, 128 + n for signal n. Raises OSError when a wall that
    `policy.walls` promises cannot be put up.
    """
    if policy.walls.namespaces:
        _enter_namespaces(policy.walls.user_namespace)
    init = os.fork()
    if init:
        return init
    try:
        _serve_as_init(policy, body)
    except BaseException as error:
        os.write(2, f"sandbox: {error}\n".encode())
    os._exit(125)


def _serve_as_init(policy: Policy, body: Callable[[], None]) -> None:
    die_with_parent()
    if policy.walls.namespaces:
        _arrange_mounts(policy)
    _prctl(PR_SET_DUMPABLE, 0)
    inmate = os.fork()
    if inmate == 0:
        try:
            _prctl(PR_SET_DUMPABLE, 1)
            confine(policy)
            body()
        except BaseException as error:
            os.write(2, f"sandbox: {error}\n".encode())
            os._exit(125)
        os._exit(0)
    os.closerange(3, 1 << 16)
    while True:
        pid, status = os.wait()
        if pid == inmate:
            os._exit(shell_status(status))


def shell_status(status: int) -> int:
    """A wait status as a shell gives it: the exit code, or 128 + n after signal n."""
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def confine(policy: Policy) -> None:
    """Take from this process, for ever, all that `policy` does not grant."""
    die_with_parent()
    _limit(policy)
    _drop_capabilities()
    _prctl(PR_SET_NO_NEW_PRIVS, 1)
    if policy.walls.landlock:
        _landlock(policy)
    if policy.walls.seccomp:
        _seccomp(policy)


def die_with_parent() -> None:
    """Ask the kernel to kill this process when its parent dies."""
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _checked(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def _prctl(option: int, argument: int) -> None:
    _checked(_libc.prctl(option, ctypes.c_ulong(argument), 0, 0, 0), f"prctl {option}")


def _enter_namespaces(user: bool) -> None:
    flags = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS
    uid, gid = os.getuid(), os.getgid()
    _checked(_libc.unshare(flags | (CLONE_NEWUSER if user else 0)), "unshare")
    if user:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
        Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")


def _mount(source: str, target: str, kind: str | None, flags: int, data: str = "") -> None:
    words = source.encode(), target.encode(), kind and kind.encode()
    _checked(_libc.mount(*words, flags, data.encode()), f"mount {target}")


def _set_read_only(path: str, on: bool, recursive: bool) -> None:
    attributes = struct.pack("QQQQ", MS_RDONLY if on else 0, 0 if on else MS_RDONLY, 0, 0)
    flags = AT_RECURSIVE if recursive else 0
    result = _libc.syscall(
        SYS_MOUNT_SETATTR, AT_FDCWD, path.encode(), flags, attributes, len(attributes)
    )
    _checked(result, f"mount_setattr {path}")


def _arrange_mounts(policy: Policy) -> None:
    _mount("none", "/", None, MS_REC | MS_PRIVATE)
    if policy.walls.private_proc:
        _mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    if policy.walls.read_only_system:
        here = os.getcwd()
        for path in policy.writable:
            size = f"size={policy.scratch_bytes}"
            of_memory = ("tmpfs", path, "tmpfs", MS_NOSUID | MS_NODEV, size)
            _mount(*(of_memory if policy.scratch_bytes else (path, path, None, MS_BIND)))
        _set_read_only("/", on=True, recursive=True)
        for path in policy.writable:
            _set_read_only(path, on=False, recursive=False)
        os.chdir(here)


def _limit(policy: Policy) -> None:
    with open("/proc/self/statm") as statm:
        mapped = int(statm.read().split()[0]) * resource.getpagesize()
    for kind, value in (
        (resource.RLIMIT_AS, mapped + (policy.memory_bytes or 1 << 50)),
        (resource.RLIMIT_FSIZE, policy.file_bytes),
        (resource.RLIMIT_CPU, policy.cpu_seconds),
        (resource.RLIMIT_NPROC, policy.processes),
        (resource.RLIMIT_NOFILE, 1024),
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(kind)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (value, value))


def _drop_capabilities() -> None:
    for capability in range(64):
        if _libc.prctl(PR_CAPBSET_DROP, ctypes.c_ulong(capability), 0, 0, 0) < 0:
            break  # past the last capability, or none to drop without CAP_SETPCAP
    header, none = struct.pack("Ii", 0x20080522, 0), bytes(24)
    _checked(_libc.capset(header, none), "capset")


# Landlock: https://docs.kernel.org/userspace-api/landlock.html
_READ = 1 << 0 | 1 << 2 | 1 << 3  # execute, read files, list folders
_FS_RIGHTS = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}
_FILE_RIGHTS = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 14 | 1 << 15


def _landlock(policy: Policy) -> None:
    abi = policy.walls.landlock
    every = max(rights for version, rights in _FS_RIGHTS.items() if version <= abi)
    network = 3 if abi >= 4 else 0
    scope = 3 if abi >= 6 else 0
    attributes = struct.pack("QQQ", every, network, scope)
    ruleset = _checked(
        _libc.syscall(
            SYS_LANDLOCK_CREATE, attributes, 24 if abi >= 6 else 16 if abi >= 4 else 8, 0
        ),
        "landlock_create_ruleset",
    )
    grants = [(path, _READ) for path in (*SYSTEM_PATHS, *policy.readable)]
    grants += [(path, every) for path in (*DEVICE_PATHS, *policy.writable)]
    if policy.gpu:
        grants += [(path, _READ) for path in GPU_PATHS]
        nodes = (node for pattern in GPU_NODES for node in Path("/dev").glob(pattern))
        grants += [(str(node), every) for node in nodes]
    for path, rights in grants:
        try:
            handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        allowed = rights & every & (-1 if os.path.isdir(path) else _FILE_RIGHTS)
        rule = struct.pack("=Qi", allowed, handle)
        _checked(_libc.syscall(SYS_LANDLOCK_ADD, ruleset, 1, rule, 0), f"landlock_add_rule {path}")
        os.close(handle)
    _checked(_libc.syscall(SYS_LANDLOCK_RESTRICT, ruleset, 0), "landlock_restrict_self")
    os.close(ruleset)


# seccomp, x86-64: calls that reach other processes, change the machine, pass other walls, or take
# memory that is in nobody's resident set.
_DENIED = {
    "ptrace": 101, "process_vm_readv": 310, "process_vm_writev": 311, "kcmp": 312,
    "pidfd_open": 434, "pidfd_getfd": 438, "pidfd_send_signal": 424, "perf_event_open": 298,
    "bpf": 321, "userfaultfd": 323, "add_key": 248, "request_key": 249, "keyctl": 250,
    "mount": 165, "umount2": 166, "pivot_root": 155, "chroot": 161, "setns": 308, "unshare": 272,
    "mount_setattr": 442, "open_tree": 428, "move_mount": 429, "fsopen": 430, "fsmount": 432,
    "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427,
    "open_by_handle_at": 304, "settimeofday": 164, "clock_settime": 227, "adjtimex": 159,
    "clock_adjtime": 305, "memfd_create": 319, "memfd_secret": 447, "shmget": 29,
}  # fmt: skip
_FORKING = {"fork": 57, "vfork": 58, "execve": 59, "execveat": 322, "sched_setaffinity": 203}
_CLONE, _CLONE3, _SOCKET, _AF_UNIX, _CLONE_THREAD = 56, 435, 41, 1, 0x10000
_AUDIT_ARCH, _X32_BIT = 0xC000003E, 0x40000000
_ALLOW, _KILL, _EPERM, _ENOSYS = 0x7FFF0000, 0x80000000, 0x00050001, 0x00050026
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCH, _ARGUMENT = 0, 4, 16


def _seccomp_program(policy: Policy) -> bytes:
    def op(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
        return struct.pack("HBBI", code, if_true, if_false, value)

    def when(number: int, *then: bytes) -> list[bytes]:
        """Run `then` for system call `number`; it must end in a return."""
        return [op(_EQUAL, number, 0, len(then)), *then]

    def only_if(test: int, value: int) -> tuple[bytes, ...]:
        """Allow a call whose first argument passes the test, refuse any other."""
        return op(_LOAD, _ARGUMENT), op(test, value, 0, 1), op(_RETURN, _ALLOW), refuse

    refuse = op(_RETURN, _EPERM)
    program = [op(_LOAD, _ARCH), op(_EQUAL, _AUDIT_ARCH, 1, 0), op(_RETURN, _KILL)]
    program += [op(_LOAD, _NUMBER), op(_AT_LEAST, _X32_BIT, 0, 1), op(_RETURN, _KILL)]
    for number in (*_DENIED.values(), *(() if policy.fork else _FORKING.values())):
        program += when(number, refuse)
    # clone3 hides its flags from a filter; without it the C library falls back to clone.
    program += when(_CLONE3, op(_RETURN, _ENOSYS))
    program += when(_SOCKET, *(only_if(_EQUAL, _AF_UNIX) if policy.unix_sockets else (refuse,)))
    if not policy.fork:
        program += when(_CLONE, *only_if(_ANY_BIT, _CLONE_THREAD))
    program.append(op(_RETURN, _ALLOW))
    return b"".join(program)


def _seccomp(policy: Policy) -> None:
    program = ctypes.create_string_buffer(_seccomp_program(policy))
    header = struct.pack("HxxxxxxP", (len(program) - 1) // 8, ctypes.addressof(program))
    _checked(_libc.prctl(PR_SET_SECCOMP, 2, header, 0, 0), "seccomp")


@functools.cache
def walls() -> Walls:
    """The walls of this machine, each tried in a child that ends at once."""
    landlock = max(0, int(_libc.syscall(SYS_LANDLOCK_CREATE, None, 0, 1)))  # its version
    found = Walls(landlock=landlock, seccomp=platform.machine() == "x86_64")
    if found.seccomp and not _holds(found):
        found = dataclasses.replace(found, seccomp=False)
    for user in (False, True):
        trial = dataclasses.replace(found, namespaces=True, user_namespace=user)
        if not _holds(trial):
            continue
        for wall in ("private_proc", "read_only_system"):
            stronger = dataclasses.replace(trial, **{wall: True})
            trial = stronger if _holds(stronger) else trial
        return trial
    return found


def _holds(trial: Walls) -> bool:
    """Whether `true` runs behind these walls."""
    return run(["/bin/true"], Policy(walls=trial), timeout=20).returncode == 0


def command(argv: Sequence[str], policy: Policy) -> list[str]:
    """The command line that runs `argv` behind the walls."""
    return [sys.executable, "-I", "-S", os.path.abspath(__file__), policy.to_json(), *argv]


def run(
    argv: Sequence[str],
    policy: Policy,
    *,
    timeout: float,
    cwd: str | Path = "/",
    env: Mapping[str, str] | None = None,
    stdin: str = "",
) -> subprocess.CompletedProcess[str]:
    """Run a command behind the walls and collect the last MiB it says, stderr within stdout.

    `env` is all the environment it gets. The return code is a shell's; -9 (and everything killed)
    past `timeout` seconds.
    """
    with (
        tempfile.TemporaryFile() as said,
        subprocess.Popen(
            command(argv, policy),
            stdin=subprocess.PIPE,
            stdout=said,
            stderr=subprocess.STDOUT,
            cwd=cwd,
            env={"PATH": "/usr/local/bin:/usr/bin:/bin", **(env or {})},
            start_new_session=True,
        ) as process,
    ):
        try:
            process.communicate(stdin.encode(), timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
        said.seek(max(0, os.fstat(said.fileno()).st_size - MOST_SAID))
        output = said.read(MOST_SAID).decode(errors="replace")
    return subprocess.CompletedProcess(list(argv), process.returncode, output)


def main() -> None:
    """Confine and run the command of the argument list; exit as it did."""
    policy, argv = Policy.from_json(sys.argv[1]), sys.argv[2:]
    die_with_parent()
    init = contain(policy, lambda: os.execvpe(argv[0], argv, dict(os.environ)))
    os._exit(shell_status(os.waitpid(init, 0)[1]))


if __name__ == "__main__":
    main()
