"""Containment of a process: what it may not do any more, and the processes above it.

A sandboxed process has two processes above it. The supervisor enters new namespaces and forks the
init process, which mounts a new `/proc`, makes the system read-only, and forks the sandboxed
process, or one for each rank of a model. The init process ends with it, and the kernel then kills
all that it started.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import platform
import resource
import struct
import sys
from collections.abc import Callable, Sequence

from evaluation.sandbox import landlock, loopback, mounts, procfs, seccomp
from evaluation.sandbox.policy import Policy
from evaluation.sandbox.syscalls import PR_SET_DUMPABLE, checked, die_with_parent, libc, prctl

PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 24, 38
KEYCTL_JOIN_SESSION_KEYRING = 1
FIRST_UNPRIVILEGED_UID = 0x7000_0000
"""Plus the pid of its supervisor, it is the id of a user that no other process has."""
FAILED_TO_START = 125
"""Exit code where the isolation could not be set up."""


def contain(policy: Policy, *bodies: Callable[[], None]) -> int:
    """Run each of `bodies` in a sandboxed grandchild of this process, the supervisor.

    Each is confined by itself: what a process may write of its own in `/proc` is no right of its
    children. The first that ends ends the others.

    Returns: the pid of the init process, which exits as that one did, with 128 + n after signal n.
    Raises: OSError where the policy's namespaces cannot be entered.
    """
    other_user = policy.unprivileged_user and policy.features.other_user
    user = FIRST_UNPRIVILEGED_UID + os.getpid() if other_user else 0
    if policy.features.namespaces:
        mounts.enter_namespaces(policy.features.user_namespace)
    if policy.loopback or policy.ranks:
        if not policy.features.namespaces:
            raise OSError("a loopback network needs network namespaces, and this machine has none")
        loopback.bring_up()
    if policy.loopback:
        loopback.open_in_sandbox(policy.loopback_control)
    init = os.fork()
    if init == 0:
        _exit_after(lambda: _serve_as_init(policy, bodies, user))
    return init


def _exit_after(body: Callable[[], None]) -> None:
    """Run `body` and end this process, in failure with a message on stderr."""
    try:
        body()
    except BaseException as error:
        os.write(2, f"sandbox: {error}\n".encode())
        os._exit(FAILED_TO_START)
    os._exit(0)


def _serve_as_init(policy: Policy, bodies: Sequence[Callable[[], None]], user: int) -> None:
    def run_sandboxed(body: Callable[[], None]) -> None:
        prctl(PR_SET_DUMPABLE, 1)
        confine(policy, user)
        body()

    die_with_parent()
    if policy.features.namespaces:
        mounts.arrange(policy, user)
    prctl(PR_SET_DUMPABLE, 0)
    sandboxed = set()
    for body in bodies:
        if (forked := os.fork()) == 0:
            _exit_after(functools.partial(run_sandboxed, body))
        sandboxed.add(forked)
    os.closerange(3, 1 << 16)
    while True:
        pid, status = os.wait()
        if pid in sandboxed:
            os._exit(exit_code(status))


def exit_code(status: int) -> int:
    """Return the exit code of a wait status as shells give it: 128 + n after signal n."""
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def confine(policy: Policy, user: int = 0) -> None:
    """Drop all rights of this process that a policy does not grant, and become `user` unless 0."""
    die_with_parent()
    _set_limits(policy, user)
    _drop_capabilities(user)
    _leave_keyring(policy)
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    if policy.features.landlock:
        landlock.restrict(policy)
    if policy.features.seccomp:
        seccomp.restrict(policy)


def _set_limits(policy: Policy, user: int) -> None:
    # Linux counts all processes of a user, except root's.
    others = 0 if user or not os.getuid() else procfs.threads_of_user(os.getuid())
    with open("/proc/self/statm") as statm:
        mapped = int(statm.read().split()[0]) * resource.getpagesize()
    for kind, value in (
        (resource.RLIMIT_AS, mapped + (policy.memory_bytes or 1 << 50)),
        (resource.RLIMIT_FSIZE, policy.file_bytes),
        (resource.RLIMIT_CPU, policy.cpu_seconds),
        (resource.RLIMIT_NPROC, policy.processes + others),
        (resource.RLIMIT_NOFILE, 1024),
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(kind)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (value, value))


def _drop_capabilities(user: int) -> None:
    for capability in range(64):
        if libc.prctl(PR_CAPBSET_DROP, ctypes.c_ulong(capability), 0, 0, 0) < 0:
            break  # past the last capability, or without CAP_SETPCAP
    if user:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
        prctl(PR_SET_DUMPABLE, 1)  # the kernel cleared it; without it /proc/self is unreadable
        die_with_parent()  # the kernel cleared it, too
    header, none = struct.pack("Ii", 0x20080522, 0), bytes(24)
    checked(libc.capset(header, none), "capset")


def _leave_keyring(policy: Policy) -> None:
    """Begin a session keyring that is empty: keyrings belong to no namespace.

    The filter of system calls refuses them as well, so an error counts only where there is none.
    """
    architecture = seccomp.ARCHITECTURES.get(platform.machine())
    number = architecture and seccomp.NUMBERS["keyctl"][architecture.column]
    if number is None or libc.syscall(number, KEYCTL_JOIN_SESSION_KEYRING, None) >= 0:
        return
    without_keyrings = ctypes.get_errno() in (errno.ENOSYS, errno.EPERM)
    if not (without_keyrings or policy.features.seccomp):
        raise OSError(ctypes.get_errno(), "an empty keyring cannot be begun")


def main() -> None:
    """Run the command of the argument list in the sandbox, and exit as it did."""
    policy, argv = Policy.from_json(sys.argv[1]), sys.argv[2:]
    die_with_parent()
    init = contain(policy, lambda: os.execvpe(argv[0], argv, dict(os.environ)))
    os._exit(exit_code(os.waitpid(init, 0)[1]))
