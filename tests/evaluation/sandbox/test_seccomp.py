"""The seccomp filters of both architectures, run by an interpreter of classic BPF."""

from __future__ import annotations

import platform
import struct
from dataclasses import dataclass

import pytest

from evaluation.sandbox import seccomp
from evaluation.sandbox.features import isolation_features

X86_64, AARCH64, I386, ARM = 0xC000003E, 0xC00000B7, 0x40000003, 0x40000028
ALLOWED, KILLED, NOT_PERMITTED, NO_SUCH_CALL = 0x7FFF0000, 0x80000000, 0x00050001, 0x00050026
X32 = 0x40000000
UNIX, INET, INET6, NETLINK, STREAM, DATAGRAM, RAW, PACKETS = 1, 2, 10, 16, 1, 2, 3, 5
THREAD, PROCESS, BY_VFORK = 0x003D0F00, 0x01200011, 0x4111
THREAD_BY_VFORK = THREAD | 0x4000
POLICIES = [(fork, sockets) for fork in (False, True) for sockets in ("any", "packets", "")]
CALLS = {
    "x86_64": {
        "read": 0, "socket": 41, "socketpair": 53, "clone": 56, "fork": 57, "vfork": 58,
        "execve": 59, "execveat": 322, "clone3": 435, "madvise": 28, "semget": 64, "msgget": 68,
        "process_madvise": 440, "fallocate": 285,
        "memfd_create": 319, "unshare": 272, "ptrace": 101, "sched_setaffinity": 203, "mount": 165,
        "bpf": 321, "open_by_handle_at": 304, "keyctl": 250, "io_uring_setup": 425,
    },
    "aarch64": {
        "read": 63, "socket": 198, "socketpair": 199, "clone": 220, "execve": 221, "execveat": 281,
        "clone3": 435, "madvise": 233, "semget": 190, "msgget": 186, "memfd_create": 279,
        "unshare": 97, "ptrace": 117, "sched_setaffinity": 122, "mount": 40, "bpf": 280,
        "open_by_handle_at": 265, "keyctl": 219, "io_uring_setup": 425, "process_madvise": 440,
        "fallocate": 47,
    },
}  # fmt: skip
"""Source: asm/unistd_64.h of x86-64 and asm-generic/unistd.h of Linux 6."""
REFUSED = (
    "semget msgget memfd_create unshare ptrace mount bpf open_by_handle_at keyctl io_uring_setup"
).split()


@dataclass(frozen=True)
class Machine:
    """An architecture: its name, its audit number, and the numbers of its calls."""

    name: str
    audit: int

    def program(
        self,
        fork: bool,
        sockets: str,
        pinned: bool = False,
        loopback: bool = False,
        routes: bool = False,
    ) -> bytes:
        architecture = seccomp.ARCHITECTURES[self.name]
        return seccomp.program(fork, sockets, pinned, architecture, loopback, routes)

    def verdict(self, program: bytes, call: str, *arguments: int) -> int:
        return verdict(program, self.audit, CALLS[self.name][call], *arguments)


def verdict(program: bytes, audit: int, call: int, *arguments: int) -> int:
    """Return the filter's action for a system call.

    Source: classic BPF over `struct seccomp_data`, seccomp(2).
    """
    words = [*arguments, *[0] * (6 - len(arguments))]
    data = struct.pack("<IIQ6Q", call, audit, 0, *words)
    steps = list(struct.iter_unpack("<HBBI", program))
    accumulator = at = 0
    while True:
        code, if_true, if_false, value = steps[at]
        at += 1
        match code:
            case 0x20:  # load a word
                accumulator = struct.unpack_from("<I", data, value)[0]
            case 0x54:  # and
                accumulator &= value
            case 0x15 | 0x25 | 0x45:  # jump if equal, if greater, if any bit is set
                holds = {
                    0x15: accumulator == value,
                    0x25: accumulator > value,
                    0x45: bool(accumulator & value),
                }[code]
                at += if_true if holds else if_false
            case 0x06:  # return
                return int(value)
            case _:
                raise AssertionError(f"step {at - 1} has an unknown code {code:#x}")


@pytest.fixture(params=[("x86_64", X86_64), ("aarch64", AARCH64)], ids=lambda pair: pair[0])
def machine(request: pytest.FixtureRequest) -> Machine:
    return Machine(*request.param)


@pytest.fixture(params=POLICIES, ids=lambda policy: f"{policy[0]}-{policy[1] or 'none'}")
def policy(request: pytest.FixtureRequest) -> tuple[bool, str]:
    return request.param  # type: ignore[no-any-return]


def test_filter_any_policy_returns_an_action_for_every_call(
    machine: Machine, policy: tuple[bool, str]
) -> None:
    program = machine.program(*policy)
    actions = {verdict(program, machine.audit, call) for call in range(600)}
    assert actions <= {ALLOWED, NOT_PERMITTED, NO_SUCH_CALL}
    assert len(program) // 8 < 4096, "the kernel accepts no longer program"


def test_filter_any_policy_allows_reads_and_refuses_calls_at_other_processes(
    machine: Machine, policy: tuple[bool, str]
) -> None:
    program = machine.program(*policy)
    assert machine.verdict(program, "read") == ALLOWED
    assert {machine.verdict(program, call) for call in REFUSED} == {NOT_PERMITTED}
    assert machine.verdict(program, "clone3") == NO_SUCH_CALL


def test_filter_number_table_agrees_with_the_kernel_headers(machine: Machine) -> None:
    column = seccomp.ARCHITECTURES[machine.name].column
    expected = {call: number for call, number in CALLS[machine.name].items() if call != "read"}
    assert {call: seccomp.NUMBERS[call][column] for call in expected} == expected


def test_filter_foreign_architecture_kills_the_process(
    machine: Machine, policy: tuple[bool, str]
) -> None:
    program = machine.program(*policy)
    for audit in {X86_64, AARCH64, I386, ARM} - {machine.audit}:
        assert verdict(program, audit, CALLS[machine.name]["read"]) == KILLED


def test_filter_x32_call_kills_the_process(policy: tuple[bool, str]) -> None:
    program = Machine("x86_64", X86_64).program(*policy)
    assert verdict(program, X86_64, X32) == KILLED
    assert verdict(program, X86_64, X32 + CALLS["x86_64"]["socket"], INET, STREAM) == KILLED


@pytest.mark.parametrize("fork", [False, True])
def test_filter_without_fork_allows_threads_but_no_process(machine: Machine, fork: bool) -> None:
    program = machine.program(fork, "")
    assert machine.verdict(program, "clone", THREAD) == ALLOWED
    expected = ALLOWED if fork else NOT_PERMITTED
    assert machine.verdict(program, "clone", PROCESS) == expected
    assert machine.verdict(program, "clone", BY_VFORK) == expected
    assert machine.verdict(program, "clone", THREAD_BY_VFORK) == expected
    for call in {"fork", "vfork", "execve", "execveat"} & CALLS[machine.name].keys():
        assert machine.verdict(program, call) == expected


@pytest.mark.parametrize("fork", [False, True])
def test_filter_pinned_refuses_a_change_of_affinity(machine: Machine, fork: bool) -> None:
    free, pinned = (machine.program(fork, "", pinned) for pinned in (False, True))
    assert machine.verdict(free, "sched_setaffinity") == ALLOWED
    assert machine.verdict(pinned, "sched_setaffinity") == NOT_PERMITTED


@pytest.mark.parametrize("bit", [17, 25, 26, 27, 28, 29, 30])
@pytest.mark.parametrize("fork", [False, True])
def test_filter_clone_with_a_new_namespace_is_refused(
    machine: Machine, fork: bool, bit: int
) -> None:
    program = machine.program(fork, "")
    assert machine.verdict(program, "clone", PROCESS | 1 << bit) == NOT_PERMITTED


@pytest.mark.parametrize("domain", [INET, INET6, NETLINK])
@pytest.mark.parametrize("kind", [STREAM, DATAGRAM, RAW, PACKETS])
def test_filter_network_socket_is_refused(
    machine: Machine, policy: tuple[bool, str], domain: int, kind: int
) -> None:
    program = machine.program(*policy)
    assert machine.verdict(program, "socket", domain, kind) == NOT_PERMITTED


@pytest.mark.parametrize("flags", [0, 0o2000000, 0o4000, 0o2004000], ids=oct)
@pytest.mark.parametrize("kind", [STREAM, DATAGRAM])
def test_filter_with_a_loopback_network_allows_ip_and_unix_sockets_only(
    machine: Machine, kind: int, flags: int
) -> None:
    program = machine.program(True, "any", loopback=True)
    allowed = {
        domain
        for domain in range(64)
        if machine.verdict(program, "socket", domain, kind | flags) == ALLOWED
    }
    assert allowed == {UNIX, INET, INET6}
    assert machine.verdict(program, "socket", NETLINK | UNIX << 32, kind) == NOT_PERMITTED


def test_filter_for_ranks_also_lists_network_interfaces(machine: Machine) -> None:
    program = machine.program(True, "any", loopback=True, routes=True)
    allowed = {
        (domain, protocol)
        for domain in range(64)
        for protocol in range(32)
        if machine.verdict(program, "socket", domain, RAW, protocol) == ALLOWED
    }
    every = {(domain, protocol) for domain in (UNIX, INET, INET6) for protocol in range(32)}
    assert allowed == {*every, (NETLINK, 0)}


@pytest.mark.parametrize("routes", [False, True])
def test_filter_with_a_loopback_network_differs_in_sockets_only(
    machine: Machine, routes: bool
) -> None:
    with_network = machine.program(True, "any", loopback=True, routes=routes)
    without = machine.program(True, "any")
    for call in range(600):
        if call != CALLS[machine.name]["socket"]:
            verdicts = {verdict(each, machine.audit, call) for each in (with_network, without)}
            assert len(verdicts) == 1, call
    assert {machine.verdict(with_network, call) for call in REFUSED} == {NOT_PERMITTED}


@pytest.mark.parametrize("sockets", ["packets", ""])
def test_filter_without_unix_sockets_has_no_loopback_network(
    machine: Machine, sockets: str
) -> None:
    program = machine.program(True, sockets, loopback=True)
    for domain in (INET, INET6):
        assert machine.verdict(program, "socket", domain, STREAM) == NOT_PERMITTED


@pytest.mark.parametrize("flags", [0, 0o2000000, 0o4000, 0o2004000], ids=oct)
@pytest.mark.parametrize(
    ("sockets", "kinds"),
    [("any", {STREAM, DATAGRAM, PACKETS}), ("packets", {PACKETS}), ("", set())],
)
def test_filter_unix_socket_is_allowed_by_its_kind(
    machine: Machine, sockets: str, kinds: set[int], flags: int
) -> None:
    program = machine.program(False, sockets)
    for kind in (STREAM, DATAGRAM, PACKETS):
        expected = ALLOWED if kind in kinds else NOT_PERMITTED
        assert machine.verdict(program, "socket", UNIX, kind | flags) == expected


@pytest.mark.parametrize("flags", [0, 0o2000000, 0o4000, 0o2004000], ids=oct)
def test_filter_socket_pair_that_cannot_be_reconnected_is_allowed(
    machine: Machine, policy: tuple[bool, str], flags: int
) -> None:
    program = machine.program(*policy)
    for kind in (STREAM, PACKETS):
        assert machine.verdict(program, "socketpair", UNIX, kind | flags) == ALLOWED
    datagrams = ALLOWED if policy[1] == "any" else NOT_PERMITTED
    assert machine.verdict(program, "socketpair", UNIX, DATAGRAM | flags) == datagrams


def test_filter_collapse_to_huge_pages_is_refused(
    machine: Machine, policy: tuple[bool, str]
) -> None:
    program = machine.program(*policy)
    assert machine.verdict(program, "madvise", 0, 4096, 14) == ALLOWED
    assert machine.verdict(program, "madvise", 0, 4096, 25) == NOT_PERMITTED
    assert machine.verdict(program, "process_madvise", 3, 4096, 1, 25) == NOT_PERMITTED


def test_filter_holes_in_shared_memory_are_refused(
    machine: Machine, policy: tuple[bool, str]
) -> None:
    free, pinned = (machine.program(*policy, pinned) for pinned in (False, True))
    for program in (free, pinned):
        assert machine.verdict(program, "madvise", 0, 4096, 9) == NOT_PERMITTED
        assert machine.verdict(program, "fallocate", 3, 0, 0, 4096) == ALLOWED
    assert machine.verdict(free, "fallocate", 3, 3, 0, 4096) == ALLOWED
    assert machine.verdict(pinned, "fallocate", 3, 3, 0, 4096) == NOT_PERMITTED


def test_filter_upper_half_of_an_argument_is_ignored(machine: Machine) -> None:
    program = machine.program(False, "packets")
    assert machine.verdict(program, "socket", INET | UNIX << 32, PACKETS) == NOT_PERMITTED
    assert machine.verdict(program, "clone", PROCESS | THREAD << 32) == NOT_PERMITTED


def test_features_architecture_without_a_table_reports_no_seccomp(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    assert not seccomp.supported()
    assert not isolation_features.__wrapped__().seccomp


def test_filter_of_a_judge_allows_named_calls_only(machine: Machine) -> None:
    architecture = seccomp.ARCHITECTURES[machine.name]
    program = seccomp.program(True, "", False, architecture, allowed={"memfd_create"})
    assert machine.verdict(program, "memfd_create") == ALLOWED
    others = set(REFUSED) - {"memfd_create"}
    assert {machine.verdict(program, call) for call in others} == {NOT_PERMITTED}
