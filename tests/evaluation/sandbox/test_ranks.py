"""The network of a sandbox for several ranks."""

from __future__ import annotations

import functools
import os
import signal
import socket
from pathlib import Path

import pytest

from evaluation.sandbox import containment, features
from evaluation.sandbox.features import isolates_ranks, isolation_features
from evaluation.sandbox.policy import IsolationFeatures, Policy
from tests.evaluation.sandbox.test_launch import inside

CODE = """
import os, socket
def tried(what, *more):
    try: print(what(*more) or 'works')
    except OSError as error: print(error.strerror)
server = socket.create_server(('127.0.0.1', 0))
child = os.fork()
if child == 0:
    socket.create_connection(server.getsockname()).sendall(b'of rank 1')
    os._exit(0)
print(server.accept()[0].recv(9).decode(), *socket.if_nameindex())
tried(socket.create_connection, ('{address}', {port}))
tried(socket.create_connection, ('192.0.2.1', 80))
tried(socket.socket(socket.AF_UNIX).connect, '{path}')
tried(socket.socket, socket.AF_NETLINK, socket.SOCK_RAW, 16)
tried(socket.socket, socket.AF_PACKET, socket.SOCK_RAW, 0)
"""


def test_ranks_reach_one_another_and_nothing_else(tmp_path: Path) -> None:
    if not isolates_ranks():
        pytest.skip("no network and mount namespaces on this machine")
    own, path = tmp_path / "own", tmp_path / "socket"
    own.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as outside, socket.socket(socket.AF_UNIX) as unix:
        unix.bind(str(path))
        unix.listen()
        address, port = outside.getsockname()
        code = CODE.format(address=address, port=port, path=path)
        status, output = inside(code, own, ranks=True, minimal_root=True)
    assert (status, output.splitlines()) == (
        0,
        [
            "of rank 1 (1, 'lo')",
            "Connection refused",
            "Network is unreachable",
            "No such file or directory",
            "Operation not permitted",
            "Operation not permitted",
        ],
    )


def test_ranks_without_namespaces_are_not_isolated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(features, "isolation_features", lambda: IsolationFeatures(landlock=5))
    assert not isolates_ranks.__wrapped__()


def test_ranks_on_a_gpu_share_memory_in_a_file_system_of_their_own(tmp_path: Path) -> None:
    if not isolates_ranks():
        pytest.skip("no network and mount namespaces on this machine")
    code = """
import os
open('/dev/shm/nccl-of-a-rank', 'w').write('x')
print(os.listdir('/dev/shm'), os.path.exists('/sys/class'), os.path.exists('/var/tmp'))
"""
    rights = {"writable": (str(tmp_path), "/dev/shm"), "scratch_bytes": 1 << 20, "gpu": True}
    status, output = inside(code, tmp_path, ranks=True, minimal_root=True, **rights)
    assert (status, output) == (0, "['nccl-of-a-rank'] True False\n")
    assert not Path("/dev/shm/nccl-of-a-rank").exists()


def test_every_rank_on_a_gpu_names_its_threads_and_the_first_that_ends_ends_the_others(
    tmp_path: Path,
) -> None:
    """A GPU's driver names its threads; where that is refused, its first call fails."""
    if not isolates_ranks():
        pytest.skip("no network and mount namespaces on this machine")
    features = isolation_features()
    policy = Policy(
        features, (), (str(tmp_path),), ranks=True, minimal_root=True, gpu=True,
        unprivileged_user=features.other_user, scratch_bytes=1 << 20,
    )  # fmt: skip
    named, names = os.pipe()
    end, ending = os.pipe()

    def body(rank: int) -> None:
        thread = f"/proc/self/task/{os.getpid()}/comm"
        try:
            Path(thread).write_text(f"rank{rank}")
            os.write(names, Path(thread).read_bytes())
        except OSError as error:
            os.write(names, f"{error}\n".encode())
        os.read(end, 1) if rank == 1 else signal.pause()
        os._exit(7)

    supervisor = os.fork()
    if supervisor == 0:
        os.chdir(tmp_path)
        init = containment.contain(policy, *(functools.partial(body, rank) for rank in range(3)))
        os._exit(containment.exit_code(os.waitpid(init, 0)[1]))
    os.close(names)
    found = b""
    while found.count(b"\n") < 3 and (more := os.read(named, 200)):
        found += more
    os.write(ending, b"x")
    assert containment.exit_code(os.waitpid(supervisor, 0)[1]) == 7
    assert sorted(found.decode().splitlines()) == ["rank0", "rank1", "rank2"]
    for descriptor in (named, end, ending):
        os.close(descriptor)
