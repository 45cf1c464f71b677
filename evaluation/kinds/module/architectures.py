"""Architectures: models as data, one TOML file each, with the modules that tasks replace."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from evaluation.device_kind import CPU, GPU
from evaluation.errors import RequestError, TaskError
from evaluation.tasks.toml_reader import Table, read_text

FOLDER = Path(__file__).resolve().parents[3] / "tasks" / "production"
TRACK = "production"
FAMILIES = (
    "llm", "linear_attention", "vision", "speech", "multimodal", "edge", "3d_robotics",
    "recommender", "world_model",
)  # fmt: skip
LIBRARIES = ("transformers", "diffusers", "timm", "torch_geometric")
KINDS = ("causal", "forward")
CACHES = ("static", "dynamic", "own", "none")
"""The cache of a causal model: of the library, or of the model itself."""
DTYPES = ("bfloat16", "float32")
PHASES = {"causal": ("prefill", "decode"), "forward": ("forward",)}
CATEGORIES = (
    "normalization", "mlp", "attention", "router", "experts", "state-space", "linear-attention",
    "rotary", "embedding", "convolution", "block", "detection",
)  # fmt: skip
COLLECTIVES = (
    "ReduceOp", "all_gather", "all_gather_into_tensor", "all_reduce", "broadcast", "get_rank",
    "get_world_size", "reduce_scatter_tensor",
)  # fmt: skip
"""Names of `torch.distributed` that a module may use where it is split over ranks."""


@dataclass(frozen=True)
class InputSpec:
    """One tensor of a forward.

    Integers are drawn `below` a bound, `values` are fixed, and anything else is normal.
    """

    name: str
    shape: tuple[int, ...]
    below: int = 0
    values: tuple[Any, ...] = ()
    dtype: str = ""


@dataclass(frozen=True)
class Size:
    """A model for one kind of device: constructor arguments, inputs of a forward, decode steps."""

    settings: Mapping[str, Any]
    inputs: tuple[InputSpec, ...]
    steps: int = 16


@dataclass(frozen=True)
class ModuleTask:
    """A module class of an architecture, which a candidate replaces wherever it occurs."""

    name: str
    title: str
    category: str
    module: str
    """The dotted path of the class."""

    @property
    def target_file(self) -> str:
        """Return the name of the file that a candidate hands in."""
        return f"{self.name}.py"


@dataclass(frozen=True)
class Parallel:
    """Tensor parallelism of a model: the number of ranks, and what each has a part of."""

    ranks: int
    divided: tuple[str, ...]
    """Integers of the settings, of which each rank has an equal part."""
    column: tuple[str, ...]
    """Names of linear layers of which a rank has a part of the outputs."""
    row: tuple[str, ...]
    """Names of linear layers of which a rank has a part of the inputs; ranks add the results."""


@dataclass(frozen=True)
class Architecture:
    """A model of a library, built from its config class with random weights."""

    name: str
    title: str
    family: str
    library: str
    model: str
    config: str
    """The config class; empty where the model takes the settings itself."""
    kind: str
    cache: str
    paper: str
    """The name of FastKernels' architecture that this one is; empty for none."""
    stand_in: bool
    """True where it is another architecture, which stands in for `paper`."""
    note: str
    options: Mapping[str, Any]
    """Fixed keyword arguments of every forward."""
    sizes: Mapping[str, Size]
    tasks: tuple[ModuleTask, ...]
    hash: str = field(compare=False)
    parallel: Parallel | None = None
    """None where one process has the whole model."""
    dtype: str = "bfloat16"
    """The dtype of its weights; those of torch_geometric stay in float32."""
    float32: tuple[str, ...] = ()
    """Parts of the names of parameters that stay in float32, as in a loaded checkpoint."""

    @property
    def ranks(self) -> int:
        """The processes of the model, each with a GPU of its own where it uses one."""
        return self.parallel.ranks if self.parallel else 1

    @property
    def phases(self) -> tuple[str, ...]:
        return PHASES[self.kind]

    def task(self, name: str) -> ModuleTask:
        return next(task for task in self.tasks if task.name == name)

    def task_hash(self, task: ModuleTask) -> str:
        """Return the hash of a task, which changes with the file of its architecture."""
        return hashlib.sha256(f"{self.hash}{task.name}".encode()).hexdigest()

    def missing(self) -> str:
        """Return why this machine cannot build the model; empty when it can."""
        if (spec := find_spec(self.library)) is None:
            return (
                f"{self.library} is not installed; install the group `production` "
                "(scripts/install production)"
            )
        folder = Path(spec.origin or "").parent.parent
        if not any(map(folder.is_relative_to, (sys.prefix, sys.base_prefix))):
            return (  # the processes would import another version, or none
                f"{self.library} is in {folder}, which sandboxed processes do not read; "
                f"install it in {sys.prefix}, not by PYTHONPATH, --user or --target"
            )
        if self.library == "timm" and find_spec("torchvision") is None:
            return "timm needs torchvision; install the build that belongs to this torch"
        return ""


def architectures(folder: Path = FOLDER) -> dict[str, Architecture]:
    """Return every architecture by name. Raises TaskError naming the file and the key."""
    return dict(_architectures(folder))


@cache
def _architectures(folder: Path) -> Mapping[str, Architecture]:
    found = {path.stem: load(path) for path in sorted(folder.glob("*.toml"))}
    names: dict[str, str] = {}
    for architecture in found.values():
        for task in architecture.tasks:
            if (other := names.setdefault(task.name, architecture.name)) != architecture.name:
                raise TaskError(f"{folder}: {task.name} is in {other} and {architecture.name}")
    return found


def find_task(name: str, folder: Path = FOLDER) -> tuple[Architecture, ModuleTask]:
    """Return a production task with its architecture. Raises RequestError."""
    for architecture in _architectures(folder).values():
        for task in architecture.tasks:
            if task.name == name:
                return architecture, task
    raise RequestError(
        f"{name}: no such production task; `python -m evaluation production tasks` lists them"
    )


def load(path: Path) -> Architecture:
    """Return the architecture of one file. Raises TaskError."""
    table = Table.read(path)
    settings = _plain(table, "settings")
    sizes = {kind: _size(table.table(kind), settings) for kind in (CPU, GPU)}
    architecture = Architecture(
        name=path.stem,
        title=table.string("title"),
        family=table.option("family", FAMILIES),
        library=table.option("library", LIBRARIES),
        model=table.string("model"),
        config=table.string("config") if table.has("config") else "",
        kind=table.option("kind", KINDS),
        cache=table.option("cache", CACHES) if table.has("cache") else "none",
        paper=table.string("paper") if table.has("paper") else "",
        stand_in=table.has("stand_in") and table.option("stand_in", ("yes", "no")) == "yes",
        note=table.string("note") if table.has("note") else "",
        options=_plain(table, "options"),
        sizes=sizes,
        tasks=tuple(map(_task, table.tables("tasks"))) if table.has("tasks") else (),
        hash=hashlib.sha256(read_text(path).encode()).hexdigest(),
        parallel=_parallel(table.table("parallel")) if table.has("parallel") else None,
        dtype=table.option("dtype", DTYPES) if table.has("dtype") else DTYPES[0],
        float32=table.strings("float32") if table.has("float32") else (),
    )
    table.finish()
    if architecture.parallel:
        for kind, size in sizes.items():
            _check_divisible(path, kind, size, architecture.parallel)
    if architecture.kind == "causal" and architecture.cache == "none":
        raise TaskError(f"{path}: cache: a causal model needs one of {', '.join(CACHES[:-1])}")
    return architecture


def _size(table: Table, shared: Mapping[str, Any]) -> Size:
    settings = merged(shared, _plain(table, "settings"))
    inputs = table.table("inputs")
    specs = tuple(_input(inputs.table(name), name) for name in inputs.names())
    steps = table.integer("steps") if table.has("steps") else 16
    table.finish()
    return Size(settings, specs, steps)


def _parallel(table: Table) -> Parallel:
    parallel = Parallel(
        ranks=table.integer("ranks"),
        divided=table.strings("divided"),
        column=table.strings("column"),
        row=table.strings("row"),
    )
    if parallel.ranks < 2:
        table.fail("ranks", "must be 2 or more; leave out `parallel` for one process")
    table.finish()
    return parallel


def _check_divisible(path: Path, kind: str, size: Size, parallel: Parallel) -> None:
    """Require settings that can be divided. Raises TaskError."""
    for name in parallel.divided:
        value = size.settings.get(name)
        if not isinstance(value, int) or value % parallel.ranks:
            raise TaskError(
                f"{path}: parallel.divided: {kind}.settings.{name} is {value}; it must be a "
                f"multiple of the {parallel.ranks} ranks"
            )


def _input(table: Table, name: str) -> InputSpec:
    shape = tuple(table.items("shape", "sizes")) if table.has("shape") else ()
    values = tuple(table.items("values", "numbers")) if table.has("values") else ()
    if not shape and not values:
        table.fail("shape", "missing; add a shape, or fixed `values`")
    below = table.integer("below") if table.has("below") else 0
    dtype = table.string("dtype") if table.has("dtype") else ""
    table.finish()
    return InputSpec(name, shape, below, values, dtype)


def _task(table: Table) -> ModuleTask:
    task = ModuleTask(
        name=table.string("name"),
        title=table.string("title"),
        category=table.option("category", CATEGORIES),
        module=table.string("module"),
    )
    table.finish()
    return task


def _plain(table: Table, key: str) -> dict[str, Any]:
    """Return a table as it is, or an empty one."""
    if not table.has(key):
        return {}
    return table.table(key).rest()


def merged(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Return two nested tables as one; the second wins."""
    result = dict(first)
    for key, value in second.items():
        inner = result.get(key)
        both = isinstance(inner, Mapping) and isinstance(value, Mapping)
        result[key] = merged(inner, value) if both else value  # type: ignore[arg-type]
    return result


def not_admitted(name: str) -> str:
    """Return which commands check a production task, in place of `admit`."""
    architecture, _ = find_task(name)
    return (
        f"{name}: `python -m evaluation production probe {architecture.name}` and "
        f"`production fit {architecture.name}` check modules of live models"
    )
