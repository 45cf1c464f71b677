"""Operators: the sources and configurations of one folder under `tasks/`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Protocol

from evaluation.errors import TaskError
from evaluation.tasks.domain import Domain, elements, factors, shape_of
from evaluation.tasks.tolerance import Tolerance
from evaluation.tasks.toml_reader import Table
from evaluation.types import Argument, Case, Reason

EDITS = ".toml"
"""Suffix of an implementation that is written as edits of another."""
REFERENCE = ("reference", "magnitude", "reduction", "inputs", "cost")


class LanguageFacts(Protocol):
    """Facts of a language that a task file may refer to."""

    suffix: str
    dtypes: frozenset[str]
    """Case dtypes that the language is judged on."""
    kinds: tuple[str, ...]
    """Kinds of device that it runs on, best first."""


Languages = Mapping[str, LanguageFacts]


@dataclass(frozen=True)
class Track:
    """Source and target language."""

    source: str
    target: str

    @property
    def slug(self) -> str:
        return f"{self.source}-to-{self.target}"

    @property
    def baseline(self) -> str:
        """Return the language of the baseline; for torch it is the reference itself."""
        return self.source


@dataclass(frozen=True)
class Limits:
    """Limits of judging: seconds of a build or gate, memory of a process, size of a case."""

    seconds: float
    memory_mb: int
    case_mb: int


@dataclass(frozen=True)
class Example:
    """An implementation beside the task: an honest one, or a mutant that fails with `expect`."""

    name: str
    language: str
    source: str
    note: str
    expect: Reason | None = None


@dataclass(frozen=True)
class Operator:
    """A computation with its configurations."""

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
    languages: Languages = field(compare=False, repr=False)

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
        """Return every symbol used in a shape, in order of first use, that is not a scalar."""
        scalars = {a.name for a in self.scalars}
        return tuple(s for s in symbols_of(self.arguments) if s not in scalars)

    def elements(self, case: Case) -> int:
        """Return the number of elements of all tensors of a call, which orders and bounds cases."""
        return elements(self.arguments, case)

    def module(self) -> ModuleType:
        """Return `reference.py`, with the functions named in REFERENCE. Imports torch."""
        return _reference(self.folder / "reference.py")

    def baseline(self, language: str) -> str:
        """Return the source that an X-to-X track starts from."""
        suffix = self.languages[language].suffix
        return read_text(self.folder / "baseline" / f"{language}{suffix}")

    def honest(self) -> tuple[Example, ...]:
        return _examples(self.folder / "honest", self.languages)

    def mutants(self) -> tuple[Example, ...]:
        return _examples(self.folder / "mutants", self.languages)


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


def _examples(folder: Path, languages: Languages) -> tuple[Example, ...]:
    """Return the implementations of a folder: whole sources, and edits of other ones."""
    examples: dict[tuple[str, str], Example] = {}
    for path in sorted(p for p in folder.glob("*") if p.is_file()):
        name, language = _named(path, languages)
        if (name, language) in examples:
            raise TaskError(f"{path}: there are two answers {name} in {language}; rename one")
        note, expect, source = _edited(path, languages) if path.suffix == EDITS else _whole(path)
        if expect and expect not in Reason.__members__:
            known = ", ".join(Reason.__members__)
            raise TaskError(
                f"{path}: expect: {expect} is no reason of a failure; there are: {known}"
            )
        wanted = Reason(expect) if expect else None
        examples[name, language] = Example(name, language, source, note, wanted)
    return tuple(examples.values())


def _named(path: Path, languages: Languages) -> tuple[str, str]:
    """Return the name and language of an implementation from its file name. Raises TaskError."""
    parts = path.name.split(".")
    if len(parts) != 3 or not parts[0]:
        raise TaskError(f"{path}: name it <name>.<language>.<suffix>, such as online.triton.py")
    name, language, suffix = parts
    if language not in languages:
        known = ", ".join(languages)
        raise TaskError(f"{path}: {language} is no language; there are: {known}")
    if f".{suffix}" not in ((own := languages[language].suffix), EDITS):
        raise TaskError(f"{path}: a source in {language} ends in {own}, edits of one in {EDITS}")
    return name, language


def _whole(path: Path) -> tuple[str, str, str]:
    """Return note, expected reason and source, from the comments at the top of a file."""
    source = read_text(path)
    note = _comment(source, "mutant") or _comment(source, "honest")
    if not note:
        raise TaskError(f"{path}: begin with a comment `mutant: ...` or `honest: ...`")
    return note, _comment(source, "expect"), source


def _edited(path: Path, languages: Languages) -> tuple[str, str, str]:
    """Return the same of an implementation written as `edits` of the file `of`.

    Each edit is a pair: a text that occurs once, and its replacement.

    Raises: TaskError.
    """
    table = Table.read(path)
    note, of = table.text("note"), table.text("of")
    expect = table.text("expect") if table.has("expect") else ""
    if of not in (known := _sources(path, languages)):
        table.fail("of", f"must be one of {', '.join(known)}; got {of!r}")
    source = read_text(path.parents[1] / of)
    for number, edit in enumerate(table.items("edits", "pairs of texts")):
        where = f"edits[{number}]"
        match edit:
            case [str(old), str(new)] if old and old != new:
                if (count := source.count(old)) != 1:
                    then = " after the edits before it" if number else ""
                    table.fail(where, f"{old!r} stands {count} times in {of}{then}, not once")
                source = source.replace(old, new)
            case _:
                table.fail(where, f"must be what stands there and another text, got {edit!r}")
    table.finish()
    return note, expect, source


def _sources(path: Path, languages: Languages) -> tuple[str, ...]:
    """Return the files that edits may refer to: baseline and honest implementations in the
    language.
    """
    root, (_, language) = path.parents[1], _named(path, languages)
    suffix = languages[language].suffix
    found = (f"baseline/{language}{suffix}", f"honest/*.{language}{suffix}")
    return tuple(
        place.relative_to(root).as_posix() for each in found for place in sorted(root.glob(each))
    )


def _comment(source: str, key: str) -> str:
    """Return the text of `// key: text` or `# key: text` among the first lines."""
    for line in source.splitlines()[:4]:
        head, _, text = line.lstrip("/# ").partition(":")
        if head == key:
            return text.strip()
    return ""


@cache
def _reference(path: Path) -> ModuleType:
    module = ModuleType(f"reference_of_{path.parent.name}")
    try:
        exec(compile(read_text(path), path, "exec"), module.__dict__)
    except Exception as error:
        raise TaskError(f"{path}: cannot be loaded: {type(error).__name__}: {error}") from error
    for function in REFERENCE:
        if not callable(getattr(module, function, None)):
            raise TaskError(f"{path}: {function}: missing; define this function")
    return module
