"""Which system calls are refused to what is not trusted: those that reach other processes, change
the machine, pass other walls, or take memory that is in nobody's resident set.

Standard library alone, as `sandbox` is.
"""

from __future__ import annotations

import struct

_DENIED = {
    "ptrace": 101, "process_vm_readv": 310, "process_vm_writev": 311, "kcmp": 312,
    "pidfd_open": 434, "pidfd_getfd": 438, "pidfd_send_signal": 424, "perf_event_open": 298,
    "bpf": 321, "userfaultfd": 323, "add_key": 248, "request_key": 249, "keyctl": 250,
    "mount": 165, "umount2": 166, "pivot_root": 155, "chroot": 161, "setns": 308, "unshare": 272,
    "mount_setattr": 442, "open_tree": 428, "move_mount": 429, "fsopen": 430, "fsmount": 432,
    "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427,
    "open_by_handle_at": 304, "settimeofday": 164, "clock_settime": 227, "adjtimex": 159,
    "clock_adjtime": 305, "memfd_create": 319, "memfd_secret": 447, "shmget": 29, "semget": 64,
    "msgget": 68, "mq_open": 240,
}  # fmt: skip
_FORKING = {"fork": 57, "vfork": 58, "execve": 59, "execveat": 322}
_MOVING = {"sched_setaffinity": 203}
_CLONE, _CLONE3, _CLONE_THREAD = 56, 435, 0x10000
_SOCKET, _SOCKETPAIR, _AF_UNIX, _DATAGRAM, _SEQPACKET, _KINDS = 41, 53, 1, 2, 5, 15
_MADVISE, _COLLAPSE = 28, 25
"""By it a contestant's side of shared memory would have huge pages, and the other's small ones."""
_CLONE_NEW = 0x7E020000
"""Every namespace that clone makes: within a new one of users a process has all capabilities."""
_AUDIT_ARCH, _X32_BIT = 0xC000003E, 0x40000000
_ALLOW, _KILL, _EPERM, _ENOSYS = 0x7FFF0000, 0x80000000, 0x00050001, 0x00050026
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_NUMBER, _ARCH, _ARGUMENT = 0, 4, 16


def program(fork: bool, unix_sockets: str, pinned: bool = False) -> bytes:
    """The filter as BPF, for x86-64.

    `fork` leaves new processes and other programs; `pinned` leaves no choice of cores;
    `unix_sockets` is `any`, `packets` (packets in sequence, which a GPU's driver opens: services
    listen on streams) or empty for none. A pair of datagram sockets is one as good as any: either
    can be connected anew. Source: seccomp(2), and `struct sock_filter` of linux/filter.h.
    """

    def op(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
        return struct.pack("HBBI", code, if_true, if_false, value)

    def when(number: int, *then: bytes) -> list[bytes]:
        """Run `then` for system call `number`; it must end in a return."""
        return [op(_EQUAL, number, 0, len(then)), *then]

    def only_if(test: int, value: int) -> tuple[bytes, ...]:
        """Allow a call whose first argument passes the test, refuse any other."""
        return op(_LOAD, _ARGUMENT), op(test, value, 0, 1), allow, refuse

    def unless(argument: int, value: int, bits: int = 0xFFFFFFFF) -> tuple[bytes, ...]:
        """Refuse a call by the low `bits` of an argument, allow any other."""
        loaded = op(_LOAD, _ARGUMENT + 8 * argument), op(_AND, bits)
        return *loaded, op(_EQUAL, value, 0, 1), refuse, allow

    allow, refuse = op(_RETURN, _ALLOW), op(_RETURN, _EPERM)
    sockets: tuple[bytes, ...] = (refuse,)
    if unix_sockets == "any":
        sockets = only_if(_EQUAL, _AF_UNIX)
    elif unix_sockets:
        sockets = (
            *(op(_LOAD, _ARGUMENT), op(_EQUAL, _AF_UNIX, 0, 4)),
            *(op(_LOAD, _ARGUMENT + 8), op(_AND, _KINDS), op(_EQUAL, _SEQPACKET, 0, 1)),
            *(allow, refuse),
        )
    steps = [op(_LOAD, _ARCH), op(_EQUAL, _AUDIT_ARCH, 1, 0), op(_RETURN, _KILL)]
    steps += [op(_LOAD, _NUMBER), op(_AT_LEAST, _X32_BIT, 0, 1), op(_RETURN, _KILL)]
    denied = _DENIED | ({} if fork else _FORKING) | (_MOVING if pinned else {})
    for number in denied.values():
        steps += when(number, refuse)
    # clone3 hides its flags from a filter; without it the C library falls back to clone.
    steps += when(_CLONE3, op(_RETURN, _ENOSYS))
    steps += when(_SOCKET, *sockets)
    if unix_sockets != "any":
        steps += when(_SOCKETPAIR, *unless(1, _DATAGRAM, _KINDS))
    steps += when(_MADVISE, *unless(2, _COLLAPSE))
    if fork:
        anew = (op(_LOAD, _ARGUMENT), op(_ANY_BIT, _CLONE_NEW, 0, 1), refuse, allow)
        steps += when(_CLONE, *anew)
    else:
        steps += when(_CLONE, *only_if(_ANY_BIT, _CLONE_THREAD))
    steps.append(allow)
    return b"".join(steps)
