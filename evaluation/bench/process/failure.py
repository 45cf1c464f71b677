"""Failures that an untrusted process reports of itself, or that its end shows."""

from __future__ import annotations

import signal

from evaluation.errors import SubmissionError
from evaluation.types import Reason

_REPORTABLE = frozenset(
    (
        Reason.BUILD_ERROR,
        Reason.MISSING_ENTRY,
        Reason.WRONG_SHAPE,
        Reason.WRONG_DTYPE,
        Reason.ALIASED_OUTPUT,
        Reason.OUT_OF_MEMORY,
        Reason.CRASH,
        Reason.FORBIDDEN,
    )
)
"""Reasons that a process can know of its own failure."""
MAX_MESSAGE_CHARACTERS, MAX_LOG_CHARACTERS = 4000, 800


def reported_failure(reason: object, message: object) -> SubmissionError:
    """Return a process's failure report; any reason that it cannot know becomes CALL_ERROR."""
    known = Reason(reason) if isinstance(reason, str) and reason in _REPORTABLE else None
    text = str(message)[:MAX_MESSAGE_CHARACTERS].encode(errors="replace").decode()
    return SubmissionError(known or Reason.CALL_ERROR, text)


def failure_of_end(code: int, log: str) -> SubmissionError:
    """Return the failure of a process that ended, by its exit code as shells give it."""
    output = f"; it said: {log[-MAX_LOG_CHARACTERS:]}" if log else ""
    if "bad_alloc" in log or "MemoryError" in log:
        return SubmissionError(Reason.OUT_OF_MEMORY, f"ran out of memory{output}")
    if code == 128 + signal.SIGXCPU:
        return SubmissionError(Reason.TIMEOUT, "used up its processor time")
    if code > 128:
        return SubmissionError(Reason.CRASH, f"ended by {_signal_name(code - 128)}{output}")
    return SubmissionError(Reason.CRASH, f"ended itself with exit code {code}{output}")


def _signal_name(number: int) -> str:
    """Return `SIGSEGV`, or `signal 99` where it has no name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
