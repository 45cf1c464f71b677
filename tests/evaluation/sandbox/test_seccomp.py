"""The filter lets through what it says and nothing else, run here as the kernel would run it."""

from __future__ import annotations

import struct

import pytest

from evaluation.sandbox import seccomp

X86_64, I386 = 0xC000003E, 0x40000003
ALLOWED, KILLED, NOT_PERMITTED, NO_SUCH_CALL = 0x7FFF0000, 0x80000000, 0x00050001, 0x00050026
READ, SOCKET, CLONE, CLONE3, X32_READ = 0, 41, 56, 435, 0x40000000
SOCKETPAIR, MADVISE, SEMGET, MSGGET = 53, 28, 64, 68
MEMFD, UNSHARE, PTRACE, FORK, VFORK, EXECVE, AFFINITY = 319, 272, 101, 57, 58, 59, 203
UNIX, INET, INET6, NETLINK, STREAM, DATAGRAM, RAW, PACKETS = 1, 2, 10, 16, 1, 2, 3, 5
THREAD, PROCESS, BY_VFORK = 0x003D0F00, 0x01200011, 0x4111
POLICIES = [(fork, sockets) for fork in (False, True) for sockets in ("any", "packets", "")]


def verdict(program: bytes, call: int, *arguments: int, arch: int = X86_64) -> int:
    """What a filter returns for a system call. Source: classic BPF over `struct seccomp_data`,
    seccomp(2).
    """
    words = [*arguments, *[0] * (6 - len(arguments))]
    data = struct.pack("<IIQ6Q", call, arch, 0, *words)
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
            case 0x15 | 0x35 | 0x45:  # jump if equal, if at least, if any bit is set
                holds = {
                    0x15: accumulator == value,
                    0x35: accumulator >= value,
                    0x45: bool(accumulator & value),
                }[code]
                at += if_true if holds else if_false
            case 0x06:  # return
                return int(value)
            case _:
                raise AssertionError(f"step {at - 1} has the strange code {code:#x}")


@pytest.fixture(params=POLICIES, ids=lambda policy: f"{policy[0]}-{policy[1] or 'none'}")
def policy(request: pytest.FixtureRequest) -> tuple[bool, str]:
    return request.param  # type: ignore[no-any-return]


def test_every_policy_ends_in_a_verdict_for_every_call(policy: tuple[bool, str]) -> None:
    program = seccomp.program(*policy)
    verdicts = {verdict(program, call) for call in range(600)}
    assert verdicts <= {ALLOWED, NOT_PERMITTED, NO_SUCH_CALL}
    assert len(program) // 8 < 4096, "the kernel takes no longer one"


def test_whatever_the_policy_ordinary_calls_pass_and_those_at_others_do_not(
    policy: tuple[bool, str],
) -> None:
    program = seccomp.program(*policy)
    assert verdict(program, READ) == ALLOWED
    for call in (PTRACE, UNSHARE, MEMFD, SEMGET, MSGGET, *seccomp._DENIED.values()):
        assert verdict(program, call) == NOT_PERMITTED
    assert verdict(program, CLONE3) == NO_SUCH_CALL


def test_calls_of_another_architecture_are_fatal(policy: tuple[bool, str]) -> None:
    program = seccomp.program(*policy)
    assert verdict(program, READ, arch=I386) == KILLED
    assert verdict(program, X32_READ) == KILLED
    assert verdict(program, X32_READ + SOCKET, INET, STREAM) == KILLED


@pytest.mark.parametrize("fork", [False, True])
def test_threads_may_always_be_made_and_processes_where_it_is_said(fork: bool) -> None:
    program = seccomp.program(fork, "")
    assert verdict(program, CLONE, THREAD) == ALLOWED
    expected = ALLOWED if fork else NOT_PERMITTED
    for call, flags in ((CLONE, PROCESS), (CLONE, BY_VFORK), (FORK, 0), (VFORK, 0), (EXECVE, 0)):
        assert verdict(program, call, flags) == expected


@pytest.mark.parametrize("fork", [False, True])
def test_who_is_pinned_has_no_choice_of_cores(fork: bool) -> None:
    assert verdict(seccomp.program(fork, ""), AFFINITY) == ALLOWED
    assert verdict(seccomp.program(fork, "", pinned=True), AFFINITY) == NOT_PERMITTED


@pytest.mark.parametrize("fork", [False, True])
@pytest.mark.parametrize("bit", [17, 25, 26, 27, 28, 29, 30])
def test_no_namespace_is_made_with_a_process(fork: bool, bit: int) -> None:
    assert verdict(seccomp.program(fork, ""), CLONE, PROCESS | 1 << bit) == NOT_PERMITTED


@pytest.mark.parametrize("domain", [INET, INET6, NETLINK])
@pytest.mark.parametrize("kind", [STREAM, DATAGRAM, RAW, PACKETS])
def test_no_socket_reaches_a_network(policy: tuple[bool, str], domain: int, kind: int) -> None:
    assert verdict(seccomp.program(*policy), SOCKET, domain, kind) == NOT_PERMITTED


@pytest.mark.parametrize("flags", [0, 0o2000000, 0o4000, 0o2004000], ids=oct)
@pytest.mark.parametrize(
    ("sockets", "kinds"),
    [("any", {STREAM, DATAGRAM, PACKETS}), ("packets", {PACKETS}), ("", set())],
)
def test_of_the_sockets_of_this_machine_those_that_are_said(
    sockets: str, kinds: set[int], flags: int
) -> None:
    program = seccomp.program(False, sockets)
    for kind in (STREAM, DATAGRAM, PACKETS):
        expected = ALLOWED if kind in kinds else NOT_PERMITTED
        assert verdict(program, SOCKET, UNIX, kind | flags) == expected


@pytest.mark.parametrize("flags", [0, 0o2000000, 0o4000, 0o2004000], ids=oct)
def test_a_pair_of_sockets_reaches_nobody_else(policy: tuple[bool, str], flags: int) -> None:
    program = seccomp.program(*policy)
    for kind in (STREAM, PACKETS):
        assert verdict(program, SOCKETPAIR, UNIX, kind | flags) == ALLOWED
    anew = ALLOWED if policy[1] == "any" else NOT_PERMITTED
    assert verdict(program, SOCKETPAIR, UNIX, DATAGRAM | flags) == anew


def test_small_pages_stay_small_ones(policy: tuple[bool, str]) -> None:
    program = seccomp.program(*policy)
    assert verdict(program, MADVISE, 0, 4096, 14) == ALLOWED
    assert verdict(program, MADVISE, 0, 4096, 25) == NOT_PERMITTED


def test_the_upper_half_of_an_argument_hides_nothing() -> None:
    program = seccomp.program(False, "packets")
    assert verdict(program, SOCKET, INET | UNIX << 32, PACKETS) == NOT_PERMITTED
    assert verdict(program, CLONE, PROCESS | THREAD << 32) == NOT_PERMITTED
