"""Subreaper of a child's process tree, which outlives neither the child nor its client.

A script of the standard library only: `subreaper.py <pid of the client> <grace> command ...`.
Orphans of the tree become its children, so that killing and reaping its children ends them all,
whatever sessions or double forks they use. It does so when the command ends, on SIGTERM, and when
the client dies. On SIGTERM the command has `grace` seconds to end by itself.
"""

from __future__ import annotations

import ctypes
import math
import os
import signal
import sys
import time

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
COMMAND_NOT_FOUND = 127
HOUR = 3600.0

_AWAITED = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD}


def main(client: int, grace: float, command: list[str]) -> int:
    """Run `command`; return its exit status as a shell does, 128 + n after signal n."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _AWAITED)
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    _prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != client:  # it died before the line above could have told us
        return 128 + signal.SIGTERM
    child = os.fork()
    if child == 0:
        _become(command)
    status = _wait_for(child)
    if status is None:
        status = _stop(child, grace)
    _end_everyone()
    return status


def _become(command: list[str]) -> None:
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _AWAITED)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        os.write(2, f"{command[0]}: {error.strerror}\n".encode())
    os._exit(COMMAND_NOT_FOUND)


def _wait_for(child: int, seconds: float = math.inf) -> int | None:
    """Return the child's exit status; None on SIGTERM or after `seconds`."""
    end = time.monotonic() + seconds
    while True:
        left = min(max(0.0, end - time.monotonic()), HOUR)
        received = signal.sigtimedwait(_AWAITED, left)
        while (ended := _reap()) is not None:
            pid, status = ended
            if pid == child:
                code = os.waitstatus_to_exitcode(status)
                return code if code >= 0 else 128 - code
        if time.monotonic() >= end or (received and received.si_signo != signal.SIGCHLD):
            return None


def _stop(child: int, grace: float) -> int:
    """Let the child end by itself for `grace` seconds; return its status, or that of SIGTERM."""
    if grace:
        os.kill(child, signal.SIGTERM)
        status = _wait_for(child, grace)
        if status is not None:
            return status
    return 128 + signal.SIGTERM


def _reap() -> tuple[int, int] | None:
    """Reap one ended child without waiting; None if there is none."""
    try:
        pid, status = os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return None
    return (pid, status) if pid else None


def _end_everyone() -> None:
    """Kill and reap all children until none is left; their orphans become children, too."""
    while True:
        for pid in _children():
            os.kill(pid, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _children() -> list[int]:
    mine = os.getpid()
    return [
        pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if _parent(pid) == mine
    ]


def _parent(pid: int) -> int | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            return int(stat.read().rpartition(b")")[2].split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return None


def _prctl(option: int, value: int) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option}, {value})")


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), float(sys.argv[2]), sys.argv[3:]))
