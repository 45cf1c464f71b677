"""UNTRUSTED: the input function of a definition, which returns inputs by name."""

from __future__ import annotations

import ast
import copy
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from evaluation.importers.sandboxed.forms.generator import Generator
from evaluation.importers.sandboxed.observation import Unsupported


class OwnInputs:
    """A function of all axes and a device, as statements that use the axes by their names.

    It returns a dict, once and at its end. Raises: Unsupported.
    """

    def __init__(self, function: ast.FunctionDef, axes: Mapping[str, Mapping[str, Any]]) -> None:
        if not function.args.args:
            raise Unsupported(f"{function.name}() does not take the axes")
        changed = _Axes(function.args.args[0].arg, axes).visit(copy.deepcopy(function))
        changed.body = [node for node in changed.body if not _same(node, axes)]
        self._generator = Generator(ast.fix_missing_locations(changed), {n: n for n in axes}, True)
        (value,) = self._generator.returned
        keys = value.keys if isinstance(value, ast.Dict) else []
        if not keys or not all(isinstance(k, ast.Constant) for k in keys):
            raise Unsupported(f"{function.name}() does not return a dict with plain names")
        assert isinstance(value, ast.Dict)
        pairs = zip(keys, value.values, strict=True)
        self._expressions = {ast.literal_eval(k): ast.unparse(v) for k, v in pairs if k}

    def expression(self, name: str) -> str:
        """Return the expression of an input. Raises Unsupported for one that is not returned."""
        if name not in self._expressions:
            raise Unsupported(f"its input function does not return {name}")
        return self._expressions[name]

    def lines(self, returned: Iterable[str]) -> list[str]:
        """Return the statements that some expressions need, and a return of their list."""
        return self._generator.lines(returned)


class _Axes(ast.NodeTransformer):
    """Replaces `given["rows"]` and `given.get("rows", 4)` by `rows`, which must be an axis."""

    def __init__(self, given: str, axes: Collection[str]) -> None:
        self._given, self._axes = given, axes

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.value, ast.Name) and node.value.id == self._given:
            return self._axis(node.slice)
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        if ast.unparse(node.func) == f"{self._given}.get" and node.args:
            return self._axis(node.args[0])
        return node

    def _axis(self, name: ast.expr) -> ast.expr:
        if not isinstance(name, ast.Constant) or name.value not in self._axes:
            raise Unsupported(
                f"its input function takes {ast.unparse(name)[:80]}, which is no axis"
            )
        return ast.Name(str(name.value), ast.Load())


def _same(node: ast.stmt, axes: Mapping[str, Mapping[str, Any]]) -> bool:
    """Return whether a statement gives an axis the value that it has.

    The axes are constants of the file, and a name that a function assigns is its own.
    """
    if not isinstance(node, ast.Assign) or len(node.targets) != 1:
        return False
    name, value = ast.unparse(node.targets[0]), ast.unparse(node.value)
    return name in axes and value in (name, str(axes[name].get("value")))
