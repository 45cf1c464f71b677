"""Static check of a generation: whether it can be built and called, without a GPU.

A module is called as its suite does it: `ModelNew(*get_init_inputs())`, then `forward` with the
inputs of the problem.
"""

from __future__ import annotations

import ast
import math
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from evaluation.code.languages import languages
from evaluation.errors import Rejected, SubmissionError, TaskError
from evaluation.importers.generations.verdicts import Job
from evaluation.judge.request import check_files
from evaluation.tasks.spec import Task

MODELS = ("ModelNew", "Model")
"""Names of a class that is called, in this order."""
NOT_PYTHON = (SyntaxError, ValueError, RecursionError, MemoryError)
"""What parsing raises for a text that is no Python."""
_CONSTRUCTOR, _CALL = "__init__", "forward"


@dataclass(frozen=True)
class Binding:
    """The result of the check; `reason` is a class of reasons, empty where all is well."""

    reason: str = ""
    message: str = ""


@dataclass(frozen=True)
class Arity:
    """Numbers of positional arguments that a function can take, without `self`."""

    least: int
    most: float

    def __str__(self) -> str:
        least = f"{self.least}"
        if math.isinf(self.most):
            return f"{least} or more"
        return least if self.most == self.least else f"{least} to {self.most:g}"

    def takes(self, count: int) -> bool:
        return self.least <= count <= self.most


def check(job: Job) -> Binding:
    """Check a source against its task."""
    try:
        task = job.task()
    except TaskError as error:
        return Binding("task cannot be read", str(error))
    try:
        tree = ast.parse(job.text)
    except NOT_PYTHON as error:
        return Binding("not Python", f"{type(error).__name__}: {error}")
    try:
        files = {task.target_file: job.text}
        check_files(files, task.target_file)
        languages()[task.track.target].check(files, task)
    except Rejected as error:
        return Binding(f"refused by the rule {error.rule!r}", error.message)
    except SubmissionError as error:
        return Binding(str(error.reason), error.message)
    return _called(tree, task)


def check_interface(job: Job) -> Binding:
    """Check that a source has a module with the arguments of the problem, as far as it shows.

    A source that cannot be parsed passes: its verdict says why.
    """
    try:
        return _called(ast.parse(job.text), job.task())
    except NOT_PYTHON:
        return Binding()


def is_python(text: str) -> bool:
    """Return whether a source can be parsed, and is not empty."""
    try:
        return bool(ast.parse(text).body)
    except NOT_PYTHON:
        return False


def _called(tree: ast.Module, task: Task) -> Binding:
    """Check that there is a module with the arguments of the problem."""
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    assigned = {t.id for node in tree.body for t in _targets(node)}
    name = next((name for name in MODELS if name in classes or name in assigned), "")
    if not name:
        return Binding("no class ModelNew", f"defines {', '.join(sorted(classes)) or 'none'}")
    problem = _problem(task.operator.folder / "problem.py")
    if problem is None or name not in classes:
        return Binding()
    for method, count in zip((_CONSTRUCTOR, _CALL), problem, strict=True):
        arity = _arity(classes, name, method)
        if count is not None and arity and not arity.takes(count):
            message = f"{name}.{method} takes {arity} arguments, not {count}"
            return Binding(f"{method} takes other arguments", message)
    return Binding()


def _targets(node: ast.stmt) -> list[ast.Name]:
    targets = node.targets if isinstance(node, ast.Assign) else []
    return [target for target in targets if isinstance(target, ast.Name)]


@cache
def _problem(path: Path) -> tuple[int | None, int | None] | None:
    """Return the numbers of arguments of a problem's constructor and call, where they are plain."""
    if not path.is_file():
        return None
    tree = ast.parse(path.read_text(encoding="utf-8"))
    lists: dict[str, int | None] = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            returned = [each.value for each in ast.walk(node) if isinstance(each, ast.Return)]
            whole = len(returned) == 1 and isinstance(returned[0], ast.List | ast.Tuple)
            if whole and not any(isinstance(e, ast.Starred) for e in returned[0].elts):  # type: ignore[union-attr]
                lists[node.name] = len(returned[0].elts)  # type: ignore[union-attr]
    return lists.get("get_init_inputs"), lists.get("get_inputs")


def _arity(classes: dict[str, ast.ClassDef], name: str, method: str) -> Arity | None:
    """Return how many arguments a method takes; None where another file or no file defines it."""
    seen: set[str] = set()
    while name in classes and name not in seen:
        seen.add(name)
        for node in classes[name].body:
            if isinstance(node, ast.FunctionDef) and node.name == method:
                return _of(node.args)
        bases = [base.id for base in classes[name].bases if isinstance(base, ast.Name)]
        name = bases[0] if bases else ""
    return Arity(0, 0) if method == _CONSTRUCTOR and not name else None


def _of(arguments: ast.arguments) -> Arity:
    count = len(arguments.posonlyargs) + len(arguments.args) - 1
    most = float("inf") if arguments.vararg else count
    return Arity(max(0, count - len(arguments.defaults)), most)
