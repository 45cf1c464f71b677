"""UNTRUSTED: integer constants of a problem file, and the file with other values of them."""

from __future__ import annotations

import ast
import symtable
from collections.abc import Collection, Iterator, Mapping
from types import CodeType

GENERATORS = ("get_inputs", "get_init_inputs")


class Constants:
    """The integers that a file assigns once at its top, and uses in its input functions alone.

    Integers written inside `get_inputs` and `get_init_inputs` are constants, too, named `size_1`
    and so on. Equal ones are one constant.
    """

    def __init__(self, source: str) -> None:
        self.source = source
        self.tree = _named(ast.parse(source))
        self.functions = {
            node.name: node for node in self.tree.body if isinstance(node, ast.FunctionDef)
        }
        inside = _used_inside(source)
        assigned: dict[str, list[ast.Assign]] = {}
        for node in self.tree.body:
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    for name in _names(target):
                        assigned.setdefault(name, []).append(node)
        self._of = {
            name: nodes[0]
            for name, nodes in assigned.items()
            if len(nodes) == 1
            and isinstance(nodes[0].targets[0], ast.Name)
            and len(nodes[0].targets) == 1
            and not any(isinstance(child, ast.Call) for child in ast.walk(nodes[0].value))
        }
        self._inside = inside

    def values(self, namespace: Mapping[str, object]) -> dict[str, int]:
        """Return the constants with the values that they have in a namespace of the file."""
        found = {}
        for name, node in self._of.items():
            value = namespace.get(name)
            own = {n for n in _names(node.value) if n in self._of}
            if type(value) is int and value > 0 and not own and not self._reaches(name):
                found[name] = value
        return found

    def _reaches(self, name: str) -> bool:
        """Return whether a constant, or one made of it, is used in a class or other function."""
        return bool(self._inside & {name, *self.made_of({name})})

    def made_of(self, names: Collection[str]) -> list[str]:
        """Return the names whose assignments use some names, in order of the file."""
        known, found = set(names), []
        for name, node in self._of.items():
            if name not in known and known & set(_names(node.value)):
                known.add(name)
                found.append(name)
        return found

    def compiled(self, values: Mapping[str, int]) -> CodeType:
        """Return the code of the file with other values of constants."""
        old = {name: self._of[name].value for name in values}
        try:
            for name, value in values.items():
                self._of[name].value = ast.copy_location(ast.Constant(value), old[name])
            return compile(ast.fix_missing_locations(self.tree), "problem.py", "exec")
        finally:
            for name, node in old.items():
                self._of[name].value = node

    def used_by(self, function: str, names: Collection[str]) -> list[str]:
        """Return those of the names that a function needs, directly or by others made of them."""
        used = set(_names(self.functions[function]))
        needed = []
        for name in names:
            if used & {name, *self.made_of({name})}:
                needed.append(name)
        return needed

    def body(self, function: str, names: Collection[str]) -> list[str]:
        """Return the lines of a function, after what the file makes of the named constants."""
        used = set(_names(self.functions[function]))
        made = self.made_of(names)
        used |= {n for m in made for n in _names(self._of[m].value)}
        lines = [ast.unparse(self._of[name]) for name in made if name in used]
        body = self.functions[function].body
        if isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
            body = body[1:]
        return [*lines, *(line for node in body for line in ast.unparse(node).splitlines())]

    def added(self, names: Collection[str]) -> list[str]:
        """Return assignments of the constants that stand for literals and do not vary."""
        own = [n for n in self._of if n.startswith(PREFIX) and n not in names]
        return [ast.unparse(self._of[name]) for name in own]


PREFIX = "size_"


def _named(tree: ast.Module) -> ast.Module:
    """Give names to the integers inside the input functions."""
    tree.body = [single for node in tree.body for single in _single(node)]
    taken = {name for node in ast.walk(tree) for name in _names(node)}
    known: dict[int, str] = {}

    class Naming(ast.NodeTransformer):
        def visit_Constant(self, node: ast.Constant) -> ast.expr:
            if type(node.value) is not int or node.value < 16:
                return node
            if node.value not in known:
                number = len(known) + 1
                while f"{PREFIX}{number}" in taken:
                    number += 1
                taken.add(f"{PREFIX}{number}")
                known[node.value] = f"{PREFIX}{number}"
            return ast.copy_location(ast.Name(known[node.value], ast.Load()), node)

    for node in tree.body:
        generates = isinstance(node, ast.FunctionDef) and node.name in GENERATORS
        listed = isinstance(node, ast.Assign) and isinstance(node.value, ast.Tuple | ast.List)
        if generates or listed:
            Naming().visit(node)
    added: list[ast.stmt] = [
        ast.Assign([ast.Name(name, ast.Store())], ast.Constant(value))
        for value, name in known.items()
    ]
    after = (ast.FunctionDef, ast.Assign)
    first = next((n for n, node in enumerate(tree.body) if isinstance(node, after)), 0)
    tree.body[first:first] = added
    return ast.fix_missing_locations(tree)


def _single(node: ast.stmt) -> list[ast.stmt]:
    """Return `a = 256` and `b = 256` for `a = b = 256`: each is a constant of its own.

    `a, b = 64, 192` becomes `a = 64` and `b = 192`.
    """
    match node:
        case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)) if (
            len(names) == len(values)
            and all(isinstance(name, ast.Name) for name in names)
            and all(isinstance(value, ast.Constant) for value in values)
        ):
            pairs = zip(names, values, strict=True)
            return [ast.copy_location(ast.Assign([name], value), node) for name, value in pairs]
    if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Constant):
        return [node]
    value = node.value.value
    return [ast.Assign([t], ast.copy_location(ast.Constant(value), node)) for t in node.targets]


def _used_inside(source: str) -> set[str]:
    """Return the names of the file's top that its classes and other functions use."""
    found: set[str] = set()

    def visit(table: symtable.SymbolTable) -> None:
        found.update(s.get_name() for s in table.get_symbols() if s.is_global())
        for child in table.get_children():
            visit(child)

    for child in symtable.symtable(source, "problem.py", "exec").get_children():
        if child.get_name() not in GENERATORS:
            visit(child)
    return found


def _names(node: ast.AST) -> Iterator[str]:
    return (child.id for child in ast.walk(node) if isinstance(child, ast.Name))
