"""Tasks, and how `task.toml` is read: an error names the file, the key and the remedy."""

from __future__ import annotations

import ast
import difflib
import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from evaluation.device_kind import CPU, GPU, kind_of
from evaluation.errors import TaskError
from evaluation.shapes import FAMILIES, ITEM_BYTES, WHOLE, factors
from evaluation.tasks.configurations import read_configurations
from evaluation.tasks.domain import Domain
from evaluation.tasks.operator import IEEE, PRECISIONS, Languages, Operator, Track
from evaluation.tasks.source import read_source
from evaluation.tasks.tolerance import UNIT_ROUNDOFF, Tolerance
from evaluation.tasks.toml_reader import Table, read_text
from evaluation.types import Argument, Case, Comparison, Split

OPEN_TRACK = Track("torch", "torch")
"""A track of every operator, beside its own, on which any library call is allowed."""
IMPLEMENTATIONS = ("honest", "mutants")
"""Folders of implementations that test the judge; more of them leave a task's hash unchanged."""
ROLES = ("input", "output", "scalar")
CATEGORIES = tuple(
    "Activation Convolution Fusion Index LinearAlgebra Loss Math MatrixMultiply Normalization"
    " Optimizer Pooling Quantization Random Reduce SpatialOps".split()
)
"""Categories of operators of this project, those of KernelBench-X."""
DEFAULT_LANGUAGES = ("triton", "cuda")
OTHERS = ("repository",)
"""Folders whose subfolders are no operators, whatever files they have."""
MAX_SHOWN = 8
"""Names of operators in the error for one that is not there."""
FITTED = "fitted.toml"
"""Constants of the tolerance that `python -m evaluation fit` writes."""


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
        return tuple(d for d in self.operator.domain.dtypes if d in known or d in WHOLE)

    @property
    def answers_hash(self) -> str:
        """Return a hash of the implementations in the target language, which test the judge."""
        target = f".{self.track.target}"

        def is_answer(path: Path) -> bool:
            return path.parts[0] in IMPLEMENTATIONS and target in path.suffixes

        return _digest(self.operator.folder, "", is_answer)

    def cases(self, split: Split, max_elements: int | None = None) -> tuple[Case, ...]:
        """Return the written cases of a split in the dtypes of this track, up to a size."""
        cases = (c for c in self.operator.cases if c.split is split and c.dtype in self.dtypes)
        if max_elements is None:
            return tuple(cases)
        return tuple(case for case in cases if self.operator.elements(case) <= max_elements)

    def checked_cases(self, max_elements: int | None = None) -> list[Case]:
        """Return the public cases up to a size, smallest first: seen cases and boundary sizes.

        Where all are larger, the smallest is the only one.
        """
        boundaries = self.operator.domain.boundaries(self.dtypes, max_elements)
        cases = [*self.cases(Split.SEEN, max_elements), *boundaries]
        if not cases and max_elements is not None:
            return self.checked_cases()[:1]
        return sorted(cases, key=self.operator.elements)


def find_operators(root: Path) -> tuple[str, ...]:
    """Return the names of the operators under `root`, sorted. Raises TaskError."""
    return tuple(sorted(_folders(root)))


def self_tested(root: Path) -> tuple[str, ...]:
    """Return the names of the operators that have mutants of their own. Raises TaskError."""
    found = sorted(_folders(root).items())
    return tuple(name for name, folder in found if has_mutants(Path(folder)))


def has_mutants(folder: Path) -> bool:
    """Return whether an operator has mutants of its own, which test the judge's languages."""
    return (folder / "mutants").is_dir()


def _folders(root: Path) -> dict[str, str]:
    """Return the folders of operators by name: those in `root`, and those in its folders.

    Raises: TaskError.
    """
    if not root.is_dir():
        raise TaskError(f"{root}: no such folder; name the folder that holds the operators")
    found: dict[str, str] = {}
    outer = [path for path in _subfolders(root) if os.path.basename(path) not in OTHERS]
    for folder in (*outer, *(inner for each in outer for inner in _subfolders(each))):
        if not os.path.isfile(os.path.join(folder, "task.toml")):
            continue
        name = os.path.basename(folder)
        if other := found.get(name):
            raise TaskError(f"{folder}: {other} is an operator of that name; rename one")
        found[name] = folder
    return found


def _subfolders(root: str | Path) -> list[str]:
    """Return the paths of the folders in a folder, sorted."""
    with os.scandir(root) as entries:
        return sorted(entry.path for entry in entries if entry.is_dir())


def folder_of(root: Path, operator: str) -> Path:
    """Return the folder of an operator under `root`. Raises TaskError."""
    known = _folders(root)
    if operator in known:
        return Path(known[operator])
    if operator and (root / operator).is_dir():
        raise TaskError(f"{root / operator / 'task.toml'}: no such file; every operator needs one")
    raise TaskError(f"{operator}: no such operator in {root}; {_advice(operator, sorted(known))}")


def _advice(name: str, known: Sequence[str]) -> str:
    """Return the known name that is most like an unknown one; the first ones where none is."""
    if near := difflib.get_close_matches(name, known, n=1):
        return f"did you mean {near[0]}?"
    shown = [*known[:MAX_SHOWN], *(["..."] if len(known) > MAX_SHOWN else [])]
    return f"there are: {', '.join(shown) or 'none'}"


def load_task(
    root: Path, operator: str, track_slug: str, languages: Languages, kind: str | None = None
) -> Task:
    """Return the task `operator/track_slug` of the folder `root`. Raises TaskError.

    `kind` is its device kind, by default the best that this machine offers.
    """
    return load_task_of(folder_of(root, operator), track_slug, languages, kind)


def load_task_of(folder: Path, track_slug: str, languages: Languages, kind: str | None) -> Task:
    """Return a task of an operator folder, and read no other folder. Raises TaskError."""
    loaded = load_operator(folder, languages, kind or CPU)
    tracks = {track.slug: track for track in (*loaded.tracks, OPEN_TRACK)}
    optional = {track.slug: track for track in _optional_tracks(loaded, languages)}
    if (track := {**optional, **tracks}.get(track_slug)) is None:
        raise TaskError(f"{folder.name}: no track {track_slug}; there are: {', '.join(tracks)}")
    if kind:
        return _task(loaded, track, kind)
    kind = kind_of(languages[track.target].kinds)
    return _task(loaded if kind == CPU else load_operator(folder, languages, kind), track, kind)


def _optional_tracks(operator: Operator, languages: Languages) -> list[Track]:
    """Return the tracks from PyTorch to languages with a package of their own.

    An operator that goes to Triton goes to those too, though the catalogue does not list them.
    """
    if Track("torch", "triton") not in operator.tracks:
        return []
    return [Track("torch", name) for name, language in languages.items() if language.optional]


def load_tasks(path: Path, languages: Languages) -> list[Task]:
    """Return the tasks of one operator folder, each for the best device kind of this machine.

    Raises: TaskError.
    """
    operators = {CPU: load_operator(path, languages)}
    tracks = (*operators[CPU].tracks, OPEN_TRACK)
    kinds = {track: kind_of(languages[track.target].kinds) for track in tracks}
    if GPU in kinds.values():
        operators[GPU] = load_operator(path, languages, GPU)
    return [_task(operators[kinds[track]], track, kinds[track]) for track in tracks]


def _task(operator: Operator, track: Track, kind: str) -> Task:
    """Return a task of an operator. Raises TaskError where it has no cases to be judged on."""
    digest = _digest(operator.folder, track.slug, lambda path: path.parts[0] not in IMPLEMENTATIONS)
    task = Task(operator, track, digest, kind)
    judged = (dtype for dtype in task.dtypes if dtype not in WHOLE)
    if operator.has_roundings and (lacking := [d for d in judged if d not in operator.tolerance]):
        raise TaskError(
            f"{operator.folder}: no tolerance for {', '.join(lacking)}: run"
            f" `{fit_command(operator.name)}`, or write [tolerance] in task.toml"
        )
    for split in (Split.SEEN, Split.UNSEEN):
        if not task.cases(split):
            raise TaskError(
                f"{operator.folder}: {track.slug} has no {split} case on a {kind}, where it is"
                f" judged in {', '.join(task.dtypes) or 'no dtype'}; add one, or remove the track"
            )
    return task


def load_operator(
    path: Path, languages: Languages, kind: str = CPU, has_tolerance: bool = True
) -> Operator:
    """Return the operator of a folder. Raises TaskError naming the file and the key.

    A GPU kind takes cases, domain and limits from `gpu.toml` where that exists. Without
    `has_tolerance`, that of the operator is not read: it is to be fitted.
    """
    table = Table.read(path / "task.toml")
    arguments = _arguments(table)
    if kind == GPU and (path / "gpu.toml").is_file():
        larger = Table.read(path / "gpu.toml")
        configurations = read_configurations(larger, arguments, kind, path.name)
        larger.finish()
        for key in ("limits", "domain", "cases", "models", "gpu", "derived", "require", "shrinks"):
            table.discard(key)
    else:
        configurations = read_configurations(table, arguments, kind, path.name)
    limits, domain, cases = configurations
    source = read_source(table)
    tree = _parsed(path / "reference.py")
    operator = Operator(
        name=path.name,
        title=table.string("title"),
        source=source,
        category=_category(table, path, is_imported=source is not None),
        families=table.strings("families"),
        level=table.integer("level") if table.has("level") else 1,
        tracks=_tracks(table, path, languages),
        arguments=arguments,
        domain=domain,
        limits=limits,
        tolerance=_tolerance(table, path, domain) if has_tolerance else {},
        cases=cases,
        prompt=_prompt(path, tree),
        folder=path,
        languages=languages,
        input_families=_families(table),
        precision=table.option("precision", PRECISIONS) if table.has("precision") else IEEE,
    )
    if not has_tolerance:
        table.discard("tolerance")
    table.finish()
    return operator


def _parsed(path: Path) -> ast.Module:
    """Return a `reference.py`, compiled and not run. Raises TaskError naming the file and line."""
    try:
        tree = ast.parse(read_text(path), path)
        compile(tree, path, "exec", dont_inherit=True)
        return tree
    except SyntaxError as error:
        raise TaskError(f"{path}: line {error.lineno or 1}: {error.msg}") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise TaskError(f"{path}: cannot be compiled: {error}") from None


def _category(table: Table, path: Path, is_imported: bool) -> str:
    """Return the category: one of CATEGORIES, unless imported, and that of the folder above.

    Raises: TaskError.
    """
    category, folder = table.string("category"), path.absolute().parent.name
    if folder in CATEGORIES and category != folder:
        table.fail("category", f"must be {folder}, as the folder above; got {category!r}")
    if category not in CATEGORIES and not is_imported:
        table.fail("category", f"must be one of {', '.join(CATEGORIES)}; got {category!r}")
    return category


def _prompt(path: Path, tree: ast.Module) -> str:
    """Return `prompt.md`, or else the docstring of the reference."""
    if (path / "prompt.md").is_file():
        return read_text(path / "prompt.md")
    docstring = ast.get_docstring(tree)
    if not docstring:
        source = path / "reference.py"
        raise TaskError(f"{source}: begin with a docstring, which is the prompt; or add prompt.md")
    return docstring


def _families(table: Table) -> tuple[str, ...]:
    if not table.has("input_families"):
        return FAMILIES
    named = table.strings("input_families")
    for name in named:
        if name not in FAMILIES:
            table.fail("input_families", f"{name!r} is not one of {', '.join(FAMILIES)}")
    if FAMILIES[0] not in named:
        table.fail("input_families", f"{FAMILIES[0]} is missing; timed inputs are of this family")
    return tuple(name for name in FAMILIES if name in named)


def _tracks(table: Table, path: Path, languages: Languages) -> tuple[Track, ...]:
    """Return the named tracks; else those from PyTorch, and one for each baseline."""
    if not table.has("tracks"):
        return _default_tracks(table, path, languages)
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


def _default_tracks(table: Table, path: Path, languages: Languages) -> tuple[Track, ...]:
    named = table.strings("languages") if table.has("languages") else DEFAULT_LANGUAGES
    for name in named:
        if name not in languages or name == "torch":
            known = ", ".join(name for name in languages if name != "torch")
            table.fail("languages", f"{name!r} is not one of {known}")
    baselines = (
        n for n in languages if (path / "baseline" / f"{n}{languages[n].suffix}").is_file()
    )
    from_torch = [Track("torch", name) for name in dict.fromkeys(named)]
    return (*from_torch, *(Track(name, name) for name in baselines if name != "torch"))


def _arguments(table: Table) -> tuple[Argument, ...]:
    arguments = tuple(_argument(item) for item in table.tables("arguments"))
    for role in ("output", "input"):
        if all(argument.role != role for argument in arguments):
            table.fail("arguments", f"none has the role {role}; add one")
    own = {argument.role for argument in arguments if argument.dtype == "dtype"}
    if own == {"output"}:
        table.fail("arguments", "an output has the dtype of the case, but no input; give it one")
    return arguments


def _argument(item: Table) -> Argument:
    name, role = item.string("name"), item.option("role", ROLES)
    if not name.isidentifier():
        item.fail("name", f"must be an identifier, got {name!r}")
    scalar = role == "scalar"
    dtype = "dtype"
    if scalar or item.has("dtype"):
        dtype = item.option("dtype", ("float32", "int64") if scalar else ("dtype", *ITEM_BYTES))
    shape = () if scalar else item.items("shape", "sizes", least=0)
    for dimension in shape:
        if not all(f.isdigit() or f.isidentifier() for f in factors(dimension)):
            item.fail("shape", f"{dimension!r} is not an integer, a symbol or a product of them")
    bounds: tuple[int | float | str, ...] = ()
    if role == "input" and item.has("range"):
        bounds = item.items("range", "two numbers or symbols, [low, high]")
        if len(bounds) != 2 or not all(_is_bound(bound) for bound in bounds):
            item.fail("range", f"must be two numbers or symbols, [low, high], got {list(bounds)}")
    scale = item.positive("scale") if role == "input" and item.has("scale") else 1.0
    structured = role == "input" and item.has("structured") and item.flag("structured")
    parameter = item.string("parameter") if role == "input" and item.has("parameter") else ""
    compare = ""
    if role == "output" and item.has("compare"):
        compare = item.option("compare", tuple(Comparison))
        if (compare == Comparison.ROUNDED) != (dtype in WHOLE) and compare != Comparison.PROPERTY:
            item.fail("compare", f"{compare} is not for {dtype}; rounded is for whole numbers")
    item.finish()
    return Argument(name, role, dtype, shape, bounds, scale, structured, compare, parameter)


def _is_bound(value: object) -> bool:
    return type(value) in (int, float) or (isinstance(value, str) and value.isidentifier())


def _tolerance(table: Table, path: Path, domain: Domain) -> dict[str, Tolerance]:
    """Return the constants by dtype, of the task or of its fit; none where there is neither."""
    if table.has("tolerance"):
        return _constants(table.table("tolerance"), domain)
    if not (path / FITTED).is_file():
        return {}
    fitted = Table.read(path / FITTED)
    fitted.discard("measured")
    if fitted.string("reference") != reference_hash(path):
        fitted.fail("reference", f"reference.py has changed; run `{fit_command(path.name)}` again")
    constants = _constants(fitted.table("tolerance"), domain) if fitted.has("tolerance") else {}
    fitted.finish()
    return constants


def fit_command(operator: str) -> str:
    return f"python -m evaluation fit {operator}"


def reference_hash(path: Path) -> str:
    """Return the hash by which a fit names the reference that it is for."""
    return hashlib.sha256(read_text(path / "reference.py").encode()).hexdigest()[:16]


def _constants(table: Table, domain: Domain) -> dict[str, Tolerance]:
    tolerance = {}
    # A domain of `gpu.toml` can have more dtypes than that of `task.toml`.
    own = (dtype for dtype in domain.dtypes if dtype not in WHOLE)
    others = (dtype for dtype in table.names() if dtype in UNIT_ROUNDOFF)
    for dtype in dict.fromkeys((*own, *others)):
        item = table.table(dtype)
        tolerance[dtype] = Tolerance(item.positive("c1"), item.positive("c2"))
        item.finish()
    table.finish()
    return tolerance


def files_of(folder: Path) -> list[Path]:
    """Return the files of an operator's folder, sorted, without compiled Python."""
    return sorted(p for p in folder.rglob("*") if p.is_file() and p.suffix != ".pyc")


def _digest(folder: Path, salt: str, includes: Callable[[Path], bool]) -> str:
    """Return a hash of those of the operator's files whose paths in its folder are included."""
    digest = hashlib.sha256(salt.encode())
    for path in files_of(folder):
        name = path.relative_to(folder)
        if includes(name):
            content = path.read_bytes()
            digest.update(f"\0{name.as_posix()}\0{len(content)}\0".encode())
            digest.update(content)
    return digest.hexdigest()
