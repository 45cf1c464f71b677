"""Whose fault it is: the candidate's, the asker's, or ours."""

from __future__ import annotations

from collections.abc import Sequence

from evaluation.types import CompilerOutput, Reason


class SubmissionError(Exception):
    """The candidate is at fault. `message` is what it is told, and safe to show to anyone."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


class Rejected(SubmissionError):
    """A rule of the track was broken; `rule` names it."""

    def __init__(self, rule: str, message: str) -> None:
        super().__init__(Reason.FORBIDDEN, message)
        self.rule = rule


class RequestError(Exception):
    """The request cannot be judged: no such task, bad arguments, an unreadable file."""


class TaskError(RequestError):
    """A task folder is malformed; the message names the file and what to change."""


class Broken(Exception):
    """The judge itself failed. Never counted against a candidate."""


class NoIsolation(Broken):
    """This machine has no walls to put a stranger's code behind; the message says what to do."""


class BuildError(SubmissionError):
    """The source does not build; `outputs` holds what each compiler said."""

    def __init__(self, message: str, outputs: Sequence[CompilerOutput]) -> None:
        super().__init__(Reason.BUILD_ERROR, message)
        self.outputs = tuple(outputs)
