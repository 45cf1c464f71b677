"""A supervised child is heard whole, held to its time, and leaves nothing behind."""

from __future__ import annotations

import math
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
from tests.waiting import PATIENCE_SECONDS, until

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
    enough: Callable[[list[str]], object] = lambda lines: False,
    cwd: Path | None = None,
    stdin: str = "",
    heartbeat: Callable[[], bool] = lambda: True,
    heartbeat_seconds: float = 0.05,
    line_bytes: int = supervisor.LINE_BYTES,
) -> tuple[Ended, list[str]]:
    """Follow a command to its end; its deadline is over once its lines are `enough`."""
    read: list[str] = []
    child = Child(command, on_lines=read.extend, cwd=cwd, stdin=stdin, line_bytes=line_bytes)
    late = time.monotonic() + PATIENCE_SECONDS  # waits: a deadline
    ended = child.follow(
        deadline=lambda: 0.0 if enough(read) else late,
        heartbeat=heartbeat,
        heartbeat_seconds=heartbeat_seconds,
    )
    return ended, read


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def wait_for_end_of_daemon(folder: Path) -> None:
    pid = int((folder / "daemon.pid").read_text())
    until(lambda: is_gone(pid), "the end of the daemon")


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
        ended = child.follow(deadline=lambda: math.inf, answered=lambda: bool(answers))
        assert (ended.ending, answers) == (Ending.ANSWERED, [line.upper()])
        assert child.alive
    child.end()
    assert not child.alive


def test_the_deadline_ends_a_child_that_ignores_sigterm() -> None:
    ignore = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)"
    program = f"{ignore}; print('up', flush=True); time.sleep(60)"
    ended, lines_read = follow(python(program), enough=bool)
    assert (ended.ending, lines_read) == (Ending.DEADLINE, ["up"])


TALKS = "import signal, sys\nsignal.alarm(60)\nwhile True: sys.stdout.write('x' * 20_000 + '\\n')"


def slowly(lines: list[str]) -> None:
    """Listen at the pace of a recorder, behind that of who talks."""
    time.sleep(0.001 * len(lines))  # waits: a slow listener is the case


def test_a_child_that_never_stops_talking_is_held_to_its_time_and_to_the_beat() -> None:
    beats: list[bool] = []
    ended = Child(python(TALKS), on_lines=slowly).follow(
        deadline=lambda: 0.0 if len(beats) >= 2 else math.inf,
        heartbeat=lambda: not beats.append(True),
        heartbeat_seconds=0.1,
    )
    assert ended.ending is Ending.DEADLINE


def test_what_was_said_is_heard_in_time_though_the_child_talks_on() -> None:
    child = Child(python(TALKS), on_lines=slowly)
    for _ in range(100):
        assert child.drain()
    child.end()


def test_a_beat_that_says_stop_ends_the_child() -> None:
    beats = iter([True, True, False])
    ended, _ = follow(["sleep", "600"], heartbeat=lambda: next(beats))
    assert ended.ending is Ending.STOPPED


@pytest.mark.parametrize("rest", ["", "import time; time.sleep(60)"], ids=["exits", "is stopped"])
def test_a_daemon_that_left_the_session_dies_with_the_child(tmp_path: Path, rest: str) -> None:
    ending = Ending.DEADLINE if rest else Ending.EXITED
    enough = bool if rest else lambda lines: False
    ended, lines_read = follow(python(LEAVES_A_DAEMON + rest), enough=enough, cwd=tmp_path)
    assert ended.ending is ending
    assert lines_read == ["ready"]
    wait_for_end_of_daemon(tmp_path)


def test_a_child_that_shouts_without_end_is_ended() -> None:
    ended, _ = follow(python("while True: print('x' * 4096, end='')"), line_bytes=1 << 16)
    assert ended.ending is Ending.LONG_LINE


def test_a_child_that_was_heard_enough_is_ended_whoever_listened() -> None:
    def enough(lines: list[str]) -> None:
        raise OverflowError

    child = Child(python("import time; print('x', flush=True); time.sleep(60)"), on_lines=enough)
    until(lambda: not child.drain(), "the refusal of the listener")
    assert child.follow(deadline=lambda: math.inf).ending is Ending.FLOOD


def test_what_the_listener_raises_reaches_the_caller_and_ends_the_child(tmp_path: Path) -> None:
    def refuse(lines: list[str]) -> None:
        raise ValueError(lines[0])

    child = Child(python(LEAVES_A_DAEMON + "time.sleep(60)"), on_lines=refuse, cwd=tmp_path)
    with pytest.raises(ValueError, match="ready"):
        child.follow(deadline=lambda: float("inf"))
    wait_for_end_of_daemon(tmp_path)


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
    wait_for_end_of_daemon(tmp_path)
