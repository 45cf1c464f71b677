"""The walls around code that is not trusted: namespaces, Landlock, seccomp, capabilities, limits.

Standard library alone: it also runs on its own, to confine a command (see `command`).

Three processes stand behind each confined body. The *warden* enters new namespaces and forks the
*init*, which mounts a fresh `/proc` and makes the system read-only, forks the *inmate*, and ends
with it; the kernel then kills whatever the inmate left behind. Only the inmate runs what is not
trusted.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import functools
import os
import platform
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from evaluation.sandbox import mounts, seccomp
from evaluation.sandbox.mounts import DEVICE_PATHS, SYSTEM_PATHS, checked, libc
from evaluation.sandbox.policy import IsolationFeatures, Policy
from evaluation.sandbox.resource_watch import SECONDS, Amounts, Excess, Watch

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC = 0x0002_0000, 0x0400_0000, 0x0800_0000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x1000_0000, 0x2000_0000, 0x4000_0000
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_SECCOMP = 1, 4, 22
PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 24, 38
SYS_LANDLOCK_CREATE, SYS_LANDLOCK_ADD, SYS_LANDLOCK_RESTRICT = 444, 445, 446

GPU_NODES, GPU_PATHS = ("nvidia*", "kfd", "dri"), ("/sys", "/opt/rocm")
MOST_SAID = 1 << 20
OPENING_BYTES = 64 << 10
END_SECONDS = 10.0
STRANGERS = 0x7000_0000
"""Users that nobody else here is; each stranger is the one of its warden's pid."""
CAP_KILL, CAP_SETGID, CAP_SETUID, CAP_SYS_NICE = 5, 6, 7, 23
OVER_STRANGERS = 1 << CAP_KILL | 1 << CAP_SETGID | 1 << CAP_SETUID | 1 << CAP_SYS_NICE
"""What it takes to make a stranger, to stop it, and to place its threads."""


def contain(policy: Policy, body: Callable[[], None]) -> int:
    """In the warden: run `body` behind the walls in a grandchild. Returns the pid of the init.

    The init's exit status is the inmate's, 128 + n for signal n. Raises OSError when a wall that
    `policy.walls` promises cannot be put up.
    """
    user = STRANGERS + os.getpid() if policy.stranger and policy.walls.other_user else 0
    if policy.walls.namespaces:
        _enter_namespaces(policy.walls.user_namespace)
    init = os.fork()
    if init:
        return init
    try:
        _serve_as_init(policy, body, user)
    except BaseException as error:
        os.write(2, f"sandbox: {error}\n".encode())
    os._exit(125)


def _serve_as_init(policy: Policy, body: Callable[[], None], user: int) -> None:
    die_with_parent()
    if policy.walls.namespaces:
        mounts.arrange(policy, user)
    _prctl(PR_SET_DUMPABLE, 0)
    inmate = os.fork()
    if inmate == 0:
        try:
            _prctl(PR_SET_DUMPABLE, 1)
            confine(policy, user)
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


def confine(policy: Policy, user: int = 0) -> None:
    """Take from this process, for ever, all that `policy` does not grant; be that `user`."""
    die_with_parent()
    _limit(policy)
    _drop_capabilities(user)
    _prctl(PR_SET_NO_NEW_PRIVS, 1)
    if policy.walls.landlock:
        _landlock(policy)
    if policy.walls.seccomp:
        _seccomp(policy)


def die_with_parent() -> None:
    """Ask the kernel to kill this process when its parent dies."""
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _prctl(option: int, argument: int) -> None:
    checked(libc.prctl(option, ctypes.c_ulong(argument), 0, 0, 0), f"prctl {option}")


def _enter_namespaces(user: bool) -> None:
    flags = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS
    uid, gid = os.getuid(), os.getgid()
    checked(libc.unshare(flags | (CLONE_NEWUSER if user else 0)), "unshare")
    if user:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
        Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")


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


def _drop_capabilities(user: int) -> None:
    for capability in range(64):
        if libc.prctl(PR_CAPBSET_DROP, ctypes.c_ulong(capability), 0, 0, 0) < 0:
            break  # past the last capability, or none to drop without CAP_SETPCAP
    if user:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
        _prctl(PR_SET_DUMPABLE, 1)  # as it was: else it could not read its own /proc/self
        die_with_parent()  # the kernel forgot
    header, none = struct.pack("Ii", 0x20080522, 0), bytes(24)
    checked(libc.capset(header, none), "capset")


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
    ruleset = checked(
        libc.syscall(SYS_LANDLOCK_CREATE, attributes, 24 if abi >= 6 else 16 if abi >= 4 else 8, 0),
        "landlock_create_ruleset",
    )
    grants = [(path, _READ) for path in (*SYSTEM_PATHS, *policy.readable)]
    grants += [(path, every) for path in (*DEVICE_PATHS, *policy.writable)]
    if policy.gpu:
        nodes = (str(n) for pattern in GPU_NODES for n in Path("/dev").glob(pattern))
        grants += [(path, _READ) for path in GPU_PATHS]
        grants += [(path, every) for path in ("/proc/self/task", *nodes)]
    for path, rights in grants:
        try:
            handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except (FileNotFoundError, PermissionError):  # what it does not reach needs no wall
            continue
        allowed = rights & every & (-1 if os.path.isdir(path) else _FILE_RIGHTS)
        rule = struct.pack("=Qi", allowed, handle)
        checked(libc.syscall(SYS_LANDLOCK_ADD, ruleset, 1, rule, 0), f"landlock_add_rule {path}")
        os.close(handle)
    checked(libc.syscall(SYS_LANDLOCK_RESTRICT, ruleset, 0), "landlock_restrict_self")
    os.close(ruleset)


def _seccomp(policy: Policy) -> None:
    unix = "any" if policy.unix_sockets else "packets" if policy.gpu else ""
    program = ctypes.create_string_buffer(seccomp.program(policy.fork, unix, policy.pinned))
    header = struct.pack("HxxxxxxP", (len(program) - 1) // 8, ctypes.addressof(program))
    checked(libc.prctl(PR_SET_SECCOMP, 2, header, 0, 0), "seccomp")


@functools.cache
def walls() -> IsolationFeatures:
    """The walls of this machine, tried in children that end at once: all together, then each."""
    landlock = max(0, int(libc.syscall(SYS_LANDLOCK_CREATE, None, 0, 1)))  # its version
    found = IsolationFeatures(landlock=landlock, seccomp=platform.machine() == "x86_64")
    every = dataclasses.replace(found, namespaces=True, private_proc=True, read_only_system=True)
    if (strongest := _with_other_user(every)).other_user:
        return strongest  # all of them in one trial
    if found.seccomp and not _holds(found):
        found = dataclasses.replace(found, seccomp=False)
    for user in (False, True):
        trial = dataclasses.replace(found, namespaces=True, user_namespace=user)
        if not _holds(trial):
            continue
        for wall in ("private_proc", "read_only_system"):
            stronger = dataclasses.replace(trial, **{wall: True})
            trial = stronger if _holds(stronger) else trial
        return _with_other_user(trial)
    return found


def _holds(trial: IsolationFeatures) -> bool:
    """Whether `true` runs behind these walls."""
    return run(["/bin/true"], Policy(walls=trial), timeout=20).returncode == 0


_STRANGER = """
import glob, importlib.util, os, sys
for path in glob.glob(sys.argv[1] + "/**/*.py", recursive=True):
    open(path).close()
open(importlib.util.find_spec("torch").origin).close()
open("/proc/self/comm").close()
open("its own", "w").close()
nodes = (node for name in ("[0-9]*", "ctl", "-uvm") for node in glob.glob("/dev/nvidia" + name))
sys.exit(not all(os.access(node, os.R_OK | os.W_OK) for node in nodes))
"""


def _with_other_user(found: IsolationFeatures) -> IsolationFeatures:
    """These walls, with users of their own for strangers where that can be: root makes them, what
    it writes they may read, and what a contestant takes is within their reach: Python and PyTorch,
    this package, the GPUs.
    """
    if not found.read_only_system or found.user_namespace:
        return found
    status = Path("/proc/self/status").read_text()
    told = dict(line.partition(":\t")[::2] for line in status.splitlines())
    mighty = int(told.get("CapEff", "0"), 16) & OVER_STRANGERS == OVER_STRANGERS
    if not mighty or int(told.get("Umask", "077"), 8) & 0o055:
        return found
    trial = dataclasses.replace(found, other_user=True)
    package = str(Path(__file__).resolve().parents[1])
    with tempfile.TemporaryDirectory("-arena") as scratch:
        policy = Policy(
            walls=trial,
            readable=(sys.prefix, sys.base_prefix, package),
            writable=(scratch,),
            scratch_bytes=1 << 20,
            gpu=True,
            stranger=True,
        )
        argv = [sys.executable, "-I", "-c", _STRANGER, package]
        done = run(argv, policy, timeout=20, cwd=scratch)
    return trial if done.returncode == 0 else found


def command(argv: Sequence[str], policy: Policy) -> list[str]:
    """The command line that runs `argv` behind the walls."""
    here = str(Path(__file__).resolve().parents[2])
    code = (
        f"import sys; sys.path.insert(0, {here!r});"
        "from evaluation.sandbox.launch import main; main()"
    )
    return [sys.executable, "-I", "-S", "-c", code, policy.to_json(), *argv]


@dataclass(frozen=True)
class Opening:
    """A word that a command is to say within so many seconds, early in what it says."""

    word: str
    seconds: float

    def heard(self, said: int) -> bool:
        """Whether it is in the first of what was said into a file."""
        return self.word.encode() in os.pread(said, OPENING_BYTES, 0)


@dataclass(frozen=True)
class Done:
    """A command that has ended: its exit code as a shell gives it, -9 where it was killed for what
    it `exceeded`, the last MiB that it said, stderr within, and whether its opening was `heard`.
    """

    returncode: int
    stdout: str
    exceeded: Excess | None = None
    heard: bool = False


def run(
    argv: Sequence[str],
    policy: Policy,
    *,
    timeout: float,
    cwd: str | Path = "/",
    env: Mapping[str, str] | None = None,
    most: Amounts | None = None,
    opening: Opening | None = None,
) -> Done:
    """Run a command behind the walls, and collect what it says. Everything is killed past `timeout`
    seconds, where its `opening` is not heard in time, or when all that it starts takes more than
    `most` together.

    `env` is all the environment it gets.
    """
    with (
        tempfile.TemporaryFile() as said,
        subprocess.Popen(
            command(argv, policy),
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
            cwd=cwd,
            env={"PATH": "/usr/local/bin:/usr/bin:/bin", **(env or {})},
            start_new_session=True,
        ) as process,
    ):
        watch = Watch(most, () if policy.scratch_bytes else policy.writable) if most else None
        if exceeded := _wait(process, timeout, watch, opening, said.fileno()):
            end(process)
        code = -signal.SIGKILL if exceeded else process.returncode
        heard = opening is not None and opening.heard(said.fileno())
        output = last_said(said.fileno())
    return Done(code, output, exceeded, heard)


def _wait(
    process: subprocess.Popen[bytes],
    timeout: float,
    watch: Watch | None,
    opening: Opening | None,
    said: int,
) -> Excess | None:
    """Wait until a process ends, or is to be ended for what is returned."""
    begun = time.monotonic()
    limit = min(opening.seconds, timeout) if opening else timeout
    while True:
        until = min(begun + limit, watch.due) if watch else begun + limit
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, until - time.monotonic()))
            return None
        if watch and (exceeded := watch.look(process.pid)):
            return exceeded
        taken = time.monotonic() - begun
        if opening and taken >= limit and opening.heard(said):
            limit, opening = timeout, None
        if taken >= limit:
            return Excess(SECONDS, taken, limit)


def end(warden: subprocess.Popen[bytes]) -> None:
    """Kill everything behind the walls of a `command`, and return when it is gone: with the init of
    a namespace go all in it, and its warden hears of it afterwards.
    """
    for init in Path(f"/proc/{warden.pid}/task/{warden.pid}/children").read_text().split():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(init), signal.SIGKILL)
    try:
        warden.communicate(timeout=END_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(warden.pid, signal.SIGKILL)
        warden.communicate()


def last_said(descriptor: int) -> str:
    """The last MiB of what was said into a file."""
    begin = max(0, os.fstat(descriptor).st_size - MOST_SAID)
    return os.pread(descriptor, MOST_SAID, begin).decode(errors="replace")


def main() -> None:
    """Confine and run the command of the argument list; exit as it did."""
    policy, argv = Policy.from_json(sys.argv[1]), sys.argv[2:]
    die_with_parent()
    init = contain(policy, lambda: os.execvpe(argv[0], argv, dict(os.environ)))
    os._exit(shell_status(os.waitpid(init, 0)[1]))
