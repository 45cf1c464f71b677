"""Formats of log records, and what the work of a thread adds to each of its lines.

A request or a message of the queue begins a context. Lines of JSON have its values, such as `run`
and `evaluation`, beside the machine that wrote them.
"""

from __future__ import annotations

import contextvars
import json
import logging
import socket
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

from django.http import HttpRequest, HttpResponse

MAX_CHARACTERS = 300

_about: contextvars.ContextVar[Mapping[str, Any]] = contextvars.ContextVar(
    "about", default=MappingProxyType({})
)


def begin(**about: Any) -> None:
    """Begin the context of a request or a message: its lines have these values."""
    _about.set(about)


def add(**about: Any) -> None:
    """Add values to the lines of this context from here on."""
    _about.set({**_about.get(), **about})


class Json(logging.Formatter):
    """Formats a record as one line of JSON; `extra={"about": {...}}` adds values to a record."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            "machine": socket.gethostname(),
            **_about.get(),
            **getattr(record, "about", {}),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


class OneLine(logging.Formatter):
    """Formats a record as one line without a traceback: its text is of the sender's choice."""

    def format(self, record: logging.LogRecord) -> str:
        short = logging.makeLogRecord(record.__dict__)
        text = " ".join(record.getMessage().split())
        short.msg, short.args = text[:MAX_CHARACTERS], None
        short.exc_info = short.exc_text = short.stack_info = None
        return super().format(short)


class OneLineJson(OneLine, Json):
    """Formats a record as one line of JSON, with a cut message and without a traceback."""


class Requests:
    """Middleware that begins a context for each request, with the run that its URL names."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        begin()
        return self._get_response(request)

    def process_view(self, request: HttpRequest, view: Any, args: Any, named: Any) -> None:
        """Add the run of the URL; the lines of the view have it."""
        if run_id := named.get("run_id"):
            add(run=run_id)
