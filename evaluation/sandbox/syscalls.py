"""Linux system calls that Python's standard library does not wrap."""

from __future__ import annotations

import ctypes
import os
import signal

PR_SET_PDEATHSIG, PR_SET_DUMPABLE = 1, 4

libc = ctypes.CDLL(None, use_errno=True)


def checked(result: int, call: str) -> int:
    """Return the result of a call.

    Raises: OSError naming the call, where the result is negative.
    """
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{call}: {os.strerror(number)}")
    return result


def prctl(option: int, argument: int) -> None:
    checked(libc.prctl(option, ctypes.c_ulong(argument), 0, 0, 0), f"prctl {option}")


def die_with_parent() -> None:
    """Ask the kernel to kill this process when its parent dies."""
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
