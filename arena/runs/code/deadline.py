"""Deadline of work on texts that anybody may send, in processor time of the thread that works."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

PAGE_SECONDS = 0.5
"""For the texts of one page; what comes later is shown plainly."""

_ends: ContextVar[float] = ContextVar("ends", default=math.inf)


class Late(Exception):
    """Raised by work that has passed its deadline."""


@contextmanager
def processor_seconds(seconds: float) -> Iterator[None]:
    """Set a deadline for the work inside; an earlier one around it stays."""
    token = _ends.set(min(_ends.get(), time.thread_time() + seconds))
    try:
        yield
    finally:
        _ends.reset(token)


def is_late() -> bool:
    """Return whether the deadline of the current work has passed."""
    return time.thread_time() >= _ends.get()


def require_time() -> None:
    """Raise `Late` if the deadline of the current work has passed."""
    if is_late():
        raise Late
