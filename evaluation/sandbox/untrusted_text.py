"""Text of untrusted processes, for messages and names."""

from __future__ import annotations

from typing import Any


def printable(text: Any) -> str:
    """Return untrusted text with U+FFFD for all but printable characters and line ends."""
    odd = "\N{REPLACEMENT CHARACTER}"
    return "".join(c if c.isprintable() or c == "\n" else odd for c in str(text))
