"""Errors by fault: the candidate's, the requester's, or the arena's."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from pathlib import Path

from evaluation.types import CompilerOutput, Reason


class SubmissionError(Exception):
    """Raised for a faulty candidate. `message` is public."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


class Rejected(SubmissionError):
    """Raised where a rule of the track is broken; `rule` names it."""

    def __init__(self, rule: str, message: str) -> None:
        super().__init__(Reason.FORBIDDEN, message)
        self.rule = rule


class Unsupported(SubmissionError):
    """Raised for a source that cannot be judged, though it breaks no rule; it says what can."""

    def __init__(self, message: str) -> None:
        super().__init__(Reason.UNSUPPORTED, message)


class RequestError(Exception):
    """Raised for a request that cannot be judged, such as an unknown task or an unreadable file."""


class TaskError(RequestError):
    """Raised for a malformed task folder or failing code of a task; the message names the file."""


class Broken(Exception):
    """Raised where the judge itself failed. Never counted against a candidate."""


class Inconclusive(Exception):
    """Raised where this machine cannot measure now; the message says what it saw."""


class NoIsolation(Broken):
    """Raised where this machine cannot isolate untrusted code; the message says what to do."""


class BuildError(SubmissionError):
    """Raised for a source that does not build; `outputs` holds the compilers' outputs."""

    def __init__(self, message: str, outputs: Sequence[CompilerOutput]) -> None:
        super().__init__(Reason.BUILD_ERROR, message)
        self.outputs = tuple(outputs)


def line_of(error: Exception, path: Path) -> str:
    """Return an error after the innermost line of a file that led to it; empty where none did."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(path)]
    return f"line {lines[-1]}: {type(error).__name__}: {error}" if lines else ""
