"""Formats of log records."""

from __future__ import annotations

import logging

MAX_CHARACTERS = 300


class OneLine(logging.Formatter):
    """Formats a record as one line without a traceback: its text is of the sender's choice."""

    def format(self, record: logging.LogRecord) -> str:
        short = logging.makeLogRecord(record.__dict__)
        text = " ".join(record.getMessage().split())
        short.msg, short.args = text[:MAX_CHARACTERS], None
        short.exc_info = short.exc_text = short.stack_info = None
        return super().format(short)
