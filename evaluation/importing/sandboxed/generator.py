"""UNTRUSTED: an input generator as statements that name no device and no seed."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping

from evaluation.importing.sandboxed.observation import Unsupported

PLACES = ("device", "generator", "pin_memory")
"""Arguments that say where a tensor is, and with which generator it is drawn."""
MOVES = ("to", "cuda", "cpu", "item")
"""Methods that, without arguments, give the same numbers elsewhere."""


class Generator:
    """The statements of a generator function, and the expressions that it returns.

    Calls run on the default device with the default generator. `x.item()` is `x`, because tensors
    without data have no value.

    Raises: Unsupported.
    """

    def __init__(self, function: ast.FunctionDef, names: Mapping[str, str]) -> None:
        *body, last = function.body
        returns = list(_returns(function))
        if len(returns) != 1 or returns[0] is not last or returns[0].value is None:
            raise Unsupported(f"{function.name}() does not return once, at its end")
        self._fixed = {"torch", *names.values()}
        drop = _Drop(names, _random_states(function))
        kept = [drop.visit(node) for node in body]
        self._statements: list[ast.stmt] = [node for node in kept if node is not None]
        value = drop.visit(returns[0].value)
        self.is_tuple = isinstance(value, ast.Tuple)
        self.returned: list[ast.expr] = value.elts if isinstance(value, ast.Tuple) else [value]

    def lines(self, returned: Iterable[str]) -> list[str]:
        """Return the statements that some expressions need, and a return of their list."""
        result = f"[{', '.join(returned)}]"
        needed = set(_loaded(ast.parse(result)))
        kept: list[ast.stmt] = []
        for node in reversed(self._statements):
            if isinstance(node, ast.Assert) or needed & _changed(node, self._fixed):
                needed |= set(_loaded(node))
                kept.insert(0, node)
        lines = [line for node in kept for line in ast.unparse(node).splitlines()]
        return [*lines, f"return {result}"]


def _random_states(function: ast.FunctionDef) -> set[str]:
    """Return the names of the function's random generators."""
    return {
        target.id
        for node in ast.walk(function)
        if isinstance(node, ast.Assign) and ast.unparse(node.value).startswith("torch.Generator(")
        for target in node.targets
        if isinstance(target, ast.Name)
    }


class _Drop(ast.NodeTransformer):
    """Removes devices, random generators and docstrings, and renames parameters."""

    def __init__(self, names: Mapping[str, str], states: set[str]) -> None:
        self._names, self._states = names, states

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.copy_location(ast.Name(self._names.get(node.id, node.id), node.ctx), node)

    def visit_Assign(self, node: ast.Assign) -> ast.stmt | None:
        if set(_loaded(node.targets[0], stored=True)) & self._states:
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
        if not isinstance(node.func, ast.Attribute):
            return node
        if node.func.attr == "to":
            node.args = [a for a in node.args if not _is_device(a)]
        if not node.args and not node.keywords and node.func.attr in MOVES:
            return node.func.value
        return node


def _is_device(node: ast.expr) -> bool:
    text = ast.unparse(node)
    return text.strip("'\"").startswith(("cuda", "cpu")) or text.endswith("device")


def _loaded(node: ast.AST, stored: bool = False) -> Iterator[str]:
    kind = ast.Store if stored else ast.Load
    return (n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, kind))


def _returns(node: ast.AST) -> Iterator[ast.Return]:
    """Yield the returns of a function, without those of functions in it."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Return):
            yield child
        elif not isinstance(child, ast.FunctionDef | ast.Lambda):
            yield from _returns(child)


def _changed(node: ast.stmt, fixed: set[str]) -> set[str]:
    """Return the names that a statement assigns, or whose objects it may change.

    The objects of `fixed` names never change: they are numbers and modules.
    """
    if isinstance(node, ast.FunctionDef):
        return {node.name}
    found = set(_loaded(node, stored=True))
    if not isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign):
        return found | set(_loaded(node)) - fixed
    for child in ast.walk(node):
        stored = isinstance(getattr(child, "ctx", None), ast.Store)
        in_place = isinstance(child, ast.Attribute) and child.attr.endswith("_")
        target = child if stored or in_place else None
        while isinstance(target, ast.Subscript | ast.Attribute | ast.Call):
            target = target.func if isinstance(target, ast.Call) else target.value
        if isinstance(target, ast.Name):
            found.add(target.id)
    return found
