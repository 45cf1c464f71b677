"""Signature of a Python entry point, read from its source without running it."""

from __future__ import annotations

import ast
from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence

MAX_STEPS = 8
"""Names and calls that are followed from the entry point to its definition."""

Bindings = Mapping[str, Sequence[tuple[int, ast.AST]]]
"""Values that each name is bound to, with the number of the statement, in order."""


def names_all(tree: ast.Module, entries: Collection[str], wanted: Collection[str]) -> bool:
    """Return whether the first entry point that a module defines has all these parameters.

    An entry point is a function, a lambda, a module with `forward`, or a call that wraps one, such
    as `torch.compile`. False for one that cannot be followed.
    """
    bindings = _bindings(tree)
    entry = next((name for name in entries if name in bindings), "")
    return set(wanted) <= _of_name(entry, len(tree.body), bindings, MAX_STEPS)


def _bindings(tree: ast.Module) -> Bindings:
    """Return what a module binds its names to, with the number of each statement."""
    found: dict[str, list[tuple[int, ast.AST]]] = {}
    for number, node in enumerate(tree.body):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.setdefault(node.name, []).append((number, node))
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    found.setdefault(target.id, []).append((number, node.value))
    return found


def _bound(name: str, before: int, bindings: Bindings) -> tuple[int, ast.AST] | None:
    """Return the last binding of a name before a statement: `f = wrap(f)` wraps the one before."""
    known = bindings.get(name, [])
    place = bisect_left(known, before, key=lambda binding: binding[0])
    return known[place - 1] if place else None


def _of_name(name: str, before: int, bindings: Bindings, steps: int) -> set[str]:
    if not (found := _bound(name, before, bindings)):
        return set()
    number, node = found
    return _parameters(node, number, bindings, steps)


def _parameters(node: ast.AST, number: int, bindings: Bindings, steps: int) -> set[str]:
    """Return the parameters of a node in the statement with this number."""
    if not steps:
        return set()
    match node:
        case ast.FunctionDef(args=args) | ast.Lambda(args=args):
            return {each.arg for each in (*args.posonlyargs, *args.args, *args.kwonlyargs)}
        case ast.ClassDef(body=body):
            methods = {each.name: each for each in body if isinstance(each, ast.FunctionDef)}
            forward = methods.get("forward")
            return _parameters(forward, number, bindings, steps - 1) if forward else set()
        case ast.Name(id=name):
            return _of_name(name, number, bindings, steps - 1)
        case ast.Call(func=ast.Name(id=name)) if _is_class(_bound(name, number, bindings)):
            return _of_name(name, number, bindings, steps - 1)
        case ast.Call(args=[first, *_]):
            return _parameters(first, number, bindings, steps - 1)
    return set()


def _is_class(binding: tuple[int, ast.AST] | None) -> bool:
    return binding is not None and isinstance(binding[1], ast.ClassDef)
