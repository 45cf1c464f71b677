"""Statements of a suite without devices and random states, so that they run on any device."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping

PLACES = ("device", "generator", "pin_memory")
"""Arguments that say where a tensor is, and with which generator it is drawn."""
MOVES = ("to", "cuda", "cpu")
"""Methods that, without arguments, give the same numbers elsewhere."""


class Placeless(ast.NodeTransformer):
    """Removes devices, random states, lone constants and imports of Triton; renames variables.

    `values` are further methods that are removed, such as `item` of tensors without data.
    """

    def __init__(
        self,
        names: Mapping[str, str],
        states: Collection[str] = (),
        values: Collection[str] = (),
    ) -> None:
        self._names, self._states = names, states
        self._moves = (*MOVES, *values)

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.copy_location(ast.Name(self._names.get(node.id, node.id), node.ctx), node)

    def visit_Import(self, node: ast.Import) -> ast.stmt | None:
        return None if node.names[0].name == "triton" else node

    def visit_Assign(self, node: ast.Assign) -> ast.stmt | None:
        if set(loaded(node.targets[0], stored=True)) & set(self._states):
            return None
        self.generic_visit(node)
        return node

    def visit_If(self, node: ast.If) -> ast.stmt | None:
        if "device" in loaded(node.test):
            return None
        self.generic_visit(node)
        return node

    def visit_Expr(self, node: ast.Expr) -> ast.stmt | None:
        if isinstance(node.value, ast.Constant):
            return None
        if isinstance(node.value, ast.Call):
            called = ast.unparse(node.value.func)
            if called.partition(".")[0] in self._states or called.endswith("manual_seed"):
                return None
        self.generic_visit(node)
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        node.keywords = [k for k in node.keywords if k.arg not in PLACES]
        if whole := _of_triton(node):
            return whole
        if not isinstance(node.func, ast.Attribute):
            return node
        if node.func.attr == "to":
            node.args = [a for a in node.args if not _is_device(a)]
        if not node.args and not node.keywords and node.func.attr in self._moves:
            return node.func.value
        return node


def loaded(node: ast.AST, stored: bool = False) -> Iterator[str]:
    """Yield the names that a node loads, or those that it stores."""
    kind = ast.Store if stored else ast.Load
    return (n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, kind))


def _of_triton(node: ast.Call) -> ast.expr | None:
    """Return a function of Triton for whole numbers in words of Python; None for other calls."""
    name = ast.unparse(node.func).rpartition("triton.")[2]
    given = [f"({ast.unparse(a)})" for a in node.args]
    if name == "cdiv" and len(given) == 2:
        return ast.parse(f"-(-{given[0]} // {given[1]})", mode="eval").body
    if name == "next_power_of_2" and len(given) == 1:
        return ast.parse(f"(1 << ({given[0]} - 1).bit_length())", mode="eval").body
    return None


def _is_device(node: ast.expr) -> bool:
    text = ast.unparse(node)
    return text.strip("'\"").startswith(("cuda", "cpu")) or text.endswith("device")
