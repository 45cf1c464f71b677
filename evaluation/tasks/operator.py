"""Operators: the sources and configurations of one folder under `tasks/`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol

from evaluation.errors import TaskError
from evaluation.shapes import FAMILIES, WHOLE, elements, symbols_of
from evaluation.tasks.configurations import Limits
from evaluation.tasks.domain import Domain
from evaluation.tasks.source import Source
from evaluation.tasks.task_code import TaskCode, code_of, require_here
from evaluation.tasks.tolerance import Tolerance
from evaluation.tasks.toml_reader import Table, read_text
from evaluation.types import Argument, Case, Reason

if TYPE_CHECKING:
    import torch

OWN_TASKS = Path(__file__).resolve().parents[2] / "tasks"
"""Tasks of this checkout, which are reviewed as the judge's own code is."""
EDITS = ".toml"
"""Suffix of an implementation that is written as edits of another."""
IEEE, TF32 = "ieee", "tf32"
PRECISIONS = IEEE, TF32
"""Rules for products of float32 numbers: as they are, or with TensorFloat-32 operands allowed."""
SUITE = "suite"
"""The rule of precision that a public suite's own check has."""
REFERENCE = ("reference", "magnitude", "reduction", "inputs", "cost")
"""Functions of `reference.py`. All but the first have defaults (see `defaults`)."""


class LanguageFacts(Protocol):
    """Facts of a language that a task file can refer to."""

    suffix: str
    dtypes: frozenset[str]
    """Case dtypes that the language is judged on."""
    kinds: tuple[str, ...]
    """Device kinds that it runs on, best first."""
    optional: bool
    """True where it needs a package that the judge does not have."""


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
        """Return the language of the baseline; in torch it is the reference itself."""
        return self.source


@dataclass(frozen=True)
class Example:
    """An implementation kept with a task: an honest one, or a mutant that fails with `expect`."""

    name: str
    language: str
    source: str
    note: str
    expect: Reason | None = None
    same_values: bool = False
    """True where its values are those of another one by construction."""
    compiled: bool = False
    """True where PyTorch compiles it, which it cannot do with every reference."""


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
    source: Source | None
    languages: Languages = field(compare=False, repr=False)
    input_families: tuple[str, ...] = FAMILIES
    precision: str = IEEE

    @property
    def has_roundings(self) -> bool:
        """Return whether an output is a floating-point tensor in a case of some dtype."""
        dtypes = {
            d
            for a in self.outputs
            for d in (self.domain.dtypes if a.dtype == "dtype" else [a.dtype])
        }
        return any(dtype not in WHOLE for dtype in dtypes)

    @property
    def is_own(self) -> bool:
        """Return whether it is part of this checkout, as the judge's code is, and not imported."""
        return self.source is None and OWN_TASKS in self.folder.resolve().parents

    @property
    def inputs(self) -> tuple[Argument, ...]:
        return tuple(a for a in self.arguments if a.role == "input")

    @property
    def weights(self) -> tuple[Argument, ...]:
        """Return the inputs that are parameters of a suite's module."""
        return tuple(a for a in self.inputs if a.parameter)

    @property
    def activations(self) -> tuple[Argument, ...]:
        """Return the other inputs, which are fresh in each launch."""
        return tuple(a for a in self.inputs if not a.parameter)

    @property
    def outputs(self) -> tuple[Argument, ...]:
        return tuple(a for a in self.arguments if a.role == "output")

    @property
    def scalars(self) -> tuple[Argument, ...]:
        return tuple(a for a in self.arguments if a.role == "scalar")

    @property
    def sizes(self) -> tuple[str, ...]:
        """Return the symbols of all shapes that are no scalars, in order of first use."""
        scalars = {a.name for a in self.scalars}
        return tuple(s for s in symbols_of(self.arguments) if s not in scalars)

    def elements(self, case: Case) -> int:
        """Return the number of elements of all tensors of a call, which orders and bounds cases."""
        return elements(self.arguments, case)

    def least_operations(self, counted: float) -> float:
        """Return the operations that no implementation can do without, of those counted.

        Of an imported problem there are none: its reference counts as it is written, and an honest
        kernel may need far fewer. A product with `diag(a)` is counted as one of dense matrices.
        """
        return 0.0 if self.source else counted

    def code(self, device: torch.device | None = None) -> TaskCode:
        """Return the task's code, for tensors on a device; for numbers alone without one."""
        return code_of(self, device)

    def suite_call(
        self, case: Case, seed: int, next_draw: int | None = None
    ) -> dict[str, Any] | None:
        """Return how a suite constructs and calls a module, as JSON; None for an operator of ours.

        `next_draw` is that of the weights; without it, a module gets those of its own names.
        """
        call = None if self.source is None else self.code().suite_call(case)
        if call is None:
            return None
        parameters = {a.name: a.parameter for a in self.weights}
        return {**call, "seed": seed, "next_draw": next_draw, "parameters": parameters}

    def module(self) -> ModuleType:
        """Return `reference.py`, with the functions named in REFERENCE. Imports torch.

        Raises: Broken in a process that may not load it; TaskError.
        """
        if not self.is_own:
            require_here()
        return _reference(self.folder / "reference.py", self.arguments)

    def baseline(self, language: str) -> str:
        """Return the baseline's source, from which a track from a language to itself starts."""
        suffix = self.languages[language].suffix
        return read_text(self.folder / "baseline" / f"{language}{suffix}")

    def honest(self) -> tuple[Example, ...]:
        return _examples(self.folder / "honest", self.languages)

    def mutants(self) -> tuple[Example, ...]:
        return _examples(self.folder / "mutants", self.languages)


def _examples(folder: Path, languages: Languages) -> tuple[Example, ...]:
    """Return the implementations of a folder. Raises TaskError."""
    examples: dict[tuple[str, str], Example] = {}
    for path in sorted(p for p in folder.glob("*") if p.is_file()):
        name, language = _name_and_language(path, languages)
        if (name, language) in examples:
            raise TaskError(f"{path}: {name} in {language} is there twice; rename one")
        if path.suffix == EDITS:
            note, expect, source = _edited(path, languages[language].suffix)
        else:
            source = read_text(path)
            note = _comment(source, "mutant") or _comment(source, "honest")
            expect = _comment(source, "expect")
        if not note:
            raise TaskError(f"{path}: begin with a comment `mutant: ...` or `honest: ...`")
        if expect and expect not in Reason.__members__:
            known = ", ".join(Reason.__members__)
            raise TaskError(f"{path}: expect: {expect} is no reason; there are: {known}")
        reason = Reason(expect) if expect else None
        examples[name, language] = Example(name, language, source, note, reason)
    return tuple(examples.values())


def _name_and_language(path: Path, languages: Languages) -> tuple[str, str]:
    """Return the parts of the file name of an implementation. Raises TaskError."""
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


def _edited(path: Path, suffix: str) -> tuple[str, str, str]:
    """Return note, expected reason and source of an implementation written as edits.

    `of` names the edited file, a baseline or honest implementation in the same language. An edit is
    a pair: a text that occurs once, and its replacement.

    Raises: TaskError.
    """
    table, root, language = Table.read(path), path.parents[1], path.name.split(".")[1]
    note = table.string("note")
    expect = table.string("expect") if table.has("expect") else ""
    patterns = (f"baseline/{language}{suffix}", f"honest/*.{language}{suffix}")
    of = table.option(
        "of", (f.relative_to(root).as_posix() for p in patterns for f in sorted(root.glob(p)))
    )
    source = read_text(root / of)
    for number, edit in enumerate(table.items("edits", "pairs of strings")):
        where = f"edits[{number}]"
        match edit:
            case [str(old), str(new)] if old and old != new:
                if (count := source.count(old)) != 1:
                    then = " after the edits before it" if number else ""
                    table.fail(where, f"{old!r} must occur once in {of}{then}, not {count} times")
                source = source.replace(old, new)
            case _:
                table.fail(where, f"must be a text and a different replacement, got {edit!r}")
    table.finish()
    return note, expect, source


def _comment(source: str, key: str) -> str:
    """Return the text of `// key: text` or `# key: text` among the first lines."""
    for line in source.splitlines()[:4]:
        head, _, text = line.lstrip("/# ").partition(":")
        if head == key:
            return text.strip()
    return ""


@cache
def _reference(path: Path, arguments: tuple[Argument, ...]) -> ModuleType:
    from evaluation.tasks.defaults import load_reference  # imports torch

    return load_reference(read_text(path), path, arguments)
