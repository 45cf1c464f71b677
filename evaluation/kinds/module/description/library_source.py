"""Source of a class of a library, found by its path: no library is imported."""

from __future__ import annotations

import ast
import builtins
import importlib.metadata
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from evaluation.code.building.static_analysis import PURE_MODULES
from evaluation.errors import TaskError

MODEL = "ModelNew"
ALLOWED = PURE_MODULES | {"torch"}
"""Packages that a candidate imports."""
MAX_DEFINITIONS = 30
"""Definitions that a copy takes along; one that needs more is no file to start from."""
MAX_IMPORTS_FOLLOWED = 5
NOT_COPIED = ("extra_repr", "__repr__", "__setstate__")
"""Methods that change no result."""
SUBSTITUTES = {
    "transformers.activations.ACT2FN": """\
class QuickGELU(torch.nn.Module):
    def forward(self, x):
        return x * torch.sigmoid(1.702 * x)


ACT2FN = {
    "silu": torch.nn.SiLU(),
    "swish": torch.nn.SiLU(),
    "gelu": torch.nn.GELU(),
    "gelu_pytorch_tanh": torch.nn.GELU(approximate="tanh"),
    "quick_gelu": QuickGELU(),
    "relu": torch.nn.ReLU(),
}""",
}
"""Short definitions in place of those that need half of a library."""
_SUM = """

class ModelNew(Part):
    def forward({forward}):
        result = super().forward({names})
        torch.distributed.all_reduce(result)
        return result
"""
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Assign | ast.AnnAssign


class NotPortable(Exception):
    """Raised where a class cannot be copied into one file; the message says why."""


@dataclass(frozen=True)
class LibrarySource:
    """A class of a library: its source, and where it comes from."""

    text: str
    path: str
    """The path of its file, from the folder of packages."""
    library: str
    version: str
    licence: str

    @property
    def annotated(self) -> str:
        """Return the source below a comment with its origin."""
        return (
            f"# From {self.library} {self.version}, {self.path}. Licence: {self.licence}.\n"
            f"# It shows what is replaced. It is not handed in.\n\n\n{self.text}\n"
        )


@dataclass(frozen=True)
class _Module:
    """A parsed file: its top-level definitions, and the dotted paths that its imports stand for."""

    name: str
    path: Path
    text: str
    definitions: dict[str, Definition]
    imports: dict[str, str]

    def class_source(self, node: ast.ClassDef) -> str:
        """Return the source of a class with its decorators."""
        first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
        return textwrap.dedent("\n".join(self.text.splitlines()[first - 1 : node.end_lineno]))


def find(path: str) -> LibrarySource:
    """Return the source of the class at a dotted path. Raises TaskError."""
    module, node = _class(path)
    package = module.name.partition(".")[0]
    about = _metadata(package)
    return LibrarySource(
        text=module.class_source(node),
        path=str(module.path.relative_to(_package(package).parent)),
        library=package,
        version=about["Version"],
        licence=about["License-Expression"] or about["License"] or "see the library",
    )


def version(package: str) -> str:
    """Return the version of an installed package."""
    return str(_metadata(package)["Version"])


@cache
def _metadata(package: str) -> importlib.metadata.PackageMetadata:
    return importlib.metadata.metadata(package)


def signatures(path: str) -> dict[str, str]:
    """Return the parameters of `__init__` and `forward`, as text, where the class defines them."""
    module, node = _class(path)
    found: dict[str, str] = {}
    for each in (node, *_bases(module, node)):
        for method in each.body:
            if isinstance(method, ast.FunctionDef) and method.name in ("__init__", "forward"):
                found.setdefault(method.name, _without_annotations(method.args))
    return found


def copied_rank(path: str) -> str:
    """Return a file with the class for one of several ranks, whose results are added over them.

    Raises: NotPortable, TaskError.
    """
    copy, forward = copied(path), signatures(path)["forward"]
    names = forward.removeprefix("self, ")
    if "*" in names or "=" in names:
        raise NotPortable(f"its forward takes more than positions: {names}")
    part = copy.replace("class ModelNew(", "class Part(")
    part = part.replace("import torch\n", "import torch\nimport torch.distributed\n", 1)
    return part.rstrip("\n") + "\n" + _SUM.format(forward=forward, names=names)


def copied(path: str) -> str:
    """Return a file with the class as `ModelNew`, and all that it needs from its library.

    Raises: NotPortable, TaskError.
    """
    module, node = _class(path)
    copy = _Copy()
    copy.add(module, node.name, node)
    text = copy.text()
    try:
        renamed = ast.parse(text)
    except SyntaxError as error:
        raise NotPortable(f"its copy is not valid Python: {error}") from error
    lines = text.splitlines(keepends=True)
    names = [each for each in ast.walk(renamed) if isinstance(each, ast.Name)]
    places = [
        (each.lineno, each.col_offset) for each in names if each.id == node.name
    ]  # from the end, so that no place moves
    for line, column in sorted(places, reverse=True):
        old = lines[line - 1].encode()
        new = old[:column] + MODEL.encode() + old[column + len(node.name.encode()) :]
        lines[line - 1] = new.decode()
    return "".join(lines).replace(f"class {node.name}", f"class {MODEL}", 1)


class _Copy:
    """Collects definitions and imports for one file."""

    def __init__(self) -> None:
        self._chosen: dict[str, tuple[_Module, Definition]] = {}
        self._order: list[str] = []
        self._imports: dict[str, str] = {}
        self._substitutes: dict[str, str] = {}

    def add(self, module: _Module, name: str, node: Definition) -> None:
        """Add a definition after all that it needs."""
        if name in self._chosen:
            if self._chosen[name][0].name != module.name:
                raise NotPortable(f"two of its definitions are named {name}")
            return
        if len(self._chosen) >= MAX_DEFINITIONS:
            raise NotPortable(f"it needs more than {MAX_DEFINITIONS} definitions of its library")
        self._chosen[name] = module, node
        for used in dict.fromkeys(_used(node)):
            self._add_name(module, used)
        self._order.append(name)

    def _add_name(self, module: _Module, name: str) -> None:
        if name in module.definitions:
            self.add(module, name, module.definitions[name])
        elif name in module.imports:
            self._add_import(name, module.imports[name])
        elif not hasattr(builtins, name):
            raise NotPortable(f"{name} is not defined in {module.name}")

    def _add_import(self, name: str, path: str) -> None:
        if path.partition(".")[0] in ALLOWED:
            if self._imports.setdefault(name, path) != path:
                raise NotPortable(f"{name} stands for two imports")
            return
        if path in SUBSTITUTES:
            self._imports.setdefault("torch", "torch")
            self._substitutes[name] = SUBSTITUTES[path]
            return
        found = _resolved(path)
        if found is None:
            raise NotPortable(f"it needs {path}")
        if found[1] != name:
            raise NotPortable(f"it needs {path} under another name")
        self.add(found[0], name, found[2])

    def text(self) -> str:
        imports = sorted(map(_import_line, self._imports, self._imports.values()))
        head = "\n".join(("from __future__ import annotations", "", *imports))
        parts = [head, *self._substitutes.values()]
        for name in self._order:
            module, node = self._chosen[name]
            parts.append(_portable(module, node))
        return "\n\n\n".join(parts) + "\n"


def _import_line(name: str, path: str) -> str:
    module, _, last = path.rpartition(".")
    if not module:
        return f"import {path}" + ("" if name == path else f" as {name}")
    return f"from {module} import {last}" + ("" if name == last else f" as {name}")


def _portable(module: _Module, node: Definition) -> str:
    """Return the source of a definition, without decorators of its library and some methods."""
    dropped: list[ast.expr | ast.stmt] = [
        each
        for owner in ast.walk(node)
        if isinstance(owner, ast.FunctionDef | ast.ClassDef)
        for each in owner.decorator_list
        if not _keeps(module, each)
    ]
    dropped += [each for each in getattr(node, "body", []) if _is_left_out(each)]
    lines = module.text.splitlines()
    first = node.lineno
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        first = min([first, *(each.lineno for each in node.decorator_list)])
    left_out = {
        number
        for each in dropped
        for number in range(each.lineno, (each.end_lineno or each.lineno) + 1)
    }
    last = node.end_lineno or node.lineno
    kept = [lines[n - 1] for n in range(first, last + 1) if n not in left_out]
    return textwrap.dedent("\n".join(kept))


def _keeps(module: _Module, decorator: ast.expr) -> bool:
    """Return whether a decorator comes from Python or PyTorch."""
    return all(
        module.imports.get(name, name).partition(".")[0] in ALLOWED
        or (name not in module.imports and hasattr(builtins, name))
        for name in _loaded(decorator)
    )


def _used(node: Definition) -> Iterator[str]:
    """Yield the global names that a definition loads; annotations are never evaluated."""
    own = _bound(node)
    for name in _names_of(node):
        if name not in own:
            yield name


def _is_left_out(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef) and node.name in NOT_COPIED


def _names_of(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        yield node.id
    for field_name, value in ast.iter_fields(node):
        if field_name in ("annotation", "returns", "decorator_list"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not _is_left_out(child):
                yield from _names_of(child)


def _bound(node: ast.AST) -> set[str]:
    """Return the names that a definition binds inside itself."""
    found = {each.arg for each in ast.walk(node) if isinstance(each, ast.arg)}
    for each in ast.walk(node):
        if isinstance(each, ast.Name) and not isinstance(each.ctx, ast.Load):
            found.add(each.id)
        elif isinstance(each, ast.ExceptHandler | ast.FunctionDef | ast.ClassDef):
            found.add(each.name or "")
    return found


def _loaded(node: ast.AST) -> list[str]:
    return [each.id for each in ast.walk(node) if isinstance(each, ast.Name)]


def _without_annotations(arguments: ast.arguments) -> str:
    copy = ast.parse(f"def f({ast.unparse(arguments)}): pass").body[0]
    assert isinstance(copy, ast.FunctionDef)
    for each in ast.walk(copy.args):
        if isinstance(each, ast.arg):
            each.annotation = None
    return ast.unparse(copy.args)


def _class(path: str) -> tuple[_Module, ast.ClassDef]:
    found = _resolved(path)
    if found is None or not isinstance(found[2], ast.ClassDef):
        raise TaskError(f"{path}: no such class in the files of {path.partition('.')[0]}")
    return found[0], found[2]


def _bases(module: _Module, node: ast.ClassDef) -> Iterator[ast.ClassDef]:
    """Yield the base classes that are found in the files, the nearest first."""
    for base in node.bases:
        if not isinstance(base, ast.Name):
            continue
        path = f"{module.name}.{base.id}"
        if base.id not in module.definitions:
            path = module.imports.get(base.id, path)
        found = _resolved(path)
        if found and isinstance(found[2], ast.ClassDef) and found[2].name != "Module":
            yield found[2]
            yield from _bases(found[0], found[2])


def _resolved(path: str) -> tuple[_Module, str, Definition] | None:
    """Return the definition at a dotted path, with its module and name, through its imports."""
    for _ in range(MAX_IMPORTS_FOLLOWED):
        name, _, last = path.rpartition(".")
        module = _module(name) if name else None
        if module is None:
            return None
        if last in module.definitions:
            return module, last, module.definitions[last]
        if last not in module.imports:
            return None
        path = module.imports[last]
    return None


def _top_level(tree: ast.Module | ast.If | ast.Try) -> Iterator[ast.stmt]:
    """Yield the statements of a module, and those below its conditions."""
    for node in _branch(tree) if isinstance(tree, ast.If) else tree.body:
        if isinstance(node, ast.If | ast.Try):
            yield from _top_level(node)
        else:
            yield node


def _branch(condition: ast.If) -> list[ast.stmt]:
    """Return the first branch, or the second one of `if is_NAME_available()` without NAME."""
    test = condition.test
    name = test.func.id if isinstance(test, ast.Call) and isinstance(test.func, ast.Name) else ""
    if condition.orelse and name.startswith("is_") and name.endswith("_available"):
        package = name.removeprefix("is_").removesuffix("_available")
        return condition.body if find_spec(package) else condition.orelse
    return condition.body


@cache
def _package(name: str) -> Path:
    """Return the folder of a package. Raises TaskError where it is not installed."""
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        raise TaskError(f"{name} is not installed")
    return Path(spec.origin).parent


@cache
def _module(name: str) -> _Module | None:
    """Return the parsed file of a module; None where a package has no such file."""
    package, *parts = name.split(".")
    folder = _package(package).joinpath(*parts)
    path = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
    if not path.is_file():
        return None
    text = path.read_text(encoding="utf-8")
    definitions: dict[str, Definition] = {}
    imports: dict[str, str] = {}
    within = name if folder.is_dir() else name.rpartition(".")[0]
    for node in _top_level(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            definitions.setdefault(node.name, node)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if isinstance(target, ast.Name):
                    definitions.setdefault(target.id, node)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                full = alias.name if alias.asname else alias.name.partition(".")[0]
                imports[alias.asname or full] = full
        elif isinstance(node, ast.ImportFrom):
            parents = within.split(".")
            start = parents[: len(parents) - node.level + 1] if node.level else []
            source = ".".join(filter(None, (*start, node.module)))
            for alias in node.names:
                imports[alias.asname or alias.name] = f"{source}.{alias.name}"
    return _Module(name, path, text, definitions, imports)
