"""Tasks, and how `task.toml` is read: every mistake is named by file and key."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from evaluation.device_kind import CPU, GPU, kind_of
from evaluation.errors import TaskError
from evaluation.tasks.domain import (
    ITEM_BYTES,
    Choices,
    Domain,
    LogUniform,
    Range,
    factors,
    tensor_bytes,
)
from evaluation.tasks.operator import (
    Example,
    Languages,
    Limits,
    Operator,
    Track,
    output_shapes,
    read_text,
    symbols_of,
)
from evaluation.tasks.tolerance import UNIT_ROUNDOFF, Tolerance
from evaluation.tasks.toml_reader import Table
from evaluation.types import Argument, Case, Split

__all__ = [
    "Domain",
    "Example",
    "Limits",
    "Operator",
    "Task",
    "Tolerance",
    "Track",
    "find_operators",
    "folder_of",
    "load_operator",
    "load_task",
    "load_tasks",
    "output_shapes",
]

OPEN_TRACK = Track("torch", "torch")
"""A track of every operator, beside its own, on which any library call is allowed."""
ANSWERS = ("honest", "mutants")
"""Folders of implementations that test the judge; more of them leave a task's hash unchanged."""
ROLES = ("input", "output", "scalar")
KINDS = ("nominal", "edge", "scale-up", "scale-down", "misaligned", "asymmetric", "production")


@dataclass(frozen=True)
class Task:
    """An operator on a track.

    `hash` changes with any byte of the operator's folder that affects a verdict or is shown to an
    agent.
    """

    operator: Operator
    track: Track
    hash: str
    kind: str
    """The device kind, which selects the cases, the domain and the limits."""

    @property
    def slug(self) -> str:
        return f"{self.operator.name}/{self.track.slug}"

    @property
    def target_file(self) -> str:
        return self.operator.name + self.operator.languages[self.track.target].suffix

    @property
    def dtypes(self) -> tuple[str, ...]:
        """Return the dtypes of this track: those of the domain that both languages support."""
        languages = self.operator.languages
        known = languages[self.track.target].dtypes & languages[self.track.source].dtypes
        return tuple(d for d in self.operator.domain.dtypes if d in known)

    @property
    def answers_hash(self) -> str:
        """Return a hash of the implementations that test the judge."""
        return _digest(self.operator.folder, "", lambda top: top in ANSWERS)

    def cases(self, split: Split, max_elements: int | None = None) -> tuple[Case, ...]:
        """Return the written cases of a split in the dtypes of this track, up to a size."""
        cases = (c for c in self.operator.cases if c.split is split and c.dtype in self.dtypes)
        if max_elements is None:
            return tuple(cases)
        return tuple(case for case in cases if self.operator.elements(case) <= max_elements)

    def checked_cases(self, max_elements: int | None = None) -> list[Case]:
        """Return the public cases for correctness, smallest first.

        They are the seen cases and the domain's boundary sizes, of at most so many elements.
        """
        boundaries = self.operator.domain.boundaries(self.dtypes, max_elements)
        cases = [*self.cases(Split.SEEN, max_elements), *boundaries]
        return sorted(cases, key=self.operator.elements)


def find_operators(root: Path) -> tuple[str, ...]:
    """Return the names of the operators under `root`, sorted."""
    if not root.is_dir():
        raise TaskError(f"{root}: no such folder; name the folder that holds the operators")
    return tuple(sorted(path.parent.name for path in root.glob("*/task.toml")))


def folder_of(root: Path, operator: str) -> Path:
    """Return the folder of an operator under `root`. Raises `TaskError`."""
    known = find_operators(root)
    if operator in known:
        return root / operator
    if operator and (root / operator).is_dir():
        raise TaskError(f"{root / operator / 'task.toml'}: no such file; every operator needs one")
    told = ", ".join(known) or "none"
    raise TaskError(f"{operator}: no such operator in {root}; there are: {told}")


def load_task(
    root: Path, operator: str, track_slug: str, languages: Languages, kind: str | None = None
) -> Task:
    """Return the task `operator/track_slug` of the folder `root`.

    `kind` is its device kind, by default the best that this machine offers.

    Raises: TaskError.
    """
    loaded = load_operator(folder_of(root, operator), languages)
    tracks = (*loaded.tracks, OPEN_TRACK)
    for track in tracks:
        if track.slug == track_slug:
            chosen = kind or kind_of(languages[track.target].kinds)
            if chosen == GPU:
                loaded = load_operator(root / operator, languages, GPU)
            return _judged(loaded, track, chosen)
    known = ", ".join(track.slug for track in tracks)
    raise TaskError(f"{operator}: no track {track_slug}; there are: {known}")


def load_tasks(path: Path, languages: Languages) -> list[Task]:
    """Return the tasks of one operator folder, each for the best device kind of this machine.

    Raises: TaskError.
    """
    tracks = (*load_operator(path, languages).tracks, OPEN_TRACK)
    kinds = {track: kind_of(languages[track.target].kinds) for track in tracks}
    operators = {kind: load_operator(path, languages, kind) for kind in set(kinds.values())}
    return [_judged(operators[kinds[track]], track, kinds[track]) for track in tracks]


def _judged(operator: Operator, track: Track, kind: str) -> Task:
    """Return a task of an operator. Raises `TaskError` where it has no cases to be judged on."""
    task = Task(operator, track, _hash(operator.folder, track), kind)
    for split in (Split.SEEN, Split.UNSEEN):
        if not task.cases(split):
            raise TaskError(
                f"{operator.folder}: {track.slug} has no {split} case on a {kind}, where it is"
                f" judged in {_list(task.dtypes) or 'no dtype'}; add one, or take the track out"
            )
    return task


def load_operator(path: Path, languages: Languages, kind: str = CPU) -> Operator:
    """Read one operator folder.

    A GPU kind takes cases, domain and limits from `gpu.toml` where that exists.

    Raises: TaskError naming the file and the key.
    """
    table = Table.read(path / "task.toml")
    arguments = _arguments(table)
    configurations = _configurations(table, arguments)
    if kind == GPU and (path / "gpu.toml").is_file():
        larger = Table.read(path / "gpu.toml")
        configurations = _configurations(larger, arguments)
        larger.finish()
    limits, domain, cases = configurations
    operator = Operator(
        name=path.name,
        title=table.text("title"),
        category=table.text("category"),
        families=table.texts("families"),
        level=table.integer("level"),
        tracks=_tracks(table, languages),
        arguments=arguments,
        domain=domain,
        limits=limits,
        tolerance=_tolerance(table.table("tolerance"), domain),
        cases=cases,
        prompt=read_text(path / "prompt.md"),
        folder=path,
        languages=languages,
    )
    table.finish()
    return operator


def _configurations(
    table: Table, arguments: tuple[Argument, ...]
) -> tuple[Limits, Domain, tuple[Case, ...]]:
    limits = _limits(table.table("limits"))
    domain = _domain(table.table("domain"), arguments, limits)
    return limits, domain, _cases(table, domain)


def _tracks(table: Table, languages: Languages) -> tuple[Track, ...]:
    tracks = []
    for slug in table.texts("tracks"):
        source, _, target = slug.partition("-to-")
        for language in (source, target):
            if language not in languages:
                table.fail(
                    "tracks", f"{slug!r} is not <language>-to-<language> of {_list(languages)}"
                )
        if (track := Track(source, target)) in tracks:
            table.fail("tracks", f"{slug!r} is there twice; remove one")
        tracks.append(track)
    return tuple(tracks)


def _arguments(table: Table) -> tuple[Argument, ...]:
    arguments = []
    for item in table.tables("arguments"):
        name, role, dtype = item.text("name"), item.text("role"), item.text("dtype")
        if not name.isidentifier():
            item.fail("name", f"must be a name, got {name!r}")
        if role not in ROLES:
            item.fail("role", f"must be one of {_list(ROLES)}, got {role!r}")
        dtypes = ("float32", "int64") if role == "scalar" else ("dtype", *ITEM_BYTES)
        if dtype not in dtypes:
            item.fail("dtype", f"must be one of {_list(dtypes)}, got {dtype!r}")
        shape: tuple[str | int, ...] = (
            () if role == "scalar" else tuple(item.items("shape", "sizes"))
        )
        for dimension in shape:
            if not all(f.isdigit() or f.isidentifier() for f in factors(dimension)):
                item.fail(
                    "shape", f"{dimension!r} is not an integer, a symbol or a product of them"
                )
        item.finish()
        arguments.append(Argument(name, role, dtype, shape))
    if all(argument.role != "output" for argument in arguments):
        table.fail("arguments", "none has the role output; an operator gives something")
    return tuple(arguments)


def _domain(table: Table, arguments: tuple[Argument, ...], limits: Limits) -> Domain:
    dtypes = table.texts("dtypes")
    for dtype in dtypes:
        if dtype not in UNIT_ROUNDOFF:
            table.fail("dtypes", f"must be of {_list(UNIT_ROUNDOFF)}, got {dtype!r}")
    sizes = symbols_of(arguments)
    scalars = tuple(a.name for a in arguments if a.role == "scalar")
    symbols = {s: _range(table, s) for s in dict.fromkeys((*sizes, *scalars))}
    table.finish()
    return Domain(dtypes, symbols, arguments, limits.case_mb * 2**20)


def _range(table: Table, symbol: str) -> Range:
    item = table.table(symbol)
    if item.has("choices"):
        values = item.numbers("choices")
        item.finish()
        return Choices(values)
    bounds = item.numbers("log_uniform")
    multiple = item.integer("multiple_of") if item.has("multiple_of") else 1
    if (
        len(bounds) != 2
        or any(type(b) is not int for b in bounds)
        or not 1 <= bounds[0] < bounds[1]
    ):
        item.fail(
            "log_uniform", f"must be two sizes [low, high] with 1 <= low < high, got {bounds}"
        )
    item.finish()
    return LogUniform(int(bounds[0]), int(bounds[1]), multiple)


def _limits(table: Table) -> Limits:
    limits = Limits(table.positive("seconds"), table.integer("memory_mb"), table.integer("case_mb"))
    table.finish()
    return limits


def _tolerance(table: Table, domain: Domain) -> dict[str, Tolerance]:
    tolerance = {}
    # A domain of `gpu.toml` may have more dtypes than that of `task.toml`.
    others = (dtype for dtype in table.names() if dtype in UNIT_ROUNDOFF)
    for dtype in dict.fromkeys((*domain.dtypes, *others)):
        item = table.table(dtype)
        tolerance[dtype] = Tolerance(item.positive("c1"), item.positive("c2"))
        item.finish()
    table.finish()
    return tolerance


def _cases(table: Table, domain: Domain) -> tuple[Case, ...]:
    cases: list[Case] = []
    for item in table.tables("cases"):
        name, kind, split = item.text("name"), item.text("kind"), item.text("split")
        dtype = item.text("dtype")
        if name in {case.name for case in cases}:
            item.fail("name", f"{name!r} is the name of an earlier case; take another")
        if kind not in KINDS:
            item.fail("kind", f"must be one of {_list(KINDS)}, got {kind!r}")
        if split not in (Split.SEEN, Split.UNSEEN):
            item.fail("split", f"must be seen or unseen, got {split!r}")
        if dtype not in domain.dtypes:
            item.fail("dtype", f"must be one of the domain's, got {dtype!r}")
        symbols = {}
        for symbol, values in domain.symbols.items():
            symbols[symbol] = item.number(symbol)
            if not values.holds(symbols[symbol]):
                item.fail(symbol, f"{symbols[symbol]!r} lies outside the domain, {values}")
        case = Case(name, Split(split), kind, dtype, symbols)
        if tensor_bytes(domain.arguments, case) > domain.max_bytes:
            item.fail("name", f"{name!r} is larger than limits.case_mb")
        item.finish()
        cases.append(case)
    for split in (Split.SEEN, Split.UNSEEN):
        if all(case.split is not split for case in cases):
            table.fail("cases", f"none is {split}; an agent is told some, and judged by others too")
    return tuple(cases)


def _hash(folder: Path, track: Track) -> str:
    return _digest(folder, track.slug, lambda top: top not in ANSWERS)


def _digest(folder: Path, salt: str, counts: Callable[[str], bool]) -> str:
    """Return a hash of the operator's files whose first path component `counts`."""
    digest = hashlib.sha256(salt.encode())
    for path in sorted(p for p in folder.rglob("*") if p.is_file() and p.suffix != ".pyc"):
        place = path.relative_to(folder)
        if counts(place.parts[0]):
            content = path.read_bytes()
            digest.update(f"\0{place.as_posix()}\0{len(content)}\0".encode())
            digest.update(content)
    return digest.hexdigest()


def _list(names: Iterable[str]) -> str:
    return ", ".join(names)
