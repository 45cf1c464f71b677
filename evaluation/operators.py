"""What an operator is: the sources and configurations of one folder under `tasks/`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType

from evaluation.domain import Domain, factors, shape_of
from evaluation.errors import TaskError
from evaluation.languages import languages
from evaluation.tolerance import Tolerance
from evaluation.types import Argument, Case, Reason

REFERENCE = ("reference", "magnitude", "reduction", "inputs", "cost")


@dataclass(frozen=True)
class Track:
    """From what to what."""

    source: str
    target: str

    @property
    def slug(self) -> str:
        return f"{self.source}-to-{self.target}"

    @property
    def baseline(self) -> str:
        """The language of what must be beaten; for torch it is the reference itself."""
        return self.source


@dataclass(frozen=True)
class Limits:
    """What judging may take: seconds of a build or gate, memory of a contestant, size of a case."""

    seconds: float
    memory_mb: int
    case_mb: int


@dataclass(frozen=True)
class Example:
    """An answer kept beside the task: an honest one, or a mutant to be refused (for `expect`)."""

    name: str
    language: str
    source: str
    note: str
    expect: Reason | None = None


@dataclass(frozen=True)
class Operator:
    """What is computed, and on which configurations."""

    name: str
    title: str
    category: str
    families: tuple[str, ...]
    level: int
    tracks: tuple[Track, ...]
    arguments: tuple[Argument, ...]
    domain: Domain
    limits: Limits
    tolerance: Mapping[str, Tolerance]
    cases: tuple[Case, ...]
    prompt: str
    folder: Path

    @property
    def inputs(self) -> tuple[Argument, ...]:
        return tuple(a for a in self.arguments if a.role == "input")

    @property
    def outputs(self) -> tuple[Argument, ...]:
        return tuple(a for a in self.arguments if a.role == "output")

    @property
    def scalars(self) -> tuple[Argument, ...]:
        return tuple(a for a in self.arguments if a.role == "scalar")

    @property
    def sizes(self) -> tuple[str, ...]:
        """Every symbol used in a shape, in order of first use, that is no scalar itself."""
        scalars = {a.name for a in self.scalars}
        return tuple(s for s in symbols_of(self.arguments) if s not in scalars)

    def module(self) -> ModuleType:
        """`reference.py`, loaded by path: the functions named in REFERENCE. Imports torch."""
        return _reference(self.folder / "reference.py")

    def baseline(self, language: str) -> str:
        """The source that an X-to-X track starts from."""
        suffix = languages()[language].suffix
        return read_text(self.folder / "baseline" / f"{language}{suffix}")

    def honest(self) -> tuple[Example, ...]:
        return _examples(self.folder / "honest")

    def mutants(self) -> tuple[Example, ...]:
        return _examples(self.folder / "mutants")


def output_shapes(operator: Operator, case: Case) -> tuple[tuple[int, ...], ...]:
    return tuple(shape_of(argument, case) for argument in operator.outputs)


def symbols_of(arguments: Iterable[Argument]) -> tuple[str, ...]:
    found = (
        factor
        for argument in arguments
        for dimension in argument.shape
        for factor in factors(dimension)
        if not factor.isdigit()
    )
    return tuple(dict.fromkeys(found))


def read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise TaskError(f"{path}: no such file; add it") from None
    except UnicodeDecodeError:
        raise TaskError(f"{path}: not UTF-8; save it as UTF-8") from None


def _examples(folder: Path) -> tuple[Example, ...]:
    examples = []
    for path in sorted(p for p in folder.glob("*") if p.is_file()):
        name, _, rest = path.name.partition(".")
        language = rest.partition(".")[0]
        if language not in languages() or path.suffix != languages()[language].suffix:
            raise TaskError(f"{path}: name it <name>.<language>.<suffix>, such as online.triton.py")
        source = read_text(path)
        expect = _comment(source, "expect")
        if expect and expect not in Reason.__members__:
            raise TaskError(f"{path}: expect: {expect} is no reason of a failure")
        note = _comment(source, "mutant") or _comment(source, "honest")
        if not note:
            raise TaskError(f"{path}: begin with a comment `mutant: ...` or `honest: ...`")
        examples.append(Example(name, language, source, note, Reason(expect) if expect else None))
    return tuple(examples)


def _comment(source: str, key: str) -> str:
    """The text of a `// key: text` or `# key: text` among the first lines."""
    for line in source.splitlines()[:4]:
        head, _, text = line.lstrip("/# ").partition(":")
        if head == key:
            return text.strip()
    return ""


@cache
def _reference(path: Path) -> ModuleType:
    module = ModuleType(f"reference_of_{path.parent.name}")
    exec(compile(read_text(path), path, "exec"), module.__dict__)
    for function in REFERENCE:
        if not callable(getattr(module, function, None)):
            raise TaskError(f"{path}: {function}: missing; define this function")
    return module
