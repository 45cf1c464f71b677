"""Integer expressions of a task file: sizes derived from other symbols, and conditions on them."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import CodeType
from typing import Any

_FUNCTIONS = {"min": min, "max": max, "abs": abs}
_NODES = (
    ast.Expression,
    ast.BinOp,
    ast.UnaryOp,
    ast.BoolOp,
    ast.Compare,
    ast.Call,
    ast.Name,
    ast.Constant,
    ast.operator,
    ast.unaryop,
    ast.boolop,
    ast.cmpop,
    ast.expr_context,
)
"""Syntax that an expression may have: arithmetic, comparisons, and calls of `_FUNCTIONS`."""
MAX_LENGTH = 200


@dataclass(frozen=True)
class Expression:
    """An expression of symbols, such as `(h + 2 * pad - kernel) // stride + 1`."""

    text: str

    @classmethod
    def read(cls, text: str) -> Expression:
        """Return a checked expression. Raises ValueError that says what is not allowed."""
        _compiled(text)
        return cls(text)

    @property
    def symbols(self) -> tuple[str, ...]:
        """Return the symbols of the expression, in order of first use."""
        return _compiled(self.text)[1]

    def value(self, symbols: Mapping[str, int | float]) -> Any:
        """Return the value for these symbols. Raises ValueError where it has none."""
        try:
            return eval(_compiled(self.text)[0], {"__builtins__": {}, **_FUNCTIONS}, dict(symbols))
        except (ArithmeticError, NameError, TypeError) as error:
            raise ValueError(f"{self.text!r} has no value: {error}") from None


@cache
def _compiled(text: str) -> tuple[CodeType, tuple[str, ...]]:
    if len(text) > MAX_LENGTH:
        raise ValueError(f"longer than {MAX_LENGTH} characters")
    try:
        tree = ast.parse(text, mode="eval")
    except SyntaxError:
        raise ValueError(f"{text!r} is not an expression") from None
    names: dict[str, None] = {}
    for node in ast.walk(tree):
        if not isinstance(node, _NODES) or isinstance(node, ast.Div | ast.MatMult | ast.Pow):
            raise ValueError(f"{text!r} has {type(node).__name__}; use + - * // % min max")
        if isinstance(node, ast.Constant) and type(node.value) is not int:
            raise ValueError(f"{text!r} has {node.value!r}; use integers")
        if isinstance(node, ast.Call) and not (
            isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS and not node.keywords
        ):
            raise ValueError(f"{text!r} calls a function; only {', '.join(_FUNCTIONS)} are there")
        if isinstance(node, ast.Name) and node.id not in _FUNCTIONS:
            names[node.id] = None
    ordered = sorted(names, key=lambda name: text.index(name))
    return compile(tree, "<expression>", "eval"), tuple(ordered)
