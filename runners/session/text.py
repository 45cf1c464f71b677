"""Bounds of text: what is kept of one that is too long."""

from __future__ import annotations


def limited(text: str, limit: int) -> str:
    """Return a text of at most `limit` characters, and a mark for what is left out.

    Of the states that a progress bar wrote over each other, a long text keeps the last. Then its
    middle is left out.
    """
    if len(text) <= limit:
        return text
    text = "\n".join(_last_state(line) for line in text.split("\n"))
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n[{len(text) - 2 * half:,} characters left out]\n{text[-half:]}"


def _last_state(line: str) -> str:
    """Return what a terminal shows of a line with carriage returns."""
    return line.rstrip("\r").rpartition("\r")[2]
