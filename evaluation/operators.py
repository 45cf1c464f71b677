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
from evaluation.tables import Table
from evaluation.tolerance import Tolerance
from evaluation.types import Argument, Case, Reason

EDITS = ".toml"
"""The suffix of an answer that is told as edits of another."""
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
    """The answers of a folder: sources as they are, or what another becomes by a few edits."""
    examples = []
    for path in sorted(p for p in folder.glob("*") if p.is_file()):
        name, _, rest = path.name.partition(".")
        language = rest.partition(".")[0]
        suffixes = (languages()[language].suffix, EDITS) if language in languages() else ()
        if path.suffix not in suffixes:
            raise TaskError(
                f"{path}: name it <name>.<language>.<suffix>, such as online.triton.py, "
                f"or with edits <name>.<language>{EDITS}"
            )
        read = _edited if path.suffix == EDITS else _whole
        note, expect, source = read(path)
        if expect and expect not in Reason.__members__:
            raise TaskError(f"{path}: expect: {expect} is no reason of a failure")
        examples.append(Example(name, language, source, note, Reason(expect) if expect else None))
    return tuple(examples)


def _whole(path: Path) -> tuple[str, str, str]:
    """Note, expected reason and source of an answer that says them in its first comments."""
    source = read_text(path)
    note = _comment(source, "mutant") or _comment(source, "honest")
    if not note:
        raise TaskError(f"{path}: begin with a comment `mutant: ...` or `honest: ...`")
    return note, _comment(source, "expect"), source


def _edited(path: Path) -> tuple[str, str, str]:
    """The same of an answer that is another, `of` the operator's folder, with `edits`: pairs of
    what stands there once and what stands in its place.
    """
    table = Table.read(path)
    note, of = table.text("note"), table.text("of")
    expect = table.text("expect") if table.has("expect") else ""
    source = read_text(path.parents[1] / of)
    for edit in table.items("edits", "pairs of texts"):
        match edit:
            case [str(old), str(new)] if source.count(old) == 1:
                source = source.replace(old, new)
            case [str(old), str()]:
                table.fail("edits", f"{old!r} stands {source.count(old)} times in {of}, not once")
            case _:
                table.fail("edits", f"must hold pairs of texts, got {edit!r}")
    table.finish()
    return note, expect, source


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
