"""UNTRUSTED: an input generator as statements that name no device and no seed."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping

from evaluation.importers.placeless import Placeless, loaded
from evaluation.importers.sandboxed.observation import Unsupported


class Generator:
    """The statements of a generator function, and the expressions that it returns.

    Calls run on the default device with the default generator. `x.item()` is `x`, because tensors
    without data have no value, unless `has_data`.

    Raises: Unsupported.
    """

    def __init__(
        self, function: ast.FunctionDef, names: Mapping[str, str], has_data: bool = False
    ) -> None:
        *body, last = function.body
        returns = list(_returns(function))
        if len(returns) != 1 or returns[0] is not last or returns[0].value is None:
            raise Unsupported(f"{function.name}() does not return once, at its end")
        self._fixed = {"torch", *names.values()}
        drop = Placeless(names, _random_states(function), () if has_data else ("item",))
        kept = [drop.visit(node) for node in body]
        self._statements: list[ast.stmt] = [node for node in kept if node is not None]
        value = drop.visit(returns[0].value)
        self.is_tuple = isinstance(value, ast.Tuple)
        self.returned: list[ast.expr] = value.elts if isinstance(value, ast.Tuple) else [value]

    def lines(self, returned: Iterable[str]) -> list[str]:
        """Return the statements that some expressions need, and a return of their list."""
        result = f"[{', '.join(returned)}]"
        needed = set(loaded(ast.parse(result)))
        kept: list[ast.stmt] = []
        for node in reversed(self._statements):
            if isinstance(node, ast.Assert) or needed & _changed(node, self._fixed):
                needed |= set(loaded(node))
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
    found = set(loaded(node, stored=True))
    if not isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign):
        return found | set(loaded(node)) - fixed
    for child in ast.walk(node):
        stored = isinstance(getattr(child, "ctx", None), ast.Store)
        in_place = isinstance(child, ast.Attribute) and child.attr.endswith("_")
        target = child if stored or in_place else None
        while isinstance(target, ast.Subscript | ast.Attribute | ast.Call):
            target = target.func if isinstance(target, ast.Call) else target.value
        if isinstance(target, ast.Name):
            found.add(target.id)
    return found
