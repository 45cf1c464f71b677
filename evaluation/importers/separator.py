"""Files of the calls form: a function, a line of number signs, and a test of it."""

from __future__ import annotations

MIN_SIGNS = 40


def function_and_test(source: str) -> tuple[str, str]:
    """Return the text before the line of number signs, and the text after it."""
    lines = source.splitlines(keepends=True)
    for at, line in enumerate(lines):
        if len(line.strip()) >= MIN_SIGNS and not line.strip().strip("#"):
            return "".join(lines[:at]), "".join(lines[at + 1 :])
    return source, ""


def function_of(source: str) -> str:
    """Return the part of a file that the judge runs."""
    return function_and_test(source)[0]
