"""What a contestant says of its own failure, and how much of that is heeded."""

from __future__ import annotations

import signal

from evaluation.types import Reason

_OWN_REASONS = frozenset(
    "BUILD_ERROR MISSING_ENTRY WRONG_SHAPE WRONG_DTYPE ALIASED_OUTPUT OUT_OF_MEMORY CRASH".split()
)
"""What a contestant can know of its own failure."""


def reason_of(word: object) -> Reason:
    """A contestant's own account of its failure; anything outlandish is an error of its call."""
    return Reason(word) if isinstance(word, str) and word in _OWN_REASONS else Reason.CALL_ERROR


def text_of(said: object) -> str:
    """What a contestant says, bounded, and as text that can be written down."""
    return str(said)[:4000].encode(errors="replace").decode()


def signal_name(number: int) -> str:
    """`SIGSEGV`, or `signal 99` where it has no name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
