"""Errors of a user, each with a message and a hint at what to do."""

from __future__ import annotations


class UserError(Exception):
    """A request that cannot be fulfilled; `status` is its HTTP status."""

    code = "bad_request"
    status = 400

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class Invalid(UserError):
    """A value that is not one of the allowed ones."""

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
    """An object whose state does not allow the request."""

    code = "conflict"
    status = 409


class CannotJudge(Conflict):
    """Hardware of a kind that the task is not judged on."""

    code = "cannot_judge"


class CannotWork(Conflict):
    """An agent that does not work on the task."""

    code = "cannot_work"


class QuotaExceeded(UserError):
    code = "quota_exceeded"
    status = 429
