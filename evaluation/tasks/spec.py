"""Tasks, and how `task.toml` is read: an error names the file, the key and the remedy."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
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
from evaluation.tasks.operator import Languages, Limits, Operator, Track, symbols_of
from evaluation.tasks.tolerance import UNIT_ROUNDOFF, Tolerance
from evaluation.tasks.toml_reader import Table, read_text
from evaluation.types import Argument, Case, Split

OPEN_TRACK = Track("torch", "torch")
"""A track of every operator, beside its own, on which any library call is allowed."""
IMPLEMENTATIONS = ("honest", "mutants")
"""Folders of implementations that test the judge; more of them leave a task's hash unchanged."""
ROLES = ("input", "output", "scalar")
KINDS = ("nominal", "edge", "scale-up", "scale-down", "misaligned", "asymmetric", "production")


@dataclass(frozen=True)
class Task:
    """An operator on a track.

    `hash` covers the files of the operator that affect a verdict or are shown to an agent.
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
        """Return the dtypes of the domain that both languages of the track support."""
        languages = self.operator.languages
        known = languages[self.track.target].dtypes & languages[self.track.source].dtypes
        return tuple(d for d in self.operator.domain.dtypes if d in known)

    @property
    def answers_hash(self) -> str:
        """Return a hash of the implementations that test the judge."""
        return _digest(self.operator.folder, "", lambda top: top in IMPLEMENTATIONS)

    def cases(self, split: Split, max_elements: int | None = None) -> tuple[Case, ...]:
        """Return the written cases of a split in the dtypes of this track, up to a size."""
        cases = (c for c in self.operator.cases if c.split is split and c.dtype in self.dtypes)
        if max_elements is None:
            return tuple(cases)
        return tuple(case for case in cases if self.operator.elements(case) <= max_elements)

    def checked_cases(self, max_elements: int | None = None) -> list[Case]:
        """Return the public cases up to a size, smallest first: seen cases and boundary sizes."""
        boundaries = self.operator.domain.boundaries(self.dtypes, max_elements)
        cases = [*self.cases(Split.SEEN, max_elements), *boundaries]
        return sorted(cases, key=self.operator.elements)


def find_operators(root: Path) -> tuple[str, ...]:
    """Return the names of the operators under `root`, sorted. Raises TaskError."""
    if not root.is_dir():
        raise TaskError(f"{root}: no such folder; name the folder that holds the operators")
    return tuple(sorted(path.parent.name for path in root.glob("*/task.toml")))


def folder_of(root: Path, operator: str) -> Path:
    """Return the folder of an operator under `root`. Raises TaskError."""
    known = find_operators(root)
    if operator in known:
        return root / operator
    if operator and (root / operator).is_dir():
        raise TaskError(f"{root / operator / 'task.toml'}: no such file; every operator needs one")
    names = ", ".join(known) or "none"
    raise TaskError(f"{operator}: no such operator in {root}; there are: {names}")


def load_task(
    root: Path, operator: str, track_slug: str, languages: Languages, kind: str | None = None
) -> Task:
    """Return the task `operator/track_slug` of the folder `root`. Raises TaskError.

    `kind` is its device kind, by default the best that this machine offers.
    """
    folder = folder_of(root, operator)
    loaded = load_operator(folder, languages)
    tracks = {track.slug: track for track in (*loaded.tracks, OPEN_TRACK)}
    if (track := tracks.get(track_slug)) is None:
        raise TaskError(f"{operator}: no track {track_slug}; there are: {', '.join(tracks)}")
    kind = kind or kind_of(languages[track.target].kinds)
    return _task(load_operator(folder, languages, GPU) if kind == GPU else loaded, track, kind)


def load_tasks(path: Path, languages: Languages) -> list[Task]:
    """Return the tasks of one operator folder, each for the best device kind of this machine.

    Raises: TaskError.
    """
    tracks = (*load_operator(path, languages).tracks, OPEN_TRACK)
    kinds = {track: kind_of(languages[track.target].kinds) for track in tracks}
    operators = {kind: load_operator(path, languages, kind) for kind in set(kinds.values())}
    return [_task(operators[kinds[track]], track, kinds[track]) for track in tracks]


def _task(operator: Operator, track: Track, kind: str) -> Task:
    """Return a task of an operator. Raises TaskError where it has no cases to be judged on."""
    digest = _digest(operator.folder, track.slug, lambda top: top not in IMPLEMENTATIONS)
    task = Task(operator, track, digest, kind)
    for split in (Split.SEEN, Split.UNSEEN):
        if not task.cases(split):
            raise TaskError(
                f"{operator.folder}: {track.slug} has no {split} case on a {kind}, where it is"
                f" judged in {', '.join(task.dtypes) or 'no dtype'}; add one, or remove the track"
            )
    return task


def load_operator(path: Path, languages: Languages, kind: str = CPU) -> Operator:
    """Return the operator of a folder. Raises TaskError naming the file and the key.

    A GPU kind takes cases, domain and limits from `gpu.toml` where that exists.
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
        title=table.string("title"),
        category=table.string("category"),
        families=table.strings("families"),
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
    for slug in table.strings("tracks"):
        source, _, target = slug.partition("-to-")
        if source not in languages or target not in languages:
            known = ", ".join(languages)
            table.fail("tracks", f"{slug!r} is not <language>-to-<language> of {known}")
        if (track := Track(source, target)) in tracks:
            table.fail("tracks", f"{slug!r} is there twice; remove one")
        tracks.append(track)
    return tuple(tracks)


def _arguments(table: Table) -> tuple[Argument, ...]:
    arguments = tuple(_argument(item) for item in table.tables("arguments"))
    if all(argument.role != "output" for argument in arguments):
        table.fail("arguments", "none has the role output; add one")
    return arguments


def _argument(item: Table) -> Argument:
    name, role = item.string("name"), item.option("role", ROLES)
    if not name.isidentifier():
        item.fail("name", f"must be an identifier, got {name!r}")
    scalar = role == "scalar"
    dtype = item.option("dtype", ("float32", "int64") if scalar else ("dtype", *ITEM_BYTES))
    shape = () if scalar else item.items("shape", "sizes")
    for dimension in shape:
        if not all(f.isdigit() or f.isidentifier() for f in factors(dimension)):
            item.fail("shape", f"{dimension!r} is not an integer, a symbol or a product of them")
    item.finish()
    return Argument(name, role, dtype, shape)


def _domain(table: Table, arguments: tuple[Argument, ...], limits: Limits) -> Domain:
    dtypes = table.strings("dtypes")
    for dtype in dtypes:
        if dtype not in UNIT_ROUNDOFF:
            table.fail("dtypes", f"must be of {', '.join(UNIT_ROUNDOFF)}, got {dtype!r}")
    scalars = (a.name for a in arguments if a.role == "scalar")
    names = dict.fromkeys((*symbols_of(arguments), *scalars))
    symbols = {name: _range(table.table(name)) for name in names}
    table.finish()
    return Domain(dtypes, symbols, arguments, limits.case_mb * 2**20)


def _range(item: Table) -> Range:
    if item.has("choices"):
        values = item.numbers("choices")
        item.finish()
        return Choices(values)
    bounds = item.numbers("log_uniform")
    multiple = item.integer("multiple_of") if item.has("multiple_of") else 1
    sizes = [bound for bound in bounds if isinstance(bound, int)]
    if len(bounds) != 2 or len(sizes) != 2 or not 1 <= sizes[0] < sizes[1]:
        advice = f"must be two sizes [low, high] with 1 <= low < high, got {bounds}"
        item.fail("log_uniform", advice)
    item.finish()
    return LogUniform(sizes[0], sizes[1], multiple)


def _limits(table: Table) -> Limits:
    limits = Limits(table.positive("seconds"), table.integer("memory_mb"), table.integer("case_mb"))
    table.finish()
    return limits


def _tolerance(table: Table, domain: Domain) -> dict[str, Tolerance]:
    tolerance = {}
    # A domain of `gpu.toml` can have more dtypes than that of `task.toml`.
    others = (dtype for dtype in table.names() if dtype in UNIT_ROUNDOFF)
    for dtype in dict.fromkeys((*domain.dtypes, *others)):
        item = table.table(dtype)
        tolerance[dtype] = Tolerance(item.positive("c1"), item.positive("c2"))
        item.finish()
    table.finish()
    return tolerance


def _cases(table: Table, domain: Domain) -> tuple[Case, ...]:
    cases: dict[str, Case] = {}
    for item in table.tables("cases"):
        case = _case(item, domain)
        if case.name in cases:
            item.fail("name", f"{case.name!r} is the name of an earlier case; choose another")
        cases[case.name] = case
    for split in (Split.SEEN, Split.UNSEEN):
        if all(case.split is not split for case in cases.values()):
            table.fail("cases", f"none is {split}; add cases that an agent sees, and unseen ones")
    return tuple(cases.values())


def _case(item: Table, domain: Domain) -> Case:
    name, kind = item.string("name"), item.option("kind", KINDS)
    split = Split(item.option("split", (Split.SEEN, Split.UNSEEN)))
    dtype = item.option("dtype", domain.dtypes)
    symbols = {symbol: item.number(symbol) for symbol in domain.symbols}
    for symbol, values in domain.symbols.items():
        if not values.holds(symbols[symbol]):
            item.fail(symbol, f"{symbols[symbol]!r} lies outside the domain, {values}")
    case = Case(name, split, kind, dtype, symbols)
    if tensor_bytes(domain.arguments, case) > domain.max_bytes:
        item.fail("name", f"{name!r} is larger than limits.case_mb")
    item.finish()
    return case


def _digest(folder: Path, salt: str, includes: Callable[[str], bool]) -> str:
    """Return a hash of the operator's files whose first path component is included."""
    digest = hashlib.sha256(salt.encode())
    for path in sorted(p for p in folder.rglob("*") if p.is_file() and p.suffix != ".pyc"):
        name = path.relative_to(folder)
        if includes(name.parts[0]):
            content = path.read_bytes()
            digest.update(f"\0{name.as_posix()}\0{len(content)}\0".encode())
            digest.update(content)
    return digest.hexdigest()
