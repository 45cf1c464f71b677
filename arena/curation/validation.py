"""Validation of a draft's files by reading them alone: no code of a draft runs in this process."""

from __future__ import annotations

import ast
import tempfile
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from arena.catalog.models import Operator
from arena.catalog.task_folders import write_files
from evaluation.code.languages import languages
from evaluation.device_kind import CPU, GPU
from evaluation.errors import TaskError
from evaluation.kinds.kernel.load import load_operator, load_tasks
from evaluation.tasks import spec
from evaluation.tasks.operator import REFERENCE
from evaluation.tasks.operator import Operator as LoadedOperator

MAX_LEVEL = 9
MAX_MESSAGE = 600


@dataclass(frozen=True)
class Problem:
    """A reason why a draft cannot be published; `path` is the file to change."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


def problems_of(name: str, files: Mapping[str, str]) -> list[Problem]:
    """Return the problems of the files of an operator, in the order in which to mend them."""
    with tempfile.TemporaryDirectory(prefix="arena-draft-") as place:
        folder = Path(place) / name
        folder.mkdir()
        write_files(folder, files)
        return list(dict.fromkeys(_problems(folder, files)))


def _problems(folder: Path, files: Mapping[str, str]) -> Iterator[Problem]:
    for path in ("task.toml", "reference.py"):
        if path not in files:
            yield Problem(path, "missing; add it")
    if "reference.py" in files:
        yield from reference_problems(files["reference.py"])
    if not {"task.toml", "reference.py"} <= files.keys():
        return
    loaded: list[LoadedOperator] = []
    for kind in (CPU, GPU):
        found = _attempt(folder, partial(_load, folder, kind, loaded))
        if found:
            yield found
            return
    if found := _attempt(folder, lambda: load_tasks(folder)):
        yield found
    operator = loaded[0]
    yield from _signature_problems(operator, files["reference.py"])
    yield from _text_problems(operator)
    for track in operator.tracks:
        if track.source == track.target:
            found = _attempt(folder, partial(operator.baseline, track.source))
            if found:
                yield found
    for examples in (operator.honest, operator.mutants):
        if found := _attempt(folder, examples):
            yield found


def _load(folder: Path, kind: str, loaded: list[LoadedOperator]) -> None:
    loaded.append(load_operator(folder, kind))


def _attempt(folder: Path, read: Callable[[], object]) -> Problem | None:
    """Return the problem that a reader of the judge finds."""

    def shown(error: Exception) -> str:
        return str(error).replace(f"{folder}/", "").replace(str(folder), folder.name)

    try:
        read()
    except TaskError as error:
        text = shown(error)
        path, _, rest = text.partition(": ")
        known = (folder / path).is_file() or path.endswith((".toml", ".py", ".md", ".cpp", ".cu"))
        return (
            Problem(path, rest[:MAX_MESSAGE]) if known and rest else Problem("", text[:MAX_MESSAGE])
        )
    except Exception as error:  # a reader that fails on a file refuses it
        text = f"cannot be read: {type(error).__name__}: {shown(error)}"
        return Problem("task.toml", text[:MAX_MESSAGE])
    return None


def reference_problems(source: str) -> Iterator[Problem]:
    """Parse `reference.py` without running it."""
    try:
        tree = ast.parse(source)
    except SyntaxError as error:
        yield Problem("reference.py", f"line {error.lineno}: {error.msg}")
        return
    except (ValueError, RecursionError, MemoryError) as error:
        yield Problem("reference.py", f"cannot be parsed: {type(error).__name__}: {error}")
        return
    defined = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    defined |= {
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    if REFERENCE[0] not in defined:
        yield Problem("reference.py", f"{REFERENCE[0]}: missing; define this function")


def _signature_problems(operator: LoadedOperator, source: str) -> Iterator[Problem]:
    """Compare the parameters of `reference` with the inputs and scalars, which it gets by name."""
    given = [argument.name for argument in operator.arguments if argument.role != "output"]
    for node in ast.parse(source).body:
        if not isinstance(node, ast.FunctionDef) or node.name != REFERENCE[0]:
            continue
        names = [each.arg for each in (*node.args.posonlyargs, *node.args.args)]
        required = names[: len(names) - len(node.args.defaults)]
        names += [each.arg for each in node.args.kwonlyargs]
        unknown = set() if node.args.kwarg else {*given} - {*names}
        if operator.source is None and (unknown or {*required} - {*given}):
            text = f"line {node.lineno}: reference takes {', '.join(names) or 'nothing'}"
            yield Problem("reference.py", f"{text}; the arguments are {', '.join(given)}")


def _text_problems(operator: LoadedOperator) -> Iterator[Problem]:
    """Compare texts and the level with what the catalogue can store."""
    for field in ("title", "category"):
        longest = getattr(Operator._meta.get_field(field), "max_length", None) or 0
        if len(getattr(operator, field)) > longest:
            yield Problem("task.toml", f"{field}: longer than {longest} characters; shorten it")
    if operator.level > MAX_LEVEL:
        yield Problem("task.toml", f"level: {operator.level} is above {MAX_LEVEL}")


def lacks_tolerance(name: str, files: Mapping[str, str]) -> bool:
    """Return whether readable files need a fit: for this reference no tolerance is written."""
    with tempfile.TemporaryDirectory(prefix="arena-draft-") as place:
        folder = Path(place) / name
        write_files(folder, files)
        try:
            operator = spec.load_operator(folder, languages(), CPU, has_tolerance=False)
            own = "tolerance" in tomllib.loads(files["task.toml"])
            digest = spec.reference_hash(folder)
        except (TaskError, ValueError, KeyError):
            return False
    fitted = files.get(spec.FITTED, "")
    return operator.has_roundings and not own and f'reference = "{digest}"' not in fitted


def targets_of(name: str, files: Mapping[str, str]) -> list[tuple[str, tuple[str, ...]]]:
    """Return the tracks of a valid draft, each with the device kinds that can judge it."""
    with tempfile.TemporaryDirectory(prefix="arena-draft-") as place:
        write_files(Path(place) / name, files)
        tasks = load_tasks(Path(place) / name)
    return [(task.track.slug, languages()[task.track.target].kinds) for task in tasks]
