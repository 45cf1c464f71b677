"""A supervised child is heard whole, held to its time, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from runners.process import supervisor
from runners.process.supervisor import Child, Ended, Ending

LEAVES_A_DAEMON = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for stream in (0, 1, 2):
            os.close(stream)
        open("daemon.pid", "w").write(str(os.getpid()))
        time.sleep(600)
    os._exit(0)
while not os.path.exists("daemon.pid"):
    time.sleep(0.01)
print("ready", flush=True)
"""


def python(program: str) -> list[str]:
    return [sys.executable, "-c", program]


def follow(
    command: list[str],
    *,
    seconds: float = 20,
    cwd: Path | None = None,
    stdin: str = "",
    heartbeat: Callable[[], bool] = lambda: True,
) -> tuple[Ended, list[str]]:
    lines_read: list[str] = []
    child = Child(command, on_lines=lines_read.extend, cwd=cwd, stdin=stdin)
    end = time.monotonic() + seconds
    return child.follow(deadline=lambda: end, heartbeat=heartbeat), lines_read


def gone(pid: int, within: float = 5.0) -> bool:
    end = time.monotonic() + within
    while time.monotonic() < end:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.02)
    return False


def test_every_line_arrives_in_order_and_the_last_needs_no_newline() -> None:
    program = "import sys; print(*range(20000), sep='\\n'); sys.stdout.write(sys.stdin.read())"
    ended, lines_read = follow(python(program), stdin="é, the end")
    assert (ended.ending, ended.code) == (Ending.EXITED, 0)
    assert lines_read == [*map(str, range(20000)), "é, the end"]


def test_a_request_larger_than_a_pipe_does_not_block_when_nobody_reads_it() -> None:
    ended, _ = follow(python("pass"), stdin="x" * (4 << 20))
    assert (ended.ending, ended.code) == (Ending.EXITED, 0)


def test_the_exit_code_and_the_end_of_stderr_are_told() -> None:
    ended, _ = follow(python("import sys; sys.stderr.write('x' * 100_000 + 'why'); sys.exit(3)"))
    assert (ended.ending, ended.code) == (Ending.EXITED, 3)
    assert ended.stderr.endswith("why")
    assert len(ended.stderr) <= supervisor.STDERR_BYTES


def test_a_death_by_signal_is_told_as_a_shell_tells_it() -> None:
    ended, _ = follow(python("import os; os.abort()"))
    assert ended.code == 128 + signal.SIGABRT


def test_a_command_that_is_not_there_is_said_by_name() -> None:
    ended, _ = follow(["/nowhere/agent"])
    assert ended.code == 127
    assert "/nowhere/agent: No such file" in ended.stderr


def test_a_child_that_has_answered_lives_on_and_is_asked_again() -> None:
    answers: list[str] = []
    child = Child(
        python("import sys\nfor line in sys.stdin: print(line.upper(), flush=True)"),
        on_lines=answers.extend,
        stdin=None,
    )
    for line in ("one", "two"):
        answers.clear()
        child.ask(line)
        ended = child.follow(deadline=lambda: time.monotonic() + 20, answered=lambda: bool(answers))
        assert (ended.ending, answers) == (Ending.ANSWERED, [line.upper()])
        assert child.alive
    child.end()
    assert not child.alive


def test_the_deadline_ends_a_child_that_ignores_sigterm() -> None:
    ignore = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)"
    program = f"{ignore}; print('up', flush=True); time.sleep(60)"
    ended, lines_read = follow(python(program), seconds=1.0)
    assert (ended.ending, lines_read) == (Ending.DEADLINE, ["up"])


TALKS = "import sys\nwhile True: sys.stdout.write('x' * 20_000 + '\\n')"


def slowly(lines: list[str]) -> None:
    """Listen at the pace of a recorder, behind that of who talks."""
    time.sleep(0.001 * len(lines))


def test_a_child_that_never_stops_talking_is_held_to_its_time_and_to_the_beat(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(supervisor, "HEARTBEAT_SECONDS", 0.2)
    beats: list[float] = []
    child = Child(python(f"import signal; signal.alarm(15)\n{TALKS}"), on_lines=slowly)
    end = time.monotonic() + 1.0
    ended = child.follow(deadline=lambda: end, heartbeat=lambda: not beats.append(time.monotonic()))
    assert ended.ending is Ending.DEADLINE
    assert time.monotonic() - end < 3 and len(beats) >= 2


def test_what_was_said_is_heard_in_time_though_the_child_talks_on() -> None:
    child = Child(python(f"import signal; signal.alarm(15)\n{TALKS}"), on_lines=slowly)
    begun = time.monotonic()
    while time.monotonic() - begun < 1:
        assert child.drain()
    assert time.monotonic() - begun < 3
    child.end()


def test_a_beat_that_says_stop_ends_the_child(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "HEARTBEAT_SECONDS", 0.05)
    beats = iter([True, True, False])
    ended, _ = follow(["sleep", "60"], heartbeat=lambda: next(beats))
    assert ended.ending is Ending.STOPPED


@pytest.mark.parametrize("rest", ["", "import time; time.sleep(60)"], ids=["exits", "is stopped"])
def test_a_daemon_that_left_the_session_dies_with_the_child(tmp_path: Path, rest: str) -> None:
    _, lines_read = follow(python(LEAVES_A_DAEMON + rest), seconds=1.5, cwd=tmp_path)
    assert lines_read == ["ready"]
    assert gone(int((tmp_path / "daemon.pid").read_text()))


def test_a_child_that_shouts_without_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "LINE_BYTES", 1 << 16)
    ended, _ = follow(python("while True: print('x' * 4096, end='')"))
    assert ended.ending is Ending.LONG_LINE


def test_a_child_that_was_heard_enough_is_ended_whoever_listened() -> None:
    def enough(lines: list[str]) -> None:
        raise OverflowError

    child = Child(python("import time; print('x', flush=True); time.sleep(60)"), on_lines=enough)
    end = time.monotonic() + 20
    while child.drain() and time.monotonic() < end:
        time.sleep(0.01)
    assert child.follow(deadline=lambda: end).ending is Ending.FLOOD


def test_what_the_listener_raises_reaches_the_caller_and_ends_the_child(tmp_path: Path) -> None:
    def refuse(lines: list[str]) -> None:
        raise ValueError(lines[0])

    child = Child(python(LEAVES_A_DAEMON + "time.sleep(60)"), on_lines=refuse, cwd=tmp_path)
    with pytest.raises(ValueError, match="ready"):
        child.follow(deadline=lambda: float("inf"))
    assert gone(int((tmp_path / "daemon.pid").read_text()))


def test_nothing_is_left_when_the_asker_is_killed(tmp_path: Path) -> None:
    client = subprocess.Popen(
        python(
            "from runners.process.supervisor import Child\n"
            f"command = {python(LEAVES_A_DAEMON + 'time.sleep(60)')!r}\n"
            f"child = Child(command, on_lines=print, cwd={str(tmp_path)!r})\n"
            "child.follow(deadline=lambda: float('inf'))"
        ),
        stdout=subprocess.PIPE,
    )
    assert client.stdout and b"ready" in client.stdout.readline()
    client.kill()
    client.wait()
    assert gone(int((tmp_path / "daemon.pid").read_text()))
