"""Errors of a user, each with a message and a hint at what to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Link:
    """A page that helps: its address, and the text of the link."""

    address: str
    text: str


class UserError(Exception):
    """A request that cannot be fulfilled; `status` is its HTTP status."""

    code, status = "bad_request", 400

    def __init__(self, message: str, hint: str = "", link: Link | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.link = link

    @property
    def text(self) -> str:
        """The message with the hint."""
        return f"{self.message} {self.hint}".strip()


class Invalid(UserError):
    """A value that is not one of the allowed ones; `fields` has a message for each bad field."""

    code, status = "invalid", 422

    def __init__(self, message: str, hint: str = "", fields: Mapping[str, str] | None = None):
        super().__init__(message, hint)
        self.fields = dict(fields or {})


class NotFound(UserError):
    code, status = "not_found", 404


class Unauthorized(UserError):
    code, status = "unauthorized", 401


class Forbidden(UserError):
    code, status = "forbidden", 403


class Conflict(UserError):
    """An object whose state does not allow the request."""

    code, status = "conflict", 409


class Gap(Conflict):
    """A part of a stream that does not continue it; `expected` is the number that does."""

    code = "gap"

    def __init__(self, message: str, expected: int) -> None:
        super().__init__(message, f"Send from number {expected} on.")
        self.expected = expected


class CannotJudge(Conflict):
    """Hardware of a kind that the task is not judged on."""

    code = "cannot_judge"


class CannotWork(Conflict):
    """An agent that does not work on the task."""

    code = "cannot_work"


class TooLarge(UserError):
    code, status = "too_large", 413


class QuotaExceeded(UserError):
    """A limit of a user; after `retry_after` seconds, where they are known, a new try may pass."""

    code, status = "quota_exceeded", 429

    def __init__(self, message: str, hint: str, retry_after: int | None = None) -> None:
        super().__init__(message, hint)
        self.retry_after = retry_after
