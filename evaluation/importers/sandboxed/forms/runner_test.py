"""UNTRUSTED: the test of a task runner, as a generator of inputs and a reference.

The test loops over configurations. What stands before the call of the kernel makes the inputs, and
what stands after it makes the values that the results are compared with.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeGuard

from evaluation.importers.placeless import loaded
from evaluation.importers.runner_part import TEST, renamed
from evaluation.importers.sandboxed.observation import Unsupported

MODULE = "mod"
"""Name of the kernel's module in a test."""
CHECKS = ("torch.allclose", "torch.equal")
DRAWS = ("rand", "randn", "randint", "randperm", "rand_like", "randn_like")
LIKE = ("zeros_like", "empty_like", "full_like", "ones_like")
"""Functions whose results do not depend on the values of an argument."""
NUMBERS = (int, float, str, type(None))
MAX_DEPTH = 3
"""Depth of calls that are written out."""


class RunnerTest:
    """The parts of a test, for each configuration.

    Raises: Unsupported.
    """

    def __init__(self, source: str) -> None:
        body = ast.parse(source).body
        self.functions = {n.name: n for n in body if isinstance(n, ast.FunctionDef)}
        self._lists = {
            t.id: n.value for n in body if isinstance(n, ast.Assign) for t in n.targets
            if isinstance(t, ast.Name) and isinstance(n.value, ast.List | ast.Tuple)
        }  # fmt: skip
        test = self.functions[TEST].body
        loops = [node for node in test if isinstance(node, ast.For)]
        if not loops:
            raise Unsupported("its test has no loop over configurations")
        self._loop = loops[0]
        before = test[: test.index(self._loop)]
        self._prefix: list[ast.stmt] = [n for n in before if isinstance(n, ast.Assign)]

    def configurations(self) -> Iterator[Mapping[str, object]]:
        """Yield the values of the loop's variables."""
        where, target = self._loop.iter, self._loop.target
        text = ast.unparse(where)
        numbered = text.startswith("enumerate(")
        given = where.args[0] if numbered and isinstance(where, ast.Call) else where
        name = ast.unparse(given)
        if name not in self._lists:
            raise Unsupported(f"its test loops over {text[:60]}")
        for number, value in enumerate(ast.literal_eval(self._lists[name])):
            yield _bound(target, (number, value) if numbered else value)

    def parts(self, configuration: Mapping[str, object]) -> Parts:
        """Return the parts of one configuration. Raises Unsupported."""
        return Parts(self, configuration, self._prefix, self._loop.body)

    def drawn(self, node: ast.AST) -> bool:
        """Return whether a statement draws, itself or by a function that it calls."""
        for child in ast.walk(node):
            if isinstance(child, ast.Call):
                called = ast.unparse(child.func)
                if called.removeprefix("torch.") in DRAWS or called.endswith("_("):
                    return True
                if called in self.functions and self.drawn(self.functions[called]):
                    return True
        return False

    def literal(self, node: ast.expr, values: Mapping[str, object]) -> object:
        """Return the value of a constant, or of an item of a list. Raises ValueError."""
        if isinstance(node, ast.Subscript) and ast.unparse(node.value) in self._lists:
            at = node.slice
            index = values[at.id] if isinstance(at, ast.Name) and at.id in values else None
            if isinstance(index, int):
                return ast.literal_eval(self._lists[ast.unparse(node.value)])[index]
        if isinstance(node, ast.Name) and node.id in values:
            return values[node.id]
        return ast.literal_eval(node)


class Parts:
    """Statements of one configuration.

    `constants` are its numbers, and `renamed` its functions with other names. `inputs` are the
    statements that make inputs, and `reference` those that make the `expected` variables.
    """

    def __init__(
        self,
        test: RunnerTest,
        configuration: Mapping[str, object],
        prefix: Sequence[ast.stmt],
        loop: Sequence[ast.stmt],
    ) -> None:
        self._test = test
        self.constants = dict(configuration)
        self.renamed = renamed(test.functions)
        self._packs: dict[str, list[ast.expr]] = {}
        self._named_packs: dict[str, dict[str, ast.expr]] = {}
        statements = list(_flat(copy.deepcopy(list(loop))))
        at = next((n for n, s in enumerate(statements) if _kernel_call(s)), None)
        if at is None:
            raise Unsupported("its test does not call the kernel in its loop")
        again = [node for node in statements[at + 1 :] if test.drawn(node)]
        before = self._written_out([*statements[:at], *again], MAX_DEPTH)
        before = [self._unpacked(node) for node in self._hoisted(before)]
        after = [self._unpacked(node) for node in statements[at:] if node not in again]
        if any(MODULE in loaded(node) for node in (*prefix, *before)):
            raise Unsupported("its inputs depend on the module of the kernel")
        self.expected = self._expected(after)
        moved = [node for node in before if self._belongs_to_reference(node, before)]
        self.prefix = [copy.deepcopy(node) for node in prefix]
        self.inputs = [*self.prefix, *(node for node in before if node not in moved)]
        kept = [
            node for node in after
            if not _ends(node) and not isinstance(node, ast.Assert) and MODULE not in loaded(node)
        ]  # fmt: skip
        self.reference = [*self.prefix, *moved, *kept]

    def _belongs_to_reference(self, node: ast.stmt, before: Sequence[ast.stmt]) -> bool:
        """Return whether a statement before the call copies a tensor, or is of the reference."""
        if not isinstance(node, ast.Assign | ast.Expr) or self._test.drawn(node):
            return False
        text = ast.unparse(node.value)
        calls = any(f"{name}(" in text for name in self._test.functions if "ref" in name)
        stored = set(loaded(node, stored=True))
        used = {n for other in before if other is not node for n in loaded(other)}
        copies = text.endswith(".clone()") and not stored & used
        return calls or copies or bool(stored & set(self.expected))

    def _written_out(self, statements: Iterable[ast.stmt], depth: int) -> list[ast.stmt]:
        """Return statements with the bodies of drawing functions in the place of their calls."""
        found: list[ast.stmt] = []
        for node in statements:
            call = node.value if isinstance(node, ast.Assign) else None
            name = ast.unparse(call.func) if isinstance(call, ast.Call) else ""
            function = self._test.functions.get(name)
            if not function or not self._test.drawn(function) or not depth:
                found.append(node)
                continue
            assert isinstance(node, ast.Assign) and isinstance(call, ast.Call)
            *body, last = [n for n in _flat(copy.deepcopy(function.body)) if not _is_text(n)]
            if not isinstance(last, ast.Return) or last.value is None:
                raise Unsupported(f"{name}() does not return at its end")
            given = [*_arguments(function, call), *body, *_each(node.targets[0], last.value)]
            found += self._written_out([n for n in given if not _same(n)], depth - 1)
        for node in found:
            ast.fix_missing_locations(node)
        return found

    def _hoisted(self, statements: Sequence[ast.stmt]) -> list[ast.stmt]:
        """Return statements without those that assign constants, which are kept as such."""
        stored = [name for node in statements for name in loaded(node, stored=True)]
        found = []
        for node in statements:
            if isinstance(node, ast.Assign) and len(node.targets) == 1:
                try:
                    new = _bound(node.targets[0], self._test.literal(node.value, self.constants))
                except (ValueError, TypeError, IndexError, Unsupported):
                    new = {}
                numbers = all(isinstance(v, NUMBERS) for v in new.values())
                if new and numbers and all(stored.count(name) == 1 for name in new):
                    self.constants |= new
                    continue
                self._note_packs(node)
            found.append(node)
        return found

    def _note_packs(self, node: ast.Assign) -> None:
        """Note variables that hold several values."""
        targets, values = [node.targets[0]], [node.value]
        if isinstance(targets[0], ast.Tuple) and isinstance(values[0], ast.Tuple):
            targets, values = targets[0].elts, values[0].elts
        for target, value in zip(targets, values, strict=False):
            if not isinstance(target, ast.Name):
                continue
            if isinstance(value, ast.Tuple):
                self._packs[target.id] = value.elts
            elif isinstance(value, ast.Dict) and all(
                isinstance(k, ast.Constant) for k in value.keys
            ):
                keys = [k.value for k in value.keys if isinstance(k, ast.Constant)]
                self._named_packs[target.id] = dict(zip(map(str, keys), value.values, strict=True))
            elif (other := ast.unparse(value)).startswith("tuple("):
                own = [name for name in self._packs if f" in {name})" in other]
                if own:
                    self._packs[target.id] = self._packs[own[0]]

    def _unpacked(self, node: ast.stmt) -> ast.stmt:
        """Return a statement with the parts of packs in the place of `*args` and `args[0]`."""
        packs, named = self._packs, self._named_packs

        class Unpacking(ast.NodeTransformer):
            def visit_Call(self, call: ast.Call) -> ast.expr:
                self.generic_visit(call)
                call.args = [
                    copy.deepcopy(x) for each in call.args
                    for x in (packs.get(ast.unparse(each)[1:], [each])
                              if isinstance(each, ast.Starred) else [each])
                ]  # fmt: skip
                call.keywords = [
                    k for each in call.keywords
                    for k in ([ast.keyword(n, v) for n, v in named[ast.unparse(each.value)].items()]
                              if each.arg is None and ast.unparse(each.value) in named else [each])
                ]  # fmt: skip
                return call

            def visit_Subscript(self, item: ast.Subscript) -> ast.expr:
                self.generic_visit(item)
                name, at = ast.unparse(item.value), item.slice
                if isinstance(item.ctx, ast.Load) and isinstance(at, ast.Constant):
                    if name in packs and isinstance(at.value, int):
                        return copy.deepcopy(packs[name][at.value])
                    if name in named and at.value in named[name]:
                        return copy.deepcopy(named[name][str(at.value)])
                return item

        text, _, value = ast.unparse(node).partition(" = ")
        if text in packs and value.startswith("tuple("):
            return ast.Pass()
        new: ast.stmt = Unpacking().visit(node)
        return ast.fix_missing_locations(new)

    def _expected(self, after: Sequence[ast.stmt]) -> list[str]:
        """Return the variables that the results are compared with. Raises Unsupported."""
        checks = [
            node for statement in after for node in ast.walk(statement)
            if _is_check(node)
        ]  # fmt: skip
        sides = [[_root(side) for side in check.args[:2]] for check in checks]
        kernel = after[0]
        tainted = set(loaded(kernel, stored=True))
        if not tainted:
            call = next(n for n in ast.walk(kernel) if _is_kernel_call(n))
            tainted = {n for check in checks for n in loaded(check)} & set(loaded(call))
        made: dict[str, set[str]] = {}
        for node in after[1:]:
            if isinstance(node, ast.Assign | ast.AugAssign):
                used = set(_values_used(node.value))
                made |= dict.fromkeys(loaded(node, stored=True), used)
                if tainted & used:
                    tainted |= set(loaded(node, stored=True))
        inner = {
            name: _root(node.value) for statement in after if not isinstance(statement, ast.Assign)
            for node in ast.walk(statement) if isinstance(node, ast.Assign)
            for name in loaded(node, stored=True) if name not in made
        }  # fmt: skip
        zipped = {**inner, **_zipped(after)}
        found: dict[str, None] = {}
        for names in sides:
            roots = [zipped.get(name, name) for name in names]
            clean = [n for n in roots if n and n not in tainted] or [n for n in roots if n in made]
            if clean:
                found[clean[-1]] = None
        chosen = [n for n in found if not made.get(n, set()) & (found.keys() - {n})]
        if not chosen:
            raise Unsupported("its test compares the results with no variable")
        return chosen


def _root(node: ast.AST) -> str:
    """Return the variable that an expression such as `x[:n].float()` is made of."""
    while not isinstance(node, ast.Name):
        match node:
            case ast.Call(func=ast.Attribute(value=inner)) | ast.Attribute(value=inner):
                node = inner
            case ast.Subscript(value=inner) | ast.UnaryOp(operand=inner):
                node = inner
            case _:
                return ""
    return node.id


def _bound(target: ast.expr, value: object) -> dict[str, object]:
    """Return the values of the variables of a target."""
    if isinstance(target, ast.Name):
        return {target.id: value}
    if not isinstance(target, ast.Tuple) or not isinstance(value, tuple | list):
        raise Unsupported("its test unpacks configurations in another way")
    pairs = zip(target.elts, value, strict=True)
    return {n: v for t, x in pairs for n, v in _bound(t, x).items()}


def _flat(statements: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield statements, those of `try` and of a loop around the kernel in their place."""
    for node in statements:
        if isinstance(node, ast.Try | ast.With):
            yield from _flat(node.body)
        elif isinstance(node, ast.For) and _kernel_call(node):
            if not isinstance(node.iter, ast.Tuple | ast.List):
                raise Unsupported("its test calls the kernel in an inner loop")
            yield ast.Assign([node.target], node.iter.elts[0], lineno=node.lineno)
            yield from _flat(node.body)
        else:
            yield node


def _is_kernel_call(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    owner, _, name = ast.unparse(node.func).partition(".")
    return owner == MODULE and not name.startswith("_")


def _kernel_call(statement: ast.stmt) -> bool:
    return any(_is_kernel_call(node) for node in ast.walk(statement))


def _ends(statement: ast.stmt) -> bool:
    """Return whether a statement compares, returns or counts what failed."""
    if isinstance(statement, ast.Return):
        return True
    return any(isinstance(node, ast.Return) or _is_check(node) for node in ast.walk(statement))


def _is_check(node: ast.AST) -> TypeGuard[ast.Call]:
    if not isinstance(node, ast.Call):
        return False
    called = ast.unparse(node.func)
    return called in CHECKS or called.startswith("compare")


def _each(target: ast.expr, value: ast.expr) -> list[ast.stmt]:
    """Return one assignment for each of several targets, where that is the same."""
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        names = [set(loaded(t, stored=True)) for t in target.elts]
        used = [set(loaded(v)) for v in value.elts]
        clash = any(names[n] & set().union(*used[n + 1 :]) for n in range(len(used)))
        if len(names) == len(used) and not clash:
            pairs = zip(target.elts, value.elts, strict=True)
            return [ast.Assign([t], v, lineno=1) for t, v in pairs]
    return [ast.Assign([target], value, lineno=1)]


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _same(node: ast.stmt) -> bool:
    """Return whether a statement assigns a variable to itself."""
    return isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == ast.unparse(node.value)


def _arguments(function: ast.FunctionDef, call: ast.Call) -> list[ast.stmt]:
    """Return assignments of a call's arguments to the parameters of a function."""
    names = [a.arg for a in function.args.args]
    values = dict(zip(names[::-1], function.args.defaults[::-1], strict=False))
    values |= dict(zip(names, call.args, strict=False))
    values |= {k.arg: k.value for k in call.keywords if k.arg}
    values.pop("device", None)
    return [
        ast.Assign([ast.Name(n, ast.Store())], copy.deepcopy(values[n]), lineno=1)
        for n in names if n in values
    ]  # fmt: skip


def _values_used(node: ast.expr) -> Iterator[str]:
    """Yield the names whose values an expression uses, and not their shapes alone."""
    if isinstance(node, ast.Call) and ast.unparse(node.func).removeprefix("torch.") in LIKE:
        return
    if isinstance(node, ast.Attribute) and node.attr in ("shape", "dtype", "device"):
        return
    if isinstance(node, ast.Name):
        yield node.id
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr | ast.keyword):
            yield from _values_used(child.value if isinstance(child, ast.keyword) else child)


def _zipped(statements: Sequence[ast.stmt]) -> dict[str, str]:
    """Return the lists that variables of loops over `zip` run through."""
    found: dict[str, str] = {}
    for statement in statements:
        for node in ast.walk(statement):
            if isinstance(node, ast.For):
                for inner in ast.walk(node.iter):
                    if isinstance(inner, ast.Call) and ast.unparse(inner.func) == "zip":
                        targets = [t for t in ast.walk(node.target) if isinstance(t, ast.Tuple)]
                        found |= {
                            t.id: ast.unparse(given)
                            for t, given in zip(targets[-1].elts, inner.args, strict=False)
                            if isinstance(t, ast.Name)
                        }
                for inner in ast.walk(node):
                    if isinstance(inner, ast.Assign):
                        for name in loaded(inner, stored=True):
                            used = [found[n] for n in loaded(inner.value) if n in found]
                            if used:
                                found[name] = used[0]
    return found
