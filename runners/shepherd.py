"""The parent of a child's whole family: nothing that it started outlives it, nor the worker that asked for it.

Run as a script, standard library alone: `python -I -S shepherd.py <pid of the asker> command argument ...`. Orphans of
the family become children of the shepherd (a subreaper), so killing and reaping its own children until none is left
ends them all, whatever sessions or double forks they tried. It does so when the command ends, when it is told to stop
(SIGTERM), and when the asker dies, by whatever signal.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
COMMAND_NOT_FOUND = 127

_AWAITED = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD}


def main(asker: int, command: list[str]) -> int:
    """Run `command`; its exit status as a shell gives it, 128 + n after signal n."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _AWAITED)
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    _prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != asker:  # it died before the line above could have told us
        return 128 + signal.SIGTERM
    child = os.fork()
    if child == 0:
        _become(command)
    status = _wait_for(child)
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


def _wait_for(child: int) -> int:
    """The child's exit status, or that of SIGTERM when told to stop first."""
    while signal.sigwait(_AWAITED) == signal.SIGCHLD:
        while (ended := _reap()) is not None:
            pid, status = ended
            if pid == child:
                code = os.waitstatus_to_exitcode(status)
                return code if code >= 0 else 128 - code
    return 128 + signal.SIGTERM


def _reap() -> tuple[int, int] | None:
    """One child that has ended, without waiting; None if there is none."""
    try:
        pid, status = os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return None
    return (pid, status) if pid else None


def _end_everyone() -> None:
    """Kill and reap our children until none is left; the children of each become ours as it dies."""
    while True:
        for pid in _children():
            os.kill(pid, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _children() -> list[int]:
    mine = os.getpid()
    return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if _parent(pid) == mine]


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
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
