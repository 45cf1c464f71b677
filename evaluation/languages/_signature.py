"""Signature of a Python entry point, read from its source without running it."""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping

MAX_STEPS = 8
"""Names and calls that are followed from the entry point to its definition."""


def names_all(tree: ast.Module, entries: Collection[str], wanted: Collection[str]) -> bool:
    """Return whether the first entry point that a module defines has all these parameters.

    An entry point is a function, a lambda, a module with `forward`, or a call that wraps one, such
    as `torch.compile`. False for one that cannot be followed.
    """
    defined = _definitions(tree)
    entry = next((defined[name] for name in entries if name in defined), None)
    return set(wanted) <= _parameters(entry, defined, MAX_STEPS)


def _definitions(tree: ast.Module) -> Mapping[str, ast.AST]:
    """Return what the names of a module are bound to; the last binding of each counts."""
    defined: dict[str, ast.AST] = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            defined[node.name] = node
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    defined[target.id] = node.value
    return defined


def _parameters(node: ast.AST | None, defined: Mapping[str, ast.AST], steps: int) -> set[str]:
    if not steps:
        return set()
    match node:
        case ast.FunctionDef(args=args) | ast.Lambda(args=args):
            return {each.arg for each in (*args.posonlyargs, *args.args, *args.kwonlyargs)}
        case ast.ClassDef(body=body):
            methods = {each.name: each for each in body if isinstance(each, ast.FunctionDef)}
            return _parameters(methods.get("forward"), defined, steps - 1)
        case ast.Name(id=name):
            return _parameters(defined.get(name), defined, steps - 1)
        case ast.Call(func=ast.Name(id=name)) if isinstance(defined.get(name), ast.ClassDef):
            return _parameters(defined[name], defined, steps - 1)
        case ast.Call(args=[first, *_]):
            return _parameters(first, defined, steps - 1)
    return set()
