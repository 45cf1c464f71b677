"""Integer expressions of a task file: sizes derived from other symbols, and conditions on them.

Their author may be any user, and a web server evaluates them. So each value has 64 bits at most,
also the intermediate ones.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
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
_REFUSED = (ast.Div, ast.MatMult, ast.Pow, ast.LShift)
MAX_LENGTH = 200
MAX_COMPILED = 4096
MAX_VALUE = 2**63 - 1
_BOUNDED = "within 64 bits"
"""A name that no expression can have."""


def _bounded(value: Any) -> Any:
    """Return a value of an expression. Raises OverflowError where it has more than 64 bits."""
    if isinstance(value, int | float) and not abs(value) <= MAX_VALUE:
        raise OverflowError("a number has more than 64 bits")
    return value


class _Bound(ast.NodeTransformer):
    """Wraps each symbol and each result in a call of `_bounded`."""

    def _call(self, node: ast.expr) -> ast.Call:
        function = ast.Name(_BOUNDED, ast.Load())
        return ast.Call(function, [self.generic_visit(node)], [])  # type: ignore[list-item]

    def visit_BinOp(self, node: ast.BinOp) -> ast.Call:
        return self._call(node)

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return node if node.id in _FUNCTIONS else self._call(node)


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
            return eval(_compiled(self.text)[0], dict(_NAMES), dict(symbols))
        except (ArithmeticError, NameError, TypeError) as error:
            raise ValueError(f"{self.text!r} has no value: {error}") from None


_NAMES = {"__builtins__": {}, **_FUNCTIONS, _BOUNDED: _bounded}


@lru_cache(MAX_COMPILED)
def _compiled(text: str) -> tuple[CodeType, tuple[str, ...]]:
    if len(text) > MAX_LENGTH:
        raise ValueError(f"longer than {MAX_LENGTH} characters")
    try:
        tree = ast.parse(text, mode="eval")
    except SyntaxError:
        raise ValueError(f"{text!r} is not an expression") from None
    names: dict[str, None] = {}
    for node in ast.walk(tree):
        if not isinstance(node, _NODES) or isinstance(node, _REFUSED):
            raise ValueError(f"{text!r} has {type(node).__name__}; use + - * // % min max")
        if isinstance(node, ast.Constant):
            if type(node.value) is not int:
                raise ValueError(f"{text!r} has {node.value!r}; use integers")
            if node.value > MAX_VALUE:
                raise ValueError(f"{text!r} has a number of more than 64 bits")
        if isinstance(node, ast.Call) and not (
            isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS and not node.keywords
        ):
            raise ValueError(f"{text!r} calls a function; only {', '.join(_FUNCTIONS)} are there")
        if isinstance(node, ast.Name) and node.id not in _FUNCTIONS:
            names[node.id] = None
    ordered = sorted(names, key=lambda name: text.index(name))
    tree = ast.fix_missing_locations(_Bound().visit(tree))
    return compile(tree, "<expression>", "eval"), tuple(ordered)
