"""Attempts to escape, from inside the sandbox."""

from __future__ import annotations

import ctypes
import os
import platform
import socket
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from evaluation.sandbox import containment, launch, procfs, seccomp
from evaluation.sandbox.containment import FIRST_UNPRIVILEGED_UID
from evaluation.sandbox.features import isolation_features
from evaluation.sandbox.policy import IsolationFeatures, Policy
from tests.waiting import until

PYTHON = (sys.prefix, sys.base_prefix)


def inside(code: str, folder: Path, timeout: float = 60, **rights: object) -> tuple[int, str]:
    """Run Python code in the sandbox, and return its exit code and output."""
    policy = replace(
        Policy(features=isolation_features(), readable=PYTHON, writable=(str(folder),)),
        **rights,  # type: ignore[arg-type]
    )
    completed = launch.run([sys.executable, "-I", "-c", code], policy, timeout=timeout, cwd=folder)
    return completed.returncode, completed.stdout


@pytest.fixture(autouse=True)
def isolated() -> None:
    if not isolation_features().any:
        pytest.skip("this machine has neither namespaces nor Landlock")


def test_write_outside_the_granted_folder_is_refused(tmp_path: Path) -> None:
    granted, other = tmp_path / "granted", tmp_path / "other"
    granted.mkdir()
    other.mkdir()
    code = f"open({str(granted / 'a')!r}, 'w').write('x')"
    assert inside(code, granted) == (0, "")
    code = f"open({str(other / 'a')!r}, 'w').write('x')"
    status, output = inside(code, granted)
    assert status != 0
    assert "Error" in output
    assert list(other.iterdir()) == []


def test_read_of_a_file_not_granted_is_refused(tmp_path: Path) -> None:
    secret, granted = tmp_path / "secret", tmp_path / "granted"
    granted.mkdir()
    secret.write_text("the seed")
    status, output = inside(f"print(open({str(secret)!r}).read())", granted)
    assert status != 0
    assert "the seed" not in output


def test_environment_and_memory_of_other_processes_are_unreadable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARENA_TEST_SECRET", "swordfish")
    code = f"""
import glob, os
print(os.environ)
for pid in [{os.getpid()}, os.getppid(), *[p.split('/')[2] for p in glob.glob('/proc/[0-9]*')]]:
    for name in ('environ', 'mem', 'maps'):
        try: print(open(f'/proc/{{pid}}/{{name}}', 'rb').read(1 << 16))
        except OSError: pass
"""
    _, output = inside(code, tmp_path)
    assert "swordfish" not in output


def test_network_connection_is_refused(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        code = f"import socket; socket.create_connection(('127.0.0.1', {port}), 2)"
        status, output = inside(code, tmp_path)
    assert status != 0
    assert "Error" in output


def test_signal_to_another_process_is_refused(tmp_path: Path) -> None:
    status, output = inside(f"import os; os.kill({os.getpid()}, 0)", tmp_path)
    assert status != 0
    assert "Error" in output


@pytest.mark.parametrize(
    ("attempt", "rights"),
    [
        ("os.fork()", {"fork": False}),
        ("os.execv('/bin/true', ['true'])", {"fork": False}),
        ("os.sched_setaffinity(0, {0})", {"pinned": True}),
    ],
)
def test_policy_without_fork_or_pinned_refuses_processes_and_other_cores(
    tmp_path: Path, attempt: str, rights: dict[str, bool]
) -> None:
    if not isolation_features().seccomp:
        pytest.skip("no seccomp filter for this machine")
    policy = Policy(isolation_features(), PYTHON, (str(tmp_path),), **rights)
    read, write = os.pipe()

    def body() -> None:
        try:
            eval(attempt)
        except OSError as error:
            os.write(write, type(error).__name__.encode())

    supervisor = os.fork()
    if supervisor == 0:
        os.waitpid(containment.contain(policy, body), 0)
        os._exit(0)
    os.waitpid(supervisor, 0)
    os.close(write)
    assert os.read(read, 100) == b"PermissionError"
    os.close(read)


def test_thread_without_fork_starts(tmp_path: Path) -> None:
    code = "import threading; t = threading.Thread(target=print, args=('hi',)); t.start(); t.join()"
    assert inside(code, tmp_path) == (0, "hi\n")


def test_memory_over_the_limit_raises_memory_error(tmp_path: Path) -> None:
    status, output = inside("x = bytearray(1 << 30)", tmp_path, memory_bytes=256 << 20)
    assert status != 0
    assert "MemoryError" in output


def test_scratch_in_memory_over_its_size_is_full(tmp_path: Path) -> None:
    if not isolation_features().read_only_system:
        pytest.skip("no mount namespaces on this machine")
    code = "for i in range(8): open(f'{i}', 'wb').write(bytes(1 << 20))"
    status, output = inside(code, tmp_path, scratch_bytes=4 << 20)
    assert status != 0
    assert "No space left" in output
    assert list(tmp_path.iterdir()) == []


def test_run_timeout_kills_all_descendants(tmp_path: Path) -> None:
    code = """
import os, time
if os.fork() == 0:
    os.setsid()
    open('alive', 'w').close()
time.sleep(600)
"""
    before = set(procfs.descendants(os.getpid()))
    for timeout in (1.5, 12, 96):  # the first in which Python starts
        status, _ = inside(code, tmp_path, timeout=timeout)
        assert status == -9
        if (tmp_path / "alive").exists():
            break
    assert (tmp_path / "alive").exists()
    # The kernel kills the rest of a namespace just after its init is gone.
    until(lambda: set(procfs.descendants(os.getpid())) <= before, "the end of all descendants")


def test_run_ended_command_returns_the_exit_code_of_shells(tmp_path: Path) -> None:
    assert inside("raise SystemExit(7)", tmp_path)[0] == 7
    assert inside("import os; os.kill(os.getpid(), 11)", tmp_path)[0] == 128 + 11


def test_run_unavailable_namespace_fails_with_a_message(tmp_path: Path) -> None:
    root = Path(launch.__file__).parents[2]
    argv = launch.command(["/bin/true"], Policy(IsolationFeatures(namespaces=True)))
    code = f"import subprocess; raise SystemExit(subprocess.run({argv!r}).returncode)"
    status, output = inside(code, tmp_path, readable=(*PYTHON, str(root)))
    assert status != 0
    assert "unshare" in output


def test_policy_through_json_is_unchanged() -> None:
    policy = Policy(isolation_features(), ("/a",), ("/b",), fork=False, unix_sockets=True)
    assert Policy.from_json(policy.to_json()) == policy


def test_run_endless_output_returns_its_last_mebibyte() -> None:
    policy = Policy(features=isolation_features(), file_bytes=8 << 20)
    completed = launch.run(["/usr/bin/yes"], policy, timeout=120)
    assert completed.returncode > 0
    assert len(completed.stdout) == launch.MAX_OUTPUT_BYTES


WITHOUT_LANDLOCK = replace(isolation_features(), landlock=0)
NO_LANDLOCK = pytest.param({"features": WITHOUT_LANDLOCK}, id="without Landlock")


@pytest.mark.parametrize("rights", [pytest.param({}, id="all features"), NO_LANDLOCK])
def test_proc_with_a_gpu_allows_thread_names_and_no_kernel_settings(
    tmp_path: Path, rights: dict[str, object]
) -> None:
    if not (isolation_features().private_proc and isolation_features().read_only_system):
        pytest.skip("no mount namespaces on this machine")
    code = """
import glob, os, threading
def rename():
    open(f'/proc/self/task/{threading.get_native_id()}/comm', 'w').write('driver')
    print(open(f'/proc/self/task/{threading.get_native_id()}/comm').read().strip())
rename()
thread = threading.Thread(target=rename); thread.start(); thread.join()
try: os.write(os.open('/proc/1/comm', os.O_WRONLY), b'mine'); print('renamed another')
except OSError: pass
closed = ['/proc/sys/kernel/hostname', '/proc/sysrq-trigger',
          *glob.glob('/proc/irq/**', recursive=True), *glob.glob('/proc/bus/**', recursive=True)]
for path in filter(os.path.isfile, closed):
    try: os.close(os.open(path, os.O_WRONLY)); print('opened', path)
    except OSError: pass
"""
    assert inside(code, tmp_path, gpu=True, **rights) == (0, "driver\ndriver\n")


def test_proc_without_a_gpu_is_read_only(tmp_path: Path) -> None:
    status, output = inside("open('/proc/self/comm', 'w').write('mine')", tmp_path)
    assert status != 0
    assert "Error" in output


@pytest.mark.parametrize("gpu", [False, True])
def test_sockets_with_a_gpu_allow_seqpacket_only(tmp_path: Path, gpu: bool) -> None:
    if not isolation_features().seccomp:
        pytest.skip("no seccomp filter for this machine")
    code = """
import socket
for domain in ('AF_UNIX', 'AF_INET'):
    for kind in ('SOCK_SEQPACKET', 'SOCK_STREAM', 'SOCK_DGRAM'):
        try: socket.socket(getattr(socket, domain), getattr(socket, kind)); print(domain, kind)
        except OSError: pass
"""
    expected = "AF_UNIX SOCK_SEQPACKET\n" if gpu else ""
    assert inside(code, tmp_path, gpu=gpu) == (0, expected)


def test_clone_of_a_user_namespace_is_refused(tmp_path: Path) -> None:
    if not isolation_features().seccomp:
        pytest.skip("no seccomp filter for this machine")
    clone = seccomp.NUMBERS["clone"][seccomp.ARCHITECTURES[platform.machine()].column]
    code = f"""
import ctypes, os
libc, new_user, child_ends = ctypes.CDLL(None, use_errno=True), 0x10000000, 17
pid = libc.syscall({clone}, new_user | child_ends, None, None, None, None)
if pid == 0: os._exit(0)
print(pid, os.strerror(ctypes.get_errno()))
"""
    assert inside(code, tmp_path) == (0, "-1 Operation not permitted\n")


@pytest.fixture
def other_user() -> None:
    if not isolation_features().other_user:
        pytest.skip("no unprivileged users on this machine")


@pytest.mark.usefixtures("other_user")
def test_unprivileged_user_is_unique_and_owns_its_scratch_only(tmp_path: Path) -> None:
    code = """
import os
print(len({*os.getresuid(), *os.getresgid()}), os.getuid(), os.getgroups())
open('/proc/self/stat').close()
open('mine', 'w').write('x'); os.rename('mine', 'still mine')
"""
    rights = {"unprivileged_user": True, "scratch_bytes": 1 << 20}
    (status, output), (_, other) = (inside(code, tmp_path, **rights) for _ in "ab")
    count, user, groups = output.split(maxsplit=2)
    assert (status, count, groups.strip()) == (0, "1", "[]")
    assert int(user) > FIRST_UNPRIVILEGED_UID and user != other.split()[1]
    assert list(tmp_path.iterdir()) == []
    assert inside("import os; print(os.getuid())", tmp_path) == (0, f"{os.getuid()}\n")


@pytest.mark.usefixtures("other_user")
def test_unprivileged_user_gets_its_folder_on_disk(tmp_path: Path) -> None:
    own, other = tmp_path / "own", tmp_path / "other"
    for folder in (own / "within", other):
        folder.mkdir(parents=True)
        (folder / "text").write_text("old")
    (own / "link").symlink_to(other / "text")
    code = "open('within/text', 'w').write('new'); open('within/another', 'w')"
    assert inside(code, own, unprivileged_user=True) == (0, "")
    assert (own / "within" / "text").read_text() == "new"
    assert (other / "text").stat().st_uid == os.getuid() != (own / "within").stat().st_uid


@pytest.mark.parametrize("judges", [False, True])
def test_judge_shares_memory_and_makes_no_namespaces(tmp_path: Path, judges: bool) -> None:
    if not (isolation_features().seccomp and isolation_features().landlock):
        pytest.skip("no seccomp filter for this machine, or no Landlock")
    code = """
import ctypes, os
try: os.memfd_create('shared'); print('memory')
except OSError: pass
libc, new_user = ctypes.CDLL(None), 0x10000000
if libc.unshare(new_user) == 0 or libc.mount(b'none', b'/', None, 0x44000, None) == 0: print('root')
"""
    assert inside(code, tmp_path, judges=judges) == (0, "memory\n" if judges else "")


def test_keyring_of_the_judge_is_out_of_reach_without_a_filter(tmp_path: Path) -> None:
    if platform.machine() != "x86_64":
        pytest.skip("numbers of system calls are those of x86-64")
    libc, keyctl, add_key, session = ctypes.CDLL(None), 250, 248, -3
    if libc.syscall(keyctl, 1, None) < 0 or (
        libc.syscall(add_key, b"user", b"arena-test", b"secret", 6, session) < 0
    ):
        pytest.skip("no keyrings on this machine")
    code = f"""
import ctypes
print(ctypes.CDLL(None).syscall({keyctl}, 10, {session}, b'user', b'arena-test', 0))
"""
    features = replace(isolation_features(), seccomp=False)
    assert inside(code, tmp_path, features=features) == (0, "-1\n")


def test_limit_of_processes_leaves_out_others_of_its_user(tmp_path: Path) -> None:
    root = Path(launch.__file__).parents[2]
    inner = """
import threading
ends = threading.Event()
threads = [threading.Thread(target=ends.wait) for _ in range(7)]
try:
    for thread in threads: thread.start()
    print('7 threads')
except RuntimeError: print('too few')
ends.set()
"""
    code = f"""
import subprocess, sys, threading
sys.path.insert(0, {str(root)!r})
from evaluation.sandbox import launch
from evaluation.sandbox.policy import IsolationFeatures, Policy
ends = threading.Event()
others = [threading.Thread(target=ends.wait) for _ in range(20)]
for thread in others: thread.start()
policy = Policy(IsolationFeatures(), processes=12)
print(launch.run([sys.executable, '-I', '-c', {inner!r}], policy, timeout=60).stdout, end='')
ends.set()
"""
    rights = {"unprivileged_user": True, "readable": (*PYTHON, str(root))}
    assert inside(code, tmp_path, **rights) == (0, "7 threads\n")


@pytest.mark.usefixtures("other_user")
def test_unprivileged_user_cannot_write_files_of_root(tmp_path: Path) -> None:
    granted, scratch = tmp_path / "granted", tmp_path / "scratch"
    granted.mkdir()
    scratch.mkdir()
    (granted / "ours").write_text("x")
    code = f"print(open({str(granted / 'ours')!r}).read()); open({str(granted / 'ours')!r}, 'a')"
    rights = {
        "readable": (*PYTHON, str(granted)),
        "unprivileged_user": True,
        "scratch_bytes": 1 << 20,
    }
    status, output = inside(code, scratch, features=WITHOUT_LANDLOCK, **rights)
    assert status != 0 and "x\n" in output and "Permission denied" in output


@pytest.mark.usefixtures("other_user")
def test_closed_folder_for_an_unprivileged_user_shows_granted_paths_only(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    granted, secret, file = closed / "a" / "granted", closed / "a" / "secret", closed / "file"
    for folder in (granted / "within", secret, closed / "scratch"):
        folder.mkdir(parents=True)
    file.write_text("one file")
    (granted / "within" / "text").write_text("granted")
    (closed / "link").symlink_to(granted)
    closed.chmod(0o700)
    code = f"""
import os
for path in {[str(closed), str(closed / "a")]!r}: print(sorted(os.listdir(path)))
print(open({str(closed / "link" / "within" / "text")!r}).read(), open({str(file)!r}).read())
open('mine', 'w')
"""
    readable = (*PYTHON, str(closed / "link"), str(granted / "within"), str(file))
    rights = {"readable": readable, "unprivileged_user": True, "scratch_bytes": 1 << 20}
    status, output = inside(code, closed / "scratch", features=WITHOUT_LANDLOCK, **rights)
    expected = "['a', 'file', 'link', 'scratch']\n['granted']\ngranted one file\n"
    assert (status, output) == (0, expected)
    assert (closed / "link").is_symlink() and len(list(closed.iterdir())) == 4


@pytest.mark.usefixtures("other_user")
def test_granted_paths_through_links_and_closed_folders_are_reachable(tmp_path: Path) -> None:
    outer, elsewhere = tmp_path / "outer", tmp_path / "elsewhere"
    base = outer / "base"
    for folder in (base / "private" / "art", base / "open", elsewhere / "home" / "package"):
        folder.mkdir(parents=True)
        (folder / "text").write_text(folder.name)
    (outer / "scratch").mkdir()
    (outer / "one").symlink_to("two")
    (outer / "two").symlink_to(elsewhere / "home")
    (base / "to art").symlink_to(base / "private" / "art")
    for closed in (outer, base / "private", elsewhere):
        closed.chmod(0o700)
    asked = [base / "private" / "art", base, outer / "one" / "package", base / "to art"]
    asked += [elsewhere / "home", elsewhere / "nothing"]
    read = [path / "text" for path in (base / "open", *asked[:1], *asked[2:4])]
    code = f"""
import os
for path in {[*map(str, read)]!r}: print(open(path).read(), end=' ')
print(sorted(os.listdir({str(outer)!r})), os.listdir({str(base / "private")!r}))
for folder in {[str(outer), str(base / "private"), str(elsewhere)]!r}:
    try: open(folder + '/new', 'w'); print('written', folder)
    except OSError: pass
"""
    rights = {
        "readable": (*PYTHON, *map(str, asked)),
        "unprivileged_user": True,
        "scratch_bytes": 1 << 20,
    }
    status, output = inside(code, outer / "scratch", features=WITHOUT_LANDLOCK, **rights)
    found = "open art package art ['base', 'one', 'scratch', 'two'] ['art']\n"
    assert (status, output) == (0, found)
    assert inside("open('x', 'w')", outer / "scratch", **rights) == (0, "")


@pytest.mark.usefixtures("other_user")
def test_granted_path_with_circular_links_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    rights = {"readable": (*PYTHON, str(tmp_path / "a")), "unprivileged_user": True}
    status, output = inside("", tmp_path, **rights)
    assert status != 0 and "circle" in output


def test_run_timeout_returns_after_all_processes_are_gone(tmp_path: Path) -> None:
    if not isolation_features().namespaces:
        pytest.skip("no PID namespaces on this machine")
    code = """
import os, time
for _ in range(100):
    if os.fork() == 0:
        os.setsid()
        while True: os.utime('.')
time.sleep(60)
"""
    for _ in range(5):
        assert inside(code, tmp_path, timeout=1.0)[0] == -9
        before = tmp_path.stat().st_mtime_ns
        time.sleep(0.2)  # waits: for what must not come
        assert tmp_path.stat().st_mtime_ns == before
