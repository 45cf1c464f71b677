"""System calls that are refused to a sandboxed process, as a seccomp filter.

The calls reach other processes, change the machine, undo other isolation, or allocate memory that
counts for no process. Source: seccomp(2), and `struct sock_filter` of linux/filter.h.
"""

from __future__ import annotations

import ctypes
import platform
import struct
from collections.abc import Set
from dataclasses import dataclass

from evaluation.sandbox.policy import Policy
from evaluation.sandbox.syscalls import checked, libc

PR_SET_SECCOMP, _FILTER_MODE = 22, 2


@dataclass(frozen=True)
class Architecture:
    """A processor architecture: its audit number and its column of `NUMBERS`."""

    audit: int
    column: int
    max_number: int = 0
    """The largest number of its own calls, above which another ABI's begin; 0 for no such ABI."""


ARCHITECTURES = {
    "x86_64": Architecture(0xC000003E, 0, max_number=0x3FFFFFFF),  # x32 is above
    "aarch64": Architecture(0xC00000B7, 1),
}
"""By `platform.machine()`. Without an entry a machine has no seccomp filter."""

NUMBERS: dict[str, tuple[int | None, int | None]] = {
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "kcmp": (312, 272), "pidfd_open": (434, 434), "pidfd_getfd": (438, 438),
    "pidfd_send_signal": (424, 424), "perf_event_open": (298, 241), "bpf": (321, 280),
    "userfaultfd": (323, 282), "add_key": (248, 217), "request_key": (249, 218),
    "keyctl": (250, 219), "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41),
    "chroot": (161, 51), "setns": (308, 268), "unshare": (272, 97), "mount_setattr": (442, 442),
    "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430), "fsmount": (432, 432),
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "open_by_handle_at": (304, 265), "settimeofday": (164, 170), "clock_settime": (227, 112),
    "adjtimex": (159, 171), "clock_adjtime": (305, 266), "memfd_create": (319, 279),
    "memfd_secret": (447, 447), "shmget": (29, 194), "semget": (64, 190), "msgget": (68, 186),
    "mq_open": (240, 180), "fork": (57, None), "vfork": (58, None), "execve": (59, 221),
    "execveat": (322, 281), "sched_setaffinity": (203, 122), "clone": (56, 220),
    "clone3": (435, 435), "socket": (41, 198), "socketpair": (53, 199), "madvise": (28, 233),
    "process_madvise": (440, 440), "fallocate": (285, 47),
}  # fmt: skip
"""Numbers by architecture. Source: asm/unistd_64.h of x86-64, asm-generic/unistd.h of aarch64."""

_STARTS_PROCESS = ("fork", "vfork", "execve", "execveat")
_FILTERED = ("clone", "clone3", "socket", "socketpair", "madvise", "fallocate")
"""Calls that are refused by their arguments, or with another error."""
_DENIED = NUMBERS.keys() - {*_STARTS_PROCESS, *_FILTERED, "sched_setaffinity"}

_SHARES_MEMORY = frozenset({"memfd_create"})
_CONFINES = frozenset({"unshare", "mount", "mount_setattr"})
"""Calls that make the namespaces of a sandbox."""

_CLONE_THREAD, _OR_VFORK, _CLONE_NEW = 0x10000, 0x14000, 0x7E020000
"""A thread that waits for another one as by vfork keeps signals from stopping its process. The last
are all namespaces that clone makes: in a new user namespace a process has all capabilities."""
_AF_INET, _AF_INET6, _AF_NETLINK, _NETLINK_ROUTE = 2, 10, 16, 0
_AF_UNIX, _SOCK_DGRAM, _SOCK_SEQPACKET, _SOCKET_TYPES = 1, 2, 5, 15
_MADV_REMOVE, _OR_COLLAPSE, _PUNCH_HOLE = 9, 0xFFFFFFEF, 2
"""By holes the baseline would map pages of shared memory anew, within its time. MADV_COLLAPSE, 25,
would give a candidate huge ones where the judge has small ones."""
_LOAD, _EQUAL, _GREATER, _ANY_BIT, _AND, _RETURN = 0x20, 0x15, 0x25, 0x45, 0x54, 0x06
_NUMBER, _ARCH, _ARGUMENT = 0, 4, 16
"""Offsets in `struct seccomp_data`. The low half of an argument comes first."""


def _op(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("HBBI", code, if_true, if_false, value)


_ALLOW, _REFUSE, _KILL = (_op(_RETURN, value) for value in (0x7FFF0000, 0x00050001, 0x80000000))
_ENOSYS = 0x00050026


def _when(column: int, call: str, *then: bytes) -> list[bytes]:
    """Run `then` for a system call; it must end in a return."""
    number = NUMBERS[call][column]
    return [] if number is None else [_op(_EQUAL, number, 0, len(then)), *then]


def _refuse_if(argument: int, test: int, value: int, bits: int = 0xFFFFFFFF) -> list[bytes]:
    """Refuse a call whose argument, of its low `bits`, passes the test; allow any other."""
    load = _op(_LOAD, _ARGUMENT + 8 * argument), _op(_AND, bits)
    return [*load, _op(test, value, 0, 1), _REFUSE, _ALLOW]


def _allow_if(argument: int, test: int, value: int, bits: int = 0xFFFFFFFF) -> list[bytes]:
    """Allow such a call; refuse any other."""
    return [*_refuse_if(argument, test, value, bits)[:3], _ALLOW, _REFUSE]


def supported() -> bool:
    """Return whether there is a filter for this machine's architecture."""
    return platform.machine() in ARCHITECTURES


def restrict(policy: Policy) -> None:
    """Install the filter of a policy on this process, irrevocably."""
    ranks = policy.ranks
    unix = "any" if policy.unix_sockets or ranks else "packets" if policy.gpu else ""
    architecture = ARCHITECTURES[platform.machine()]
    loopback = policy.loopback or ranks
    allowed: Set[str] = _SHARES_MEMORY if policy.judges else frozenset()
    if policy.judges and not policy.features.landlock:  # which refuses mounts anyway
        allowed |= _CONFINES
    code = ctypes.create_string_buffer(
        program(policy.fork, unix, policy.pinned, architecture, loopback, ranks, allowed)
    )
    header = struct.pack("HxxxxxxP", (len(code) - 1) // 8, ctypes.addressof(code))
    checked(libc.prctl(PR_SET_SECCOMP, _FILTER_MODE, header, 0, 0), "seccomp")


def program(
    fork: bool,
    unix_sockets: str,
    pinned: bool,
    architecture: Architecture,
    loopback: bool = False,
    routes: bool = False,
    allowed: Set[str] = frozenset(),
) -> bytes:
    """Return the filter as a BPF program.

    `fork` allows new processes and programs; `pinned` refuses holes in files and another affinity.
    `loopback` allows sockets of IP, beside Unix sockets of any kind, and `routes` those by which
    the C library lists the network interfaces.
    `unix_sockets` is `any`, `packets` or empty for none. A GPU's driver opens sockets of
    SOCK_SEQPACKET; services listen on streams. A pair of datagram sockets counts as a socket, since
    either end can be connected anew. `allowed` are the names of calls that it leaves alone.
    """
    column = architecture.column
    steps = [_op(_LOAD, _ARCH), _op(_EQUAL, architecture.audit, 1, 0), _KILL, _op(_LOAD, _NUMBER)]
    if architecture.max_number:
        steps += [_op(_GREATER, architecture.max_number, 0, 1), _KILL]
    denied = [*(_DENIED - allowed), *(() if fork else _STARTS_PROCESS)]
    for call in sorted(denied) + ["sched_setaffinity"] * pinned:
        steps += _when(column, call, _REFUSE)
    # clone3 hides its flags from a filter; without it the C library falls back to clone.
    steps += _when(column, "clone3", _op(_RETURN, _ENOSYS))
    steps += _when(column, "socket", *_sockets(unix_sockets, loopback, routes))
    if unix_sockets != "any":
        datagram = _refuse_if(1, _EQUAL, _SOCK_DGRAM, _SOCKET_TYPES)
        steps += _when(column, "socketpair", *datagram)
    steps += _when(column, "madvise", *_refuse_if(2, _EQUAL, _MADV_REMOVE, _OR_COLLAPSE))
    steps += pinned * _when(column, "fallocate", *_refuse_if(1, _ANY_BIT, _PUNCH_HOLE))
    if fork:
        steps += _when(column, "clone", *_refuse_if(0, _ANY_BIT, _CLONE_NEW))
    else:
        steps += _when(column, "clone", *_allow_if(0, _EQUAL, _CLONE_THREAD, _OR_VFORK))
    return b"".join([*steps, _ALLOW])


def _sockets(unix_sockets: str, loopback: bool, routes: bool) -> list[bytes]:
    """Return the steps for the call `socket`, as `program` describes them."""
    if unix_sockets == "any":
        families = (_AF_UNIX, _AF_INET, _AF_INET6) if loopback else (_AF_UNIX,)
        tests = [_op(_EQUAL, name, len(families) - n, 0) for n, name in enumerate(families)]
        netlink: list[bytes] = []
        if routes:
            of_routes = _allow_if(2, _EQUAL, _NETLINK_ROUTE)
            netlink = [_op(_EQUAL, _AF_NETLINK, 0, len(of_routes)), *of_routes]
        return [_op(_LOAD, _ARGUMENT), *netlink, *tests, _REFUSE, _ALLOW]
    if unix_sockets:
        packets = _allow_if(1, _EQUAL, _SOCK_SEQPACKET, _SOCKET_TYPES)
        return [_op(_LOAD, _ARGUMENT), _op(_EQUAL, _AF_UNIX, 1, 0), _REFUSE, *packets]
    return [_REFUSE]
