"""Errors that are the asker's, each with a message to show and a hint of what to do."""

from __future__ import annotations


class UserError(Exception):
    """The request cannot be done as asked. `status` is the HTTP status that says so."""

    code = "bad_request"
    status = 400

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class Invalid(UserError):
    """What was asked for has no meaning here."""

    code = "invalid"
    status = 422


class NotFound(UserError):
    code = "not_found"
    status = 404


class Unauthorized(UserError):
    code = "unauthorized"
    status = 401


class Forbidden(UserError):
    code = "forbidden"
    status = 403


class Conflict(UserError):
    """The thing exists but is past the state in which this could be done."""

    code = "conflict"
    status = 409


class CannotJudge(Conflict):
    """The hardware is of no kind that the task is judged on."""

    code = "cannot_judge"


class CannotWork(Conflict):
    """The agent works on other tasks alone."""

    code = "cannot_work"


class QuotaExceeded(UserError):
    code = "quota_exceeded"
    status = 429
