"""The walls hold: what an inmate tries from inside does not reach out."""

from __future__ import annotations

import os
import socket
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from evaluation.sandbox import launch
from evaluation.sandbox.features import isolation_features
from evaluation.sandbox.launch import FIRST_UNPRIVILEGED_UID
from evaluation.sandbox.policy import IsolationFeatures, Policy

PYTHON = (sys.prefix, sys.base_prefix)


def inside(code: str, folder: Path, timeout: float = 20, **rights: object) -> tuple[int, str]:
    """Run Python code behind this machine's walls; its exit code and what it said."""
    policy = replace(
        Policy(features=isolation_features(), readable=PYTHON, writable=(str(folder),)),
        **rights,  # type: ignore[arg-type]
    )
    done = launch.run([sys.executable, "-I", "-c", code], policy, timeout=timeout, cwd=folder)
    return done.returncode, done.stdout


@pytest.fixture(autouse=True)
def walled() -> None:
    if not isolation_features().any:
        pytest.skip("this machine has neither namespaces nor Landlock")


def test_only_the_granted_folder_can_be_written(tmp_path: Path) -> None:
    granted, other = tmp_path / "granted", tmp_path / "other"
    granted.mkdir()
    other.mkdir()
    code = f"open({str(granted / 'a')!r}, 'w').write('x')"
    assert inside(code, granted) == (0, "")
    code = f"open({str(other / 'a')!r}, 'w').write('x')"
    status, said = inside(code, granted)
    assert status != 0
    assert "Error" in said
    assert list(other.iterdir()) == []


def test_files_that_were_not_granted_cannot_be_read(tmp_path: Path) -> None:
    secret, granted = tmp_path / "secret", tmp_path / "granted"
    granted.mkdir()
    secret.write_text("the seed")
    status, said = inside(f"print(open({str(secret)!r}).read())", granted)
    assert status != 0
    assert "the seed" not in said


def test_neither_environment_nor_memory_of_others_can_be_read(
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
    _, said = inside(code, tmp_path)
    assert "swordfish" not in said


def test_there_is_no_network(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        code = f"import socket; socket.create_connection(('127.0.0.1', {port}), 2)"
        status, said = inside(code, tmp_path)
    assert status != 0
    assert "Error" in said


def test_other_processes_cannot_be_signalled(tmp_path: Path) -> None:
    status, said = inside(f"import os; os.kill({os.getpid()}, 0)", tmp_path)
    assert status != 0
    assert "Error" in said


@pytest.mark.parametrize(
    ("attempt", "rights"),
    [
        ("os.fork()", {"fork": False}),
        ("os.execv('/bin/true', ['true'])", {"fork": False}),
        ("os.sched_setaffinity(0, {0})", {"pinned": True}),
    ],
)
def test_without_the_right_there_is_no_new_process_and_no_other_core(
    tmp_path: Path, attempt: str, rights: dict[str, bool]
) -> None:
    if not isolation_features().seccomp:
        pytest.skip("seccomp filters are written for x86-64")
    policy = Policy(isolation_features(), PYTHON, (str(tmp_path),), **rights)
    read, write = os.pipe()

    def body() -> None:
        try:
            eval(attempt)
        except OSError as error:
            os.write(write, type(error).__name__.encode())

    warden = os.fork()
    if warden == 0:
        os.waitpid(launch.contain(policy, body), 0)
        os._exit(0)
    os.waitpid(warden, 0)
    os.close(write)
    assert os.read(read, 100) == b"PermissionError"
    os.close(read)


def test_threads_need_no_right_to_fork(tmp_path: Path) -> None:
    code = "import threading; t = threading.Thread(target=print, args=('hi',)); t.start(); t.join()"
    assert inside(code, tmp_path) == (0, "hi\n")


def test_memory_is_limited(tmp_path: Path) -> None:
    status, said = inside("x = bytearray(1 << 30)", tmp_path, memory_bytes=256 << 20)
    assert status != 0
    assert "MemoryError" in said


def test_a_scratch_folder_of_memory_is_no_larger_than_granted(tmp_path: Path) -> None:
    if not isolation_features().read_only_system:
        pytest.skip("no mounts of its own on this machine")
    code = "for i in range(8): open(f'{i}', 'wb').write(bytes(1 << 20))"
    status, said = inside(code, tmp_path, scratch_bytes=4 << 20)
    assert status != 0
    assert "No space left" in said
    assert list(tmp_path.iterdir()) == []


def test_the_deadline_ends_everything_that_was_started(tmp_path: Path) -> None:
    code = """
import os, time
if os.fork() == 0:
    os.setsid()
    while True:
        open('alive', 'w').write(str(time.time())); time.sleep(0.05)
time.sleep(60)
"""
    started = time.monotonic()
    status, _ = inside(code, tmp_path, timeout=1.5)
    assert status == -9
    assert time.monotonic() - started < 10
    time.sleep(0.5)  # the kernel kills the rest of a namespace just after its init is gone
    before = (tmp_path / "alive").read_text()
    time.sleep(0.5)
    assert (tmp_path / "alive").read_text() == before


def test_what_a_shell_would_say_of_its_end_is_said(tmp_path: Path) -> None:
    assert inside("raise SystemExit(7)", tmp_path)[0] == 7
    assert inside("import os; os.kill(os.getpid(), 11)", tmp_path)[0] == 128 + 11


def test_a_wall_that_was_promised_and_cannot_stand_is_an_error(tmp_path: Path) -> None:
    root = Path(launch.__file__).parents[2]
    argv = launch.command(["/bin/true"], Policy(IsolationFeatures(namespaces=True)))
    code = f"import subprocess; raise SystemExit(subprocess.run({argv!r}).returncode)"
    status, said = inside(code, tmp_path, readable=(*PYTHON, str(root)))
    assert status != 0
    assert "unshare" in said


def test_a_policy_survives_the_trip_through_json() -> None:
    policy = Policy(isolation_features(), ("/a",), ("/b",), fork=False, unix_sockets=True)
    assert Policy.from_json(policy.to_json()) == policy


def test_a_command_that_talks_without_end_is_heard_in_part() -> None:
    policy = Policy(features=isolation_features(), file_bytes=8 << 20)
    done = launch.run(["/usr/bin/yes"], policy, timeout=30)
    assert done.returncode > 0
    assert len(done.stdout) == launch.MAX_OUTPUT_BYTES


WITHOUT_LANDLOCK = replace(isolation_features(), landlock=0)
NO_LANDLOCK = pytest.param({"walls": WITHOUT_LANDLOCK}, id="without Landlock")


@pytest.mark.parametrize("rights", [pytest.param({}, id="all walls"), NO_LANDLOCK])
def test_where_a_gpu_is_driven_threads_are_named_and_the_kernel_is_not_told_anything(
    tmp_path: Path, rights: dict[str, object]
) -> None:
    if not (isolation_features().private_proc and isolation_features().read_only_system):
        pytest.skip("no mounts of its own on this machine")
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


def test_where_no_gpu_is_driven_not_even_a_thread_is_named(tmp_path: Path) -> None:
    status, said = inside("open('/proc/self/comm', 'w').write('mine')", tmp_path)
    assert status != 0
    assert "Error" in said


@pytest.mark.parametrize("gpu", [False, True])
def test_a_gpus_driver_opens_packets_alone(tmp_path: Path, gpu: bool) -> None:
    if not isolation_features().seccomp:
        pytest.skip("seccomp filters are written for x86-64")
    code = """
import socket
for domain in ('AF_UNIX', 'AF_INET'):
    for kind in ('SOCK_SEQPACKET', 'SOCK_STREAM', 'SOCK_DGRAM'):
        try: socket.socket(getattr(socket, domain), getattr(socket, kind)); print(domain, kind)
        except OSError: pass
"""
    expected = "AF_UNIX SOCK_SEQPACKET\n" if gpu else ""
    assert inside(code, tmp_path, gpu=gpu) == (0, expected)


def test_who_may_fork_makes_no_namespace_by_it(tmp_path: Path) -> None:
    if not isolation_features().seccomp:
        pytest.skip("seccomp filters are written for x86-64")
    code = """
import ctypes, os
libc, new_user, child_ends = ctypes.CDLL(None, use_errno=True), 0x10000000, 17
pid = libc.syscall(56, new_user | child_ends, None, None, None, None)
if pid == 0: os._exit(0)
print(pid, os.strerror(ctypes.get_errno()))
"""
    assert inside(code, tmp_path) == (0, "-1 Operation not permitted\n")


@pytest.fixture
def strangers() -> None:
    if not isolation_features().other_user:
        pytest.skip("no users of their own on this machine")


@pytest.mark.usefixtures("strangers")
def test_a_stranger_is_nobody_else_and_owns_but_its_scratch(tmp_path: Path) -> None:
    code = """
import os
print(len({*os.getresuid(), *os.getresgid()}), os.getuid(), os.getgroups())
open('/proc/self/stat').close()
open('mine', 'w').write('x'); os.rename('mine', 'still mine')
"""
    rights = {"stranger": True, "scratch_bytes": 1 << 20}
    (status, said), (_, other) = (inside(code, tmp_path, **rights) for _ in "ab")
    count, user, groups = said.split(maxsplit=2)
    assert (status, count, groups.strip()) == (0, "1", "[]")
    assert int(user) > FIRST_UNPRIVILEGED_UID and user != other.split()[1]
    assert list(tmp_path.iterdir()) == []
    assert inside("import os; print(os.getuid())", tmp_path) == (0, f"{os.getuid()}\n")


@pytest.mark.usefixtures("strangers")
def test_a_stranger_cannot_write_what_root_could(tmp_path: Path) -> None:
    granted, scratch = tmp_path / "granted", tmp_path / "scratch"
    granted.mkdir()
    scratch.mkdir()
    (granted / "ours").write_text("x")
    code = f"print(open({str(granted / 'ours')!r}).read()); open({str(granted / 'ours')!r}, 'a')"
    rights = {"readable": (*PYTHON, str(granted)), "stranger": True, "scratch_bytes": 1 << 20}
    status, said = inside(code, scratch, walls=WITHOUT_LANDLOCK, **rights)
    assert status != 0 and "x\n" in said and "Permission denied" in said


@pytest.mark.usefixtures("strangers")
def test_on_the_way_through_a_closed_folder_lies_what_was_granted_alone(tmp_path: Path) -> None:
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
    rights = {"readable": readable, "stranger": True, "scratch_bytes": 1 << 20}
    status, said = inside(code, closed / "scratch", walls=WITHOUT_LANDLOCK, **rights)
    expected = "['a', 'file', 'link', 'scratch']\n['granted']\ngranted one file\n"
    assert (status, said) == (0, expected)
    assert (closed / "link").is_symlink() and len(list(closed.iterdir())) == 4


@pytest.mark.usefixtures("strangers")
def test_links_and_closed_folders_within_what_is_granted_are_gone_through(tmp_path: Path) -> None:
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
    rights = {"readable": (*PYTHON, *map(str, asked)), "stranger": True, "scratch_bytes": 1 << 20}
    status, said = inside(code, outer / "scratch", walls=WITHOUT_LANDLOCK, **rights)
    found = "open art package art ['base', 'one', 'scratch', 'two'] ['art']\n"
    assert (status, said) == (0, found)
    assert inside("open('x', 'w')", outer / "scratch", **rights) == (0, "")


@pytest.mark.usefixtures("strangers")
def test_a_way_that_goes_round_in_a_circle_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    rights = {"readable": (*PYTHON, str(tmp_path / "a")), "stranger": True}
    status, said = inside("", tmp_path, **rights)
    assert status != 0 and "circle" in said


def test_what_ran_when_the_time_was_up_is_gone_when_that_is_told(tmp_path: Path) -> None:
    if not isolation_features().namespaces:
        pytest.skip("no processes of its own on this machine")
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
        time.sleep(0.2)
        assert tmp_path.stat().st_mtime_ns == before


def test_each_wall_is_tried_where_not_all_of_them_stand(monkeypatch: pytest.MonkeyPatch) -> None:
    all_of_them = isolation_features()
    monkeypatch.setattr(launch, "_with_other_user", lambda found: found)
    assert isolation_features.__wrapped__() == replace(all_of_them, other_user=False)
    holds = launch._holds
    monkeypatch.setattr(launch, "_holds", lambda trial: not trial.seccomp and holds(trial))
    fewer = replace(all_of_them, other_user=False, seccomp=False)
    assert isolation_features.__wrapped__() == fewer


def test_without_its_capabilities_or_where_others_read_nothing_nobody_makes_strangers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = replace(isolation_features(), other_user=False)
    here = Path("/proc/self/status").read_text()
    effective = next(line for line in here.splitlines() if line.startswith("CapEff:"))
    for line, changed in ((effective, "CapEff:\t0"), ("Umask:\t0022", "Umask:\t0077")):
        told = here.replace(line, changed)
        with monkeypatch.context() as patched:
            patched.setattr(Path, "read_text", lambda path, told=told: told)
            assert launch._with_other_user(found) == found
