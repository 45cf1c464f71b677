"""The check at the end of a run of tests: nothing of its own may remain.

The command forks before the first test. The child runs the tests. The parent adopts whatever loses
its parent, as init does elsewhere, and compares at the end: processes with the sockets on which
they listen, shared memory, mounted namespaces. Each worker compares its own listening sockets.
Whatever remains is listed with its test and fails the run; processes are ended.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tests.processes import Process, descendants

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
GRACE_SECONDS = 20.0
"""Time for processes that were ended to disappear, on a busy machine."""
ENDED = "Z"
"""The state of a process for which nobody has waited."""
LISTEN = "0A"
"""The state of such a socket in /proc/net/tcp."""
SHARED_MEMORY = Path("/dev/shm")
CLOCK_ERROR_SECONDS = 0.1
WORKERS_KEY = "left"

T = TypeVar("T")
Spans = Sequence[tuple[float, float, str]]
"""When each test began and ended, and its name."""


def pytest_addoption(parser: pytest.Parser) -> None:
    text = "seconds in which processes of the tests must disappear after the last test"
    parser.addoption("--grace", type=float, default=GRACE_SECONDS, help=text)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Sockets(config), "listening-sockets")


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Fork: return in the child, which is to run the tests."""
    if hasattr(config, "workerinput") or config.option.collectonly:
        return
    tests = Path(tempfile.mkdtemp(prefix="arena-tests-"), "spans.json")
    sys.stdout.flush()
    sys.stderr.flush()
    earlier = Earlier()
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    child = os.fork()
    if child:
        try:
            code = _ending_code(child)
            left = earlier.remains(_spans(tests), config.option.grace)
            print(*left, sep="\n", end="\n" * bool(left), file=sys.stderr, flush=True)
        finally:
            tests.unlink(missing_ok=True)
            tests.parent.rmdir()
        os._exit(code or bool(left))
    _prctl(PR_SET_CHILD_SUBREAPER, 0)
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    config.pluginmanager.register(Record(tests), "spans")


class Record:
    """Writes when each test ran, for the parent."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.spans: dict[str, tuple[float, float]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        begun, _ = self.spans.get(report.nodeid, (report.start, 0))
        self.spans[report.nodeid] = (begun, report.stop)

    def pytest_sessionfinish(self) -> None:
        self.path.write_text(json.dumps([(*span, name) for name, span in self.spans.items()]))


class Sockets:
    """Checks that a process that ran tests listens on no socket in the end."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.owners: dict[str, str] = dict.fromkeys(_sockets("self"), "")
        self.left: list[str] = []

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, bool, bool]:
        done = yield
        for inode in _sockets("self"):
            self.owners.setdefault(inode, item.nodeid)
        return done

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None]:
        self.left += [
            f"left behind: the tests' process listens on {address}: {self.owners.get(inode, '')}"
            for inode, address in _listening("self").items()
            if self.owners.get(inode, "unknown")
        ]
        if hasattr(self.config, "workeroutput"):
            self.config.workeroutput[WORKERS_KEY] = self.left
        if self.left:
            session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED
        return (yield)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self.left += getattr(node, "workeroutput", {}).get(WORKERS_KEY, [])

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        for line in self.left:
            terminalreporter.write_line(line, red=True)


class Earlier:
    """What existed before the tests."""

    def __init__(self) -> None:
        self.began = time.time()
        self.namespaces = set(_mounted_namespaces())

    def remains(self, spans: Spans, grace_seconds: float) -> list[str]:
        """Return a line for all that is left; end the processes."""
        lines = []
        for process in _wait_for_descendants(grace_seconds):
            sockets = "".join(f", listens on {a}" for a in _listening(process.pid).values())
            name = process.environment().get("PYTEST_CURRENT_TEST")
            name = name or _named(_boot_time() + process.started_seconds, spans)
            what = f"process {process.pid} ({process.command()[:200]}){sockets}"
            lines.append(f"left behind: {what}: {name}")
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
        _wait_for_descendants(GRACE_SECONDS)
        for path, at in _lasting(lambda: _unused_memory(self.began), grace_seconds):
            lines.append(f"left behind: shared memory {path}: {_named(at, spans)}")
        for mount in _lasting(self.new_namespaces, grace_seconds):
            lines.append(f"left behind: mounted namespace {mount}")
        return lines

    def new_namespaces(self) -> set[str]:
        return set(_mounted_namespaces()) - self.namespaces


def _lasting(found: Callable[[], Collection[T]], seconds: float) -> Collection[T]:
    """Return what is found even after that time, in which it can end or come into use."""
    end = time.monotonic() + seconds
    while (left := found()) and time.monotonic() < end:
        time.sleep(0.05)
    return left


def _prctl(option: int, value: int) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")


def _ending_code(child: int) -> int:
    """Return the exit code of the tests; wait for what they leave as well, as init would."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal sends it to the tests too
    signal.signal(signal.SIGTERM, lambda number, _: os.kill(child, number))
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def _wait_for_descendants(seconds: float) -> list[Process]:
    """Return the descendants that are still there after that time."""

    def left() -> list[Process]:
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        return descendants(os.getpid())

    return [process for process in _lasting(left, seconds) if process.state != ENDED]


def _spans(path: Path) -> Spans:
    return json.loads(path.read_text()) if path.exists() else ()


def _named(at: float, spans: Spans) -> str:
    """Return the tests that ran at that time."""
    names = [
        name
        for begun, ended, name in spans
        if begun - CLOCK_ERROR_SECONDS <= at <= ended + CLOCK_ERROR_SECONDS
    ]
    return " or ".join(names) or "of no test that is known"


def _boot_time() -> float:
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)


def _sockets(pid: int | str) -> dict[str, str]:
    """Return the descriptors of a process that are sockets, by inode."""
    found = {}
    with contextlib.suppress(OSError):
        for entry in os.scandir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                if (target := os.readlink(entry.path)).startswith("socket:["):
                    found[target[8:-1]] = entry.name
    return found


def _listening(pid: int | str) -> Mapping[str, str]:
    """Return the addresses on which a process listens, by inode."""
    own = _sockets(pid)
    found = {}
    for kind in ("tcp", "tcp6") if own else ():
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{pid}/net/{kind}").read_text().splitlines()[1:]:
                words = line.split()
                if words[3] == LISTEN and words[9] in own:
                    found[words[9]] = f"port {int(words[1].rpartition(':')[2], 16)}"
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/net/unix").read_text().splitlines()[1:] if own else ():
            words = line.split(maxsplit=7)
            accepts = int(words[3], 16) & 0x10000  # SO_ACCEPTCON
            if accepts and words[6] in own:
                found[words[6]] = words[7] if len(words) > 7 else "a socket without a name"
    return found


def _unused_memory(since: float) -> list[tuple[str, float]]:
    """Return the name and time of shared memory made since then that no process uses."""
    used = set()
    for maps in Path("/proc").glob("[0-9]*/maps"):
        with contextlib.suppress(OSError):
            used |= {word for word in maps.read_text().split() if word.startswith("/dev/shm/")}
    found = []
    for path in SHARED_MEMORY.iterdir() if SHARED_MEMORY.is_dir() else ():
        with contextlib.suppress(OSError):
            status = path.lstat()
            if status.st_uid == os.getuid() and status.st_ctime > since and str(path) not in used:
                found.append((str(path), status.st_ctime))
    table = Path("/proc/sysvipc/shm")
    header, *rows = table.read_text().splitlines() if table.exists() else [""]
    for row in rows:
        segment = dict(zip(header.split(), row.split(), strict=True))
        made = float(segment["ctime"]) + 1  # whole seconds
        if segment["uid"] == str(os.getuid()) and segment["nattch"] == "0" and made > since:
            found.append((f"segment {segment['shmid']} of System V", made))
    return found


def _mounted_namespaces() -> list[str]:
    """Return where namespaces are mounted, which so outlive their processes."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return [line.split()[4] for line in lines if " - nsfs " in line]
