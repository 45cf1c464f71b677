"""Static analysis of Python source: syntax, imports, calls and assignments.

A trick is `Rejected`. What is harmless passes, and what cannot be judged is `Unsupported`.
"""

from __future__ import annotations

import ast
import functools
import io
import itertools
import tokenize
from collections.abc import Iterator, Mapping

from evaluation.code.building.import_rules import (
    FILES,
    MACHINE,
    from_torch,
    is_honest,
    is_inert,
    is_refused,
    is_setting,
    is_trick,
    may_be_imported,
)
from evaluation.errors import Rejected, Unsupported
from evaluation.types import Diagnostic

COMPILE = "torch.compile"
PURE_MODULES = frozenset(
    "__future__ abc collections contextlib dataclasses enum functools itertools math numbers"
    " operator typing".split()
)
_CALLS = frozenset(
    "__import__ breakpoint compile delattr eval exec globals input locals open vars".split()
)
_VALUES = frozenset("__import__ eval exec getattr globals open".split())
"""Functions that may not be passed on under another name either."""
_DUNDERS = frozenset(
    "__base__ __bases__ __builtins__ __class__ __closure__ __code__ __dict__ __getattribute__"
    " __globals__ __import__ __loader__ __mro__ __self__ __spec__ __subclasses__ __traceback__"
    " with_traceback gi_frame cr_frame ag_frame f_back f_globals f_locals f_builtins tb_frame"
    " tb_next _getframe".split()
)
_NEVER = frozenset("builtins ctypes importlib os posix shutil socket subprocess sys".split())
"""Those that are refused as an attribute of anything, which may be a module by another name."""
MAX_PATH = 200
"""Characters of a dotted name that are read; all names in the rules are shorter."""
MAX_NODES = 300_000
"""Nodes of a syntax tree: each is visited several times, outside the sandbox."""
MAX_QUOTED = 120
BYTE_ORDER_MARK = "\ufeff"
"""Some editors begin a file with it; Python and the compilers of C++ leave it out."""
MAX_PARSES = 5


class Source:
    """One parsed file, without its self-test: the body of `if __name__ == "__main__"`.

    `tree` is empty where its syntax is wrong, which the build reports, and where it is `unread`.
    """

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.encoding = _encoding(text)
        self.text = text = text.removeprefix(BYTE_ORDER_MARK)
        self.tree = ast.Module([], [])
        self.unread = ""
        """Why the analysis does not read it."""
        try:
            self.tree = _without_self_test(_parsed(text))
        except (RecursionError, MemoryError):
            self.unread = "nested too deeply to be read; write it in several statements"
        except (SyntaxError, ValueError):
            pass
        found = (node for node in ast.walk(self.tree) if not isinstance(node, ast.expr_context))
        self.nodes = list(itertools.islice(found, MAX_NODES + 1))
        if len(self.nodes) > MAX_NODES:
            self.unread = f"more than {MAX_NODES:,} expressions and statements; write fewer"
            self.tree, self.nodes = ast.Module([], []), []
        self.modules = dict(pair for node in self.nodes for pair in bound_by_import(node))
        self._paths: dict[ast.AST, str] = {}
        self._texts: dict[ast.AST, str] = {}
        self._of_modules: set[ast.AST] = set()
        self._names: dict[str, str] = {}
        for node in reversed(self.nodes):  # inner ones first, so that each is resolved once
            self._resolve(node)
        if renamed := self._renamed():
            self._names = renamed
            for node in reversed(self.nodes):
                self._resolve(node)

    def _renamed(self) -> dict[str, str]:
        """Return the names that assignments bind to a module or a name of one: `t = torch`."""
        found: dict[str, str] = {}
        for node in self.nodes:
            if isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr) and node.value:
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                for target in targets:
                    if node.value in self._of_modules and isinstance(target, ast.Name):
                        found.setdefault(target.id, self.path(node.value))
        return found

    def _resolve(self, node: ast.AST) -> None:
        """Add the dotted name or the string of a node, from those of its parts."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            self._texts[node] = node.value[:MAX_PATH]
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            left, right = self._texts.get(node.left), self._texts.get(node.right)
            if left is not None and right is not None:
                self._texts[node] = (left + right)[:MAX_PATH]
        elif isinstance(node, ast.Name):
            path = self.modules.get(node.id) or self._names.get(node.id, node.id)
            self._paths[node] = path[:MAX_PATH]
            if node.id in self.modules:
                self._of_modules.add(node)
        elif isinstance(node, ast.Attribute | ast.Subscript):
            self._resolve_part(node, node.value, getattr(node, "attr", ""))
        elif isinstance(node, ast.Call) and (name := self.attribute(node)):
            self._resolve_part(node, node.args[0], name)

    def _resolve_part(self, node: ast.AST, of: ast.AST, name: str) -> None:
        if of in self._of_modules:
            self._of_modules.add(node)
        path = self._paths.get(of, "")
        if path and name:
            whole = path if len(path) == MAX_PATH else f"{path}.{name}"
            self._paths[node] = from_torch(whole)[:MAX_PATH]

    def reject(self, node: ast.AST, rule: str, message: str) -> Rejected:
        return Rejected(rule, f"{self.name}:{getattr(node, 'lineno', 1)}: {message}")

    def unsupported(self, node: ast.AST, message: str) -> Unsupported:
        return Unsupported(f"{self.name}:{getattr(node, 'lineno', 1)}: {message}")

    def quote(self, node: ast.AST) -> str:
        """Return the text of an expression, shortened in the middle where it is long."""
        text = " ".join((ast.get_source_segment(self.text, node) or "").split())
        half = MAX_QUOTED // 2
        return text if len(text) <= MAX_QUOTED else f"{text[:half]} ... {text[-half:]}"

    def path(self, node: ast.AST) -> str:
        """Return the dotted name of an expression: `F.relu` -> `torch.nn.functional.relu`.

        Of a long one the first MAX_PATH characters.
        """
        return self._paths.get(node, "")

    def spelled(self, node: ast.AST) -> str:
        """Return a string constant, also one joined by `+`; the first MAX_PATH characters."""
        return self._texts.get(node, "")

    def attribute(self, node: ast.AST) -> str:
        """Return the name of an attribute: `a.name` or `getattr(a, "name")`; empty for others."""
        if isinstance(node, ast.Attribute):
            return node.attr
        if isinstance(node, ast.Call) and self.path(node.func) == "getattr" and node.args[1:]:
            return self.spelled(node.args[1])
        return ""

    def uses(self, path: str) -> bool:
        """Return whether the source uses or imports the dotted name."""
        named = {self.path(node) for node in self.nodes if isinstance(node, ast.Attribute)}
        return path in named or any(path in dict(_imported_by(node)) for node in self.nodes)

    def uses_of(self, node: ast.AST, name: str) -> list[str] | None:
        """Return the dotted names that are used of what an import binds to `name`.

        None where they cannot be known.
        """
        if name == "*" or name.startswith("_") or self._in_class(node):
            return None
        found = [use for use in self.nodes if isinstance(use, ast.Name) and use.id == name]
        return [self.path(self._whole(use)) for use in found]

    def _whole(self, node: ast.AST) -> ast.AST:
        """Return the longest chain of attributes that begins with a node."""
        while isinstance(parent := self._parents.get(node), ast.Attribute):
            node = parent
        return node

    def _in_class(self, node: ast.AST) -> bool:
        """Return whether a node is within a class, whose attributes are found by any name."""
        while parent := self._parents.get(node):
            if isinstance(parent, ast.ClassDef):
                return True
            node = parent
        return False

    @functools.cached_property
    def _parents(self) -> dict[ast.AST, ast.AST]:
        return {child: node for node in self.nodes for child in ast.iter_child_nodes(node)}

    def of_module(self, node: ast.AST) -> bool:
        """Return whether an expression is an imported module or an attribute of one."""
        return node in self._of_modules


def check_source(
    source: Source, modules: frozenset[str], exempt: frozenset[str] = frozenset()
) -> None:
    """Check imports beyond `modules`, calls that run or open things, and patching.

    Names in `exempt` may be imported and used, unless a package above them is refused.

    Raises: Rejected for a trick; Unsupported, if there is none, for what cannot be judged.
    """
    if source.encoding not in ("utf-8", "utf-8-sig"):
        raise source.reject(source.tree, "encoding", f"{source.encoding}; a source is UTF-8")
    if source.unread:
        raise source.unsupported(source.tree, source.unread)
    called = {node.func for node in source.nodes if isinstance(node, ast.Call)}
    unsupported: Unsupported | None = None
    for node in source.nodes:
        for path, name in _imported_by(node):
            if path not in exempt and not may_be_imported(path, modules):
                found = _judged_import(source, node, name, path, modules, exempt)
                unsupported = unsupported or found
        if violation := _violation(source, node, exempt):
            raise source.reject(node, *violation)
        if isinstance(node, ast.Name) and node.id in _VALUES and node not in called:
            raise source.reject(node, "call", f"`{node.id}` has no place in a kernel")
        if not unsupported and _is_unsupported(source, node, exempt):
            message = f"`{source.path(node)}` is not supported here; write it without"
            unsupported = source.unsupported(node, message)
    if unsupported:
        raise unsupported


def _judged_import(
    source: Source,
    node: ast.AST,
    name: str,
    path: str,
    modules: frozenset[str],
    exempt: frozenset[str],
) -> Unsupported | None:
    """Return the error for an import beyond `modules` of `path` as `name`; None for a harmless one.

    Raises: Rejected for a trick.
    """
    uses = source.uses_of(node, name)
    if uses == [] and is_inert(path):
        return None
    allowed = ", ".join(sorted(modules - {"__future__"}))
    # A name that `import a.b` gives is `a` alone.
    used = [*(uses or [path]), *([path] if "." in path else [])]
    beyond = [use for use in used if use not in exempt and not may_be_imported(use, modules)]
    if not beyond:
        return None
    for use in beyond:
        if is_trick(use, modules):
            message = f"`{path[:MAX_PATH]}` may not be imported here; these may: {allowed}"
            raise source.reject(node, "import", message)
    shown = beyond[0][:MAX_PATH]
    return source.unsupported(
        node, f"`{shown}` is not supported here; write it without. These may be imported: {allowed}"
    )


def _is_unsupported(source: Source, node: ast.AST, exempt: frozenset[str]) -> bool:
    """Return whether a node uses an unsupported part of an allowed module."""
    path = source.path(node) if source.attribute(node) else ""
    return bool(path) and path not in exempt and is_refused(path) and is_honest(path)


def _violation(source: Source, node: ast.AST, exempt: frozenset[str]) -> tuple[str, str] | None:
    """Return the rule that a node breaks, and a message; None where it breaks none."""
    if isinstance(node, ast.Call):
        function = node.func
        if isinstance(function, ast.Name) and function.id in _CALLS:
            return "call", f"`{function.id}(...)` has no place in a kernel"
        of_module = any(map(source.of_module, node.args[:1]))
        if source.path(function) == "setattr" and of_module:
            return "patching", f"`{source.quote(node.args[0])}` is not yours to change"
        if source.path(function) == "getattr" and of_module and not source.attribute(node):
            return "introspection", f"`{source.quote(node)}` hides its name; write it as it is"
    names = [source.attribute(node) or source.spelled(node)]
    if isinstance(node, ast.MatchClass):
        names = node.kwd_attrs
    elif isinstance(node, ast.Name):
        names = [node.id]
    for name in names:
        if name in _DUNDERS:
            return "introspection", f"`{name}` has no place in a kernel"
        of_any = source.attribute(node) or isinstance(node, ast.MatchClass)
        if name in FILES or (of_any and name.strip("_") in _NEVER):
            return "introspection", f"`{source.quote(node) or name}` is not for kernels"
    if name := source.attribute(node):
        if name.strip("_") in MACHINE and source.of_module(node):
            return "introspection", f"`{source.quote(node)}` is not for kernels"
        path = source.path(node)
        if path not in exempt and is_refused(path) and not is_honest(path):
            return "call", f"`{path}` has no place in a kernel"
    if (
        isinstance(node, ast.Attribute | ast.Subscript)
        and not isinstance(node.ctx, ast.Load)
        and source.of_module(node)
        and not is_setting(source.path(node.value))
    ):
        return "patching", f"`{source.quote(node)}` is not yours to change"
    return None


def syntax_errors(files: Mapping[str, str]) -> tuple[Diagnostic, ...]:
    """Return the syntax errors of each file; nothing is run."""
    found = []
    for name, text in files.items():
        try:
            compile(text.removeprefix(BYTE_ORDER_MARK), name, "exec", dont_inherit=True)
        except SyntaxError as error:
            found.append(Diagnostic(name, error.lineno or 1, "error", error.msg))
        except (ValueError, RecursionError, MemoryError) as error:
            found.append(Diagnostic(name, 1, "error", f"cannot be compiled: {error}"))
    return tuple(found)


def _parsed(text: str) -> ast.Module:
    """Return the syntax tree of `text`, as `ast.parse` does.

    Python 3.11 counts the depth of all threads' trees together and raises SystemError where two
    threads parse at once, such as this one and the one that imports PyTorch.
    """
    for _ in range(MAX_PARSES - 1):
        try:
            return ast.parse(text)
        except SystemError:
            pass
    return ast.parse(text)


def _encoding(text: str) -> str:
    """Return the encoding in which Python reads a file of this text.

    A comment can name another encoding, in which the text is another program.
    """
    try:
        return tokenize.detect_encoding(io.BytesIO(text.encode(errors="replace")).readline)[0]
    except SyntaxError as error:
        return str(error)


def bound_by_import(node: ast.AST) -> Iterator[tuple[str, str]]:
    """Return the local names that an import binds, and the dotted names they stand for."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            full = alias.name if alias.asname else alias.name.partition(".")[0]
            yield alias.asname or full, full
    elif isinstance(node, ast.ImportFrom):
        for alias in node.names:
            yield alias.asname or alias.name, f"{node.module}.{alias.name}"


def _imported_by(node: ast.AST) -> list[tuple[str, str]]:
    """Return the dotted names that an import has, each with the local name that it binds."""
    if isinstance(node, ast.Import):
        return [(alias.name, alias.asname or alias.name.partition(".")[0]) for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        module = f"{'.' * node.level}{node.module or ''}"
        return [(f"{module}.{alias.name}", alias.asname or alias.name) for alias in node.names]
    return []


def _without_self_test(tree: ast.Module) -> ast.Module:
    """Return a module without what only its own `python FILE` would run.

    It is left as it is where it binds `__name__` itself.
    """
    if any(map(_is_of_main, tree.body)) and not any(map(_binds_name, ast.walk(tree))):
        parts = [
            statement.orelse
            if isinstance(statement, ast.If) and _is_of_main(statement)
            else [statement]
            for statement in tree.body
        ]
        tree.body = [statement for part in parts for statement in part]
    return tree


def _is_of_main(node: ast.AST) -> bool:
    """Return whether a node is `if __name__ == "__main__"`, with or without further conditions."""
    if isinstance(node, ast.If):
        return _is_of_main(node.test)
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And):
        return _is_of_main(node.values[0])
    if not (isinstance(node, ast.Compare) and [type(op) for op in node.ops] == [ast.Eq]):
        return False
    sides = node.left, node.comparators[0]
    return any(
        (getattr(name, "id", ""), getattr(text, "value", "")) == ("__name__", "__main__")
        for name, text in (sides, sides[::-1])
    )


def _binds_name(node: ast.AST) -> bool:
    """Return whether a node may give `__name__` another value."""
    if isinstance(getattr(node, "ctx", None), ast.Load):
        return False
    values = [value for _, value in ast.iter_fields(node)]
    return "__name__" in values or any(
        isinstance(value, list) and "__name__" in value for value in values
    )


def uses_compile(files: Mapping[str, str]) -> bool:
    """Return whether one of these sources uses `torch.compile`."""
    return any(Source(name, text).uses(COMPILE) for name, text in files.items())


def uses_triton(files: Mapping[str, str]) -> bool:
    """Return whether one of these sources imports Triton."""
    sources = (Source(name, text) for name, text in files.items())
    modules = (module for source in sources for module in source.modules.values())
    return any(module.partition(".")[0] == "triton" for module in modules)
