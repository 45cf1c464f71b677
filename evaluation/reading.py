"""What Python source says on its face: syntax, imports, calls, assignments; how it is loaded."""

from __future__ import annotations

import ast
import importlib.util
import io
import linecache
import sys
import tokenize
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from evaluation.errors import Rejected, SubmissionError
from evaluation.types import Diagnostic, Reason

PURE_MODULES = frozenset(
    "__future__ abc collections contextlib dataclasses enum functools itertools math numbers"
    " operator typing".split()
)
_CALLS = frozenset(
    "__import__ breakpoint compile delattr eval exec globals input locals open vars".split()
)
_DUNDERS = frozenset(
    "__builtins__ __class__ __closure__ __code__ __dict__ __getattribute__ __globals__"
    " __loader__ __mro__ __spec__ __subclasses__ gi_frame f_back f_globals f_locals f_builtins"
    " tb_frame _getframe".split()
)
_MACHINE = frozenset(
    "builtins ctypes gc importlib inspect io multiprocessing os pathlib platform shutil socket"
    " subprocess sys tempfile threading traceback warnings weakref".split()
)
"""Modules that an allowed one may have imported, and so has by their names."""
_TORCH_PARTS = frozenset(
    "torch.classes torch.compile torch.distributed torch.export torch.hub torch.jit"
    " torch.library torch.load torch.multiprocessing torch.package torch.save torch.utils"
    " torch.ops.load_library torch.from_file torch.serialization torch._C torch._dynamo"
    " torch._inductor".split()
)


class Source:
    """One parsed file; `tree` is empty where its syntax is wrong, which the build reports."""

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.encoding = _encoding(text)
        try:
            self.tree = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            self.tree = ast.Module([], [])
        self.modules = dict(_imports(self.tree))

    def reject(self, node: ast.AST, rule: str, message: str) -> Rejected:
        return Rejected(rule, f"{self.name}:{getattr(node, 'lineno', 1)}: {message}")

    def path(self, node: ast.AST) -> str:
        """The dotted name an expression spells: `F.relu` -> `torch.nn.functional.relu`."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return ""
        return ".".join([self.modules.get(node.id, node.id), *reversed(parts)])

    def uses(self, path: str) -> bool:
        """Whether it spells the dotted name, or imports it."""
        nodes = list(ast.walk(self.tree))
        named = {self.path(node) for node in nodes if isinstance(node, ast.Attribute)}
        return path in named or any(path in _imported_by(node) for node in nodes)

    def of_module(self, node: ast.AST) -> bool:
        """Whether an expression is an imported module or something inside one."""
        while isinstance(node, ast.Attribute | ast.Subscript):
            node = node.value
        return isinstance(node, ast.Name) and node.id in self.modules


def refuse_breaches(
    source: Source, modules: frozenset[str], exempt: frozenset[str] = frozenset()
) -> None:
    """Raise Rejected for imports beyond `modules`, calls that run or open things, and patching.

    What is `exempt` may be imported, and used by its dotted name unless what it lies in is refused.
    """
    if source.encoding != "utf-8":
        raise source.reject(source.tree, "encoding", f"{source.encoding}; a source is UTF-8")
    for node in ast.walk(source.tree):
        for module in _imported_by(node):
            if module in exempt:
                continue
            if module.partition(".")[0] not in modules or _within(module, _TORCH_PARTS):
                known = ", ".join(sorted(modules - {"__future__"}))
                raise source.reject(
                    node, "import", f"`{module}` may not be imported here; these may: {known}"
                )
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in _CALLS
        ):
            raise source.reject(node, "call", f"`{node.func.id}(...)` has no place in a kernel")
        if (
            isinstance(node, ast.Call)
            and source.path(node.func) == "setattr"
            and source.of_module(node.args[0])
        ):
            raise source.reject(
                node, "patching", f"`{source.path(node.args[0])}` is not yours to change"
            )
        if isinstance(node, ast.Attribute) and node.attr in _DUNDERS:
            raise source.reject(node, "introspection", f"`.{node.attr}` has no place in a kernel")
        if isinstance(node, ast.Attribute) and node.attr in _MACHINE and source.of_module(node):
            raise source.reject(node, "introspection", f"`{ast.unparse(node)}` is not for kernels")
        path = source.path(node) if isinstance(node, ast.Attribute) else ""
        if path not in exempt and _within(path, _TORCH_PARTS):
            raise source.reject(node, "call", f"`{path}` has no place in a kernel")
        changed = isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(
            node.ctx, ast.Load
        )
        if changed and source.of_module(node):
            raise source.reject(node, "patching", f"`{ast.unparse(node)}` is not yours to change")


def syntax_errors(files: Mapping[str, str]) -> tuple[Diagnostic, ...]:
    """What the Python compiler says of each file; nothing is run."""
    found = []
    for name, text in files.items():
        try:
            compile(text, name, "exec", dont_inherit=True)
        except SyntaxError as error:
            found.append(Diagnostic(name, error.lineno or 1, "error", error.msg))
        except (ValueError, RecursionError, MemoryError) as error:
            found.append(Diagnostic(name, 1, "error", f"cannot be compiled: {error}"))
    return tuple(found)


def load_module(path: Path) -> ModuleType:
    """Run a file as a private module; whatever it raises comes through."""
    spec = importlib.util.spec_from_file_location(f"_candidate_{path.stem}", path)
    assert spec is not None and spec.loader is not None, f"{path} is no Python file"
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    linecache.checkcache(str(path))
    spec.loader.exec_module(module)
    return module


def load_function(path: Path, entry: str) -> Callable[..., Any]:
    """Run a file as a private module and return its function `entry`.

    Raises SubmissionError(MISSING_ENTRY) without one; whatever the file raises comes through.
    """
    function = getattr(load_module(path), entry, None)
    if not callable(function):
        raise SubmissionError(
            Reason.MISSING_ENTRY, f"no function `{entry}` in {path.name}; define it"
        )
    loaded: Callable[..., Any] = function
    return loaded


def _encoding(text: str) -> str:
    """The encoding that Python would read a file of this text in: a comment may name another, in
    which it is another program.
    """
    try:
        return tokenize.detect_encoding(io.BytesIO(text.encode(errors="replace")).readline)[0]
    except SyntaxError as error:
        return str(error)


def _imports(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Local names that imports bind, and what each stands for."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                full = alias.name if alias.asname else alias.name.partition(".")[0]
                yield alias.asname or full, full
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield alias.asname or alias.name, f"{node.module}.{alias.name}"


def _imported_by(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [f"{'.' * node.level}{node.module or ''}.{alias.name}" for alias in node.names]
    return []


def _within(path: str, parts: frozenset[str]) -> bool:
    return any(path == part or path.startswith(f"{part}.") for part in parts)
