"""Expressions of a task file: their values, and what their author may not write."""

from __future__ import annotations

import pytest

from evaluation.tasks.expressions import Expression

MAX_VALUE = 2**63 - 1
HUGE = MAX_VALUE + 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(h + 2 * pad - kernel) // stride + 1", 16),
        ("min(h, kernel) * abs(-pad) % 5", 3),
        ("h >> 2 == 8 and not pad > 1", True),
        (f"h - {MAX_VALUE}", 32 - MAX_VALUE),
    ],
)
def test_expression_of_symbols_has_the_value_of_python(text: str, expected: int) -> None:
    symbols = {"h": 32, "pad": 1, "kernel": 3, "stride": 2}
    assert Expression.read(text).value(symbols) == expected


@pytest.mark.parametrize(
    "text",
    [
        "1 << (n * 3000000000)",
        "1 << n",
        "n ** n",
        "n / 2",
        str(HUGE),
        "9" * 200,
        "n" + "*n" * 100,
        "__import__('os')",
        "n.real",
        "[n][0]",
        "n if n else 1",
    ],
)
def test_expression_of_what_is_not_allowed_is_refused_unevaluated(text: str) -> None:
    with pytest.raises(ValueError, match=r" has |longer than|calls a function|null bytes"):
        Expression.read(text)


@pytest.mark.parametrize(
    ("text", "n"),
    [
        ("*".join(["n"] * 100), 1 << 60),
        ("*".join(["n"] * 100), -2),
        ("n + n", MAX_VALUE),
        ("n > 0", 10**400),
        ("0 * (n * n) + 1", 1 << 62),
        ("min(n * n, 1)", 1 << 62),
        ("n", float("inf")),
        ("n", float("nan")),
        ("1 >> n", -1),
        ("1 // n", 0),
        ("min(n)", 1),
        ("n + missing", 1),
    ],
)
def test_expression_without_a_value_of_64_bits_is_an_error(text: str, n: float) -> None:
    with pytest.raises(ValueError, match=r"has no value|negative shift"):
        Expression.read(text).value({"n": n})
