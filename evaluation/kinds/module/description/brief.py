"""Task brief and workspace files of a production task, without an import of any library."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from evaluation.device_kind import CPU, GPU
from evaluation.errors import TaskError
from evaluation.kinds.module.architectures import (
    COLLECTIVES,
    FOLDER,
    TRACK,
    Architecture,
    InputSpec,
    ModuleTask,
    Parallel,
)
from evaluation.kinds.module.description import library_source
from evaluation.kinds.module.description.descriptions import (
    COPY,
    Constructor,
    Description,
    Shapes,
    description_of,
)
from evaluation.kinds.module.description.library_source import LibrarySource
from evaluation.kinds.module.limits import Ratios, limits_by_kind, no_limits
from evaluation.sandboxed.model.phases import Regime, extent
from evaluation.tasks.toml_reader import read_text
from evaluation.types import Interval

_TASK = """\
# {title}, in the model

{prompt}

## What to hand in

One file, `{file}`, with `class ModelNew(torch.nn.Module)`. `reference.py` has the library's class.
`ModelNew` must have

- the same parameters of `__init__` and `forward`, by their names: `__init__({init})`,
  `forward({forward})`
- the same names and shapes in its `state_dict`
- the same results, of the same shapes and dtypes.

The judge makes one `ModelNew` for each module that is replaced, here {places}, with the arguments
of the library's module, and loads its weights. If there is a method
`process_weights_after_loading`, it is called once before anything is timed: pack or transpose
weights there. Weights cannot be written.

{start}
{ranks}
## Where it is used

{paths}

| arguments of the constructor | modules |
|---|---|
{constructors}

At the size of a CPU the model makes these calls. Times are measured at these shapes alone.

| phase | inputs | outputs | calls in one pass |
|---|---|---|---|
{shapes}

{sizes}

## What is timed

{phases}

Weights are drawn anew for each verdict, and inputs for each launch. Candidate and library
alternate. {regimes}

{ceilings}

## Gates

1. integrity: the file keeps the rules below.
2. compile: the modules load with the weights of the library's, and take their places.
3. correctness: each module alone is as exact as the library's on inputs taped from the model.
   Against float64 its error is at most 1.5 times the library's, that of its worst element 3 times.
   Then the model's error against a {exact} model is at most {limits}. Then a model in which
   `ModelNew` is loaded and not put in must be unchanged, bit for bit.
4. performance: the times above, in which some inputs arrive just before their forward. A model
   that is faster than with a module that takes no time, or than its modules alone explain, is
   disputed.

Next tokens of a decode depend on secret noise that comes after the prefill, so no step can be
computed ahead.

## Rules

- Imports: torch, triton, and `math`, `typing`, `functools` and the like. The library itself cannot
  be imported, so what `ModelNew` needs of it must be in the file.
- {native}
- No access to files, processes, the network, or to other modules of the model.
- One source file, `{file}`; other files are not handed in.

## Asking for a verdict

Run `./arena-check` in this folder. It hands in `{file}` as it stands, prints what each gate said
and the speedups, and counts as one round of your budget. A verdict takes about half a minute on a
CPU. There is no `./arena-profile` of a production task.
"""
_RANKS = """
## Ranks

The model is split over {ranks} ranks, which are processes that run at the same time, on a GPU with
one each. Each makes its own `ModelNew`, with 1/{ranks} of {divided} in the config, and loads its
part of the weights: of {column} a part of the outputs, of {row} a part of the inputs. What
`forward` gets and returns is whole, and the same on every rank. So the results of {row} must be
added over the ranks, by `torch.distributed.all_reduce` or in another way.

The process group is ready: gloo on a CPU, NCCL on a GPU. The clock ends when every rank has
answered, and the results of every rank are checked. The shapes below are those of the whole model.
"""
_LIMITS = (
    "{median:.2f} times that of the library's model in the median, and {tail:.2f} times in the "
    "90th percentile"
)
_CPU_ALONE = "It is not judged on a GPU, where no error limits are fitted. "
_ON_GPU = (
    "On a GPU both also run in `torch.compile` and as a CUDA graph. A round leaves `torch.compile` "
    "out. "
)
_NOT_COMPILED = "On a GPU both also run as a CUDA graph. "
_REGIMES = (
    "On a CPU both run in eager{compiled}. {elsewhere}The deployed speedup compares the best "
    "regime of `ModelNew` with the best regime of the library. It is the number that ranks. A "
    "kernel that is faster alone can slow the model: it may break the graph, or undo a fusion that "
    "the compiler had made."
)
_RANK_REGIMES = "Both run in eager alone. The deployed speedup is the number that ranks."
_NATIVE = "C++ and CUDA only as text in `load_inline`; custom operators by `torch.library`."
_RANK_NATIVE = (
    "No C++ and no CUDA; custom operators by `torch.library`. Of `torch.distributed`: {names}."
)
_COPY = "The file holds a copy of the library's class. It passes: make it faster."
_SKELETON = "The file is a skeleton: its methods must be written, after `reference.py`."
_SKELETON_FILE = '''\
"""{title}. See TASK.md and reference.py."""

import torch


class ModelNew(torch.nn.Module):
    def __init__({init}):
        super().__init__()
        raise NotImplementedError("the parameters of the class in reference.py")

    def forward({forward}):
        raise NotImplementedError("the result of the class in reference.py")
'''
_PHASES = {
    "prefill": "A prefill runs a whole prompt and fills the cache.",
    "decode": "A decode then makes {steps} tokens, one step each. A request weighs one prefill and "
    "128 decoded tokens.",
    "forward": "A forward runs the model once.",
}


@dataclasses.dataclass(frozen=True)
class Facts:
    """A module in its model; older versions of a task lack some of this.

    `ceilings` were measured on a CPU.
    """

    architecture: str = ""
    title: str = ""
    family: str = ""
    phases: tuple[str, ...] = ()
    regimes: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    """Regimes of a final verdict, by each kind of device that has error limits."""
    kinds: tuple[str, ...] = (GPU, CPU)
    """Kinds of device that have error limits and as many GPUs as ranks; a worker has one."""
    ranks: int = 1
    module: str = ""
    places: int = 0
    paths: tuple[str, ...] = ()
    constructor: tuple[Constructor, ...] = ()
    shapes: tuple[Shapes, ...] = ()
    ceilings: Mapping[str, Interval] = dataclasses.field(default_factory=dict)
    limits: Ratios | None = None
    """Error limits on a CPU."""
    library: str = ""
    version: str = ""
    licence: str = ""
    unavailable: str = ""
    key: str = ""


@dataclasses.dataclass(frozen=True)
class Brief:
    """The texts and facts of a production task for those who solve it.

    `files` are those of a workspace.
    """

    prompt: str
    reference: str
    dtype: str
    facts: Facts
    files: Mapping[str, str]


def key_of(architecture: Architecture, task: ModuleTask, folder: Path = FOLDER) -> str:
    """Return a hash of all that a brief is made from. It is fast, and reads no library."""
    parts = [
        architecture.hash,
        task.name,
        dataclasses.asdict(_description(architecture, task, folder)),
        {kind: dataclasses.asdict(found) for kind, found in _limits(architecture).items()},
        architecture.missing() or library_source.version(architecture.library),
        _code_hash(),
    ]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


@cache
def _code_hash() -> str:
    own = Path(__file__)
    sources = (own, own.parent.with_name("kind.py"), Path(library_source.__file__))
    return hashlib.sha256("".join(map(read_text, sources)).encode()).hexdigest()


def brief_of(
    architecture: Architecture,
    task: ModuleTask,
    folder: Path = FOLDER,
    limits: Mapping[str, Ratios] | None = None,
) -> Brief:
    """Return the brief of a task, which has less to show where the library is missing.

    The error limits by kind of device are those that `fit` found, where none are given.

    Raises: TaskError for a task without a description or without error limits.
    """
    described, limits = _description(architecture, task, folder), limits or _limits(architecture)
    unavailable = architecture.missing()
    source = None if unavailable else library_source.find(task.module)
    prompt = _prompt(architecture, task, described, source)
    facts = Facts(
        architecture=architecture.name,
        title=architecture.title,
        family=architecture.family,
        phases=architecture.phases,
        regimes={
            kind: tuple(extent(kind, True, architecture.name, architecture.ranks).regimes)
            for kind in limits
        },
        kinds=tuple(limits) if architecture.ranks == 1 else (CPU,),
        ranks=architecture.ranks,
        module=task.module,
        places=described.places,
        paths=described.paths,
        constructor=described.constructor,
        shapes=described.shapes,
        ceilings=described.ceilings,
        limits=limits.get(CPU),
        library=source.library if source else task.module.partition(".")[0],
        version=source.version if source else "",
        licence=source.licence if source else "",
        unavailable=unavailable,
        key=key_of(architecture, task, folder),
    )
    if source is None:
        text = f"# {unavailable}\n"
        return Brief(prompt, text, described.dtype, facts, {})
    files = _files(architecture, task, described, limits, prompt, source)
    return Brief(prompt, source.annotated, described.dtype, facts, files)


def _description(architecture: Architecture, task: ModuleTask, folder: Path) -> Description:
    found = description_of(architecture, task, folder)
    if found is None:
        raise TaskError(
            f"{task.name}: not described as it is; run "
            f"`python -m evaluation {TRACK} describe {architecture.name} --write`"
        )
    return found


def _limits(architecture: Architecture) -> dict[str, Ratios]:
    """Return the error limits by the kind of device. Raises TaskError where there are none."""
    name = architecture.name
    found = limits_by_kind(name)
    if not found:
        raise TaskError(no_limits(name, CPU))
    return found


def _limit_text(limits: Mapping[str, Ratios]) -> str:
    """Return error limits in words, those of each kind of device where they differ."""
    texts = {kind: _LIMITS.format(**vars(each)) for kind, each in limits.items()}
    if len(set(texts.values())) == 1:
        return next(iter(texts.values()))
    return "; ".join(f"on a {kind.upper()} {text}" for kind, text in texts.items())


def _files(
    architecture: Architecture,
    task: ModuleTask,
    described: Description,
    limits: Mapping[str, Ratios],
    prompt: str,
    source: LibrarySource,
) -> dict[str, str]:
    signatures = library_source.signatures(task.module)
    init = signatures.get("__init__", "self, *args, **kwargs")
    forward = signatures.get("forward", "self, *args, **kwargs")
    is_copy = described.starter == COPY
    text = _TASK.format(
        title=task.title,
        prompt=prompt,
        file=task.target_file,
        init=init,
        forward=forward,
        places=described.places,
        start=_COPY if is_copy else _SKELETON,
        paths=_paths(described),
        constructors="\n".join(f"| `{e.arguments}` | {e.count} |" for e in described.constructor),
        shapes="\n".join(
            f"| {e.phase} | {_code(e.inputs)} | {_code(e.outputs)} | {e.count} |"
            for e in described.shapes
        ),
        sizes=_sizes(architecture),
        ranks=_ranks(architecture.parallel),
        regimes=_regimes(architecture, GPU in limits),
        native=_native(architecture),
        phases=" ".join(
            _PHASES[phase].format(steps=architecture.sizes[CPU].steps)
            for phase in architecture.phases
        ),
        ceilings=_ceilings(described),
        exact="float64" if described.dtype == "float32" else "float32",
        limits=_limit_text(limits),
    )
    if is_copy:
        target = _copied(task, architecture)
    else:
        target = _SKELETON_FILE.format(title=task.title, init=init, forward=forward)
    return {task.target_file: target, "TASK.md": text, "reference.py": source.annotated}


def _ranks(parallel: Parallel | None) -> str:
    """Return the section on the ranks of a model that is split."""
    if parallel is None:
        return ""
    layers = {name: _listed(getattr(parallel, name)) for name in ("divided", "column", "row")}
    return _RANKS.format(ranks=parallel.ranks, **layers)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _regimes(architecture: Architecture, on_gpu: bool) -> str:
    if architecture.parallel:
        return _RANK_REGIMES
    measured = extent(CPU, True, architecture.name)
    compiled = [p for p in architecture.phases if Regime.COMPILE in measured.of(p)]
    also = f", the {' and the '.join(compiled)} also in `torch.compile`" if compiled else ""
    regimes = extent(GPU, True, architecture.name).regimes
    gpu = _ON_GPU if Regime.COMPILE in regimes else _NOT_COMPILED
    return _REGIMES.format(compiled=also, elsewhere=gpu if on_gpu else _CPU_ALONE)


def _native(architecture: Architecture) -> str:
    if not architecture.parallel:
        return _NATIVE
    return _RANK_NATIVE.format(names=_listed(COLLECTIVES))


def _copied(task: ModuleTask, architecture: Architecture) -> str:
    """Return a copy of the library's class, which `describe` has tried. Raises TaskError."""
    copied = library_source.copied_rank if architecture.parallel else library_source.copied
    try:
        return copied(task.module)
    except library_source.NotPortable as error:
        raise TaskError(f"{task.name}: {error}; describe it again") from error


def _prompt(
    architecture: Architecture,
    task: ModuleTask,
    described: Description,
    source: LibrarySource | None,
) -> str:
    name = task.module.rpartition(".")[2]
    count = "the only module" if described.places == 1 else f"all {described.places} modules"
    origin = (
        f"{source.library} {source.version}, licence {source.licence}"
        if source
        else task.module.partition(".")[0]
    )
    return (
        f"Write a faster `{name}` for {architecture.title}, a live model with random weights. Your "
        f"class takes the place of {count} of the class `{task.module}` ({origin}). It is judged "
        "alone, in the model, and by the speed of the model."
    )


def _paths(described: Description) -> str:
    shown = ", ".join(f"`{path}`" for path in described.paths)
    left = described.places - len(described.paths)
    return f"{shown}, and {left} more." if left else f"{shown}."


def _code(texts: Sequence[str]) -> str:
    return "<br>".join(f"`{text}`" for text in texts) or "no tensor"


def _sizes(architecture: Architecture) -> str:
    """Return the settings and inputs of the model on each kind of device."""
    lines = ["The model's settings and inputs:", ""]
    for kind, name in ((CPU, "CPU"), (GPU, "GPU")):
        size = architecture.sizes[kind]
        settings = ", ".join(f"{key} {json.dumps(value)}" for key, value in size.settings.items())
        inputs = ", ".join(map(_input, size.inputs))
        lines.append(f"- {name}: {settings}; inputs {inputs}")
    lines += ["", "Any setting that is not named is the default of its config class."]
    return "\n".join(lines)


def _input(spec: InputSpec) -> str:
    return f"{spec.name} {list(spec.shape)}" if spec.shape else f"{spec.name} fixed"


def _ceilings(described: Description) -> str:
    """Return the ceiling of each phase in words."""
    if not described.ceilings:
        return "The ceiling, which is the model's speedup if the module took no time, is not known."
    found = ", ".join(
        f"{phase} {each.speedup:.2f}x [{each.low:.2f}, {each.high:.2f}]"
        for phase, each in described.ceilings.items()
    )
    return (
        "The ceiling is the model's speedup if the module took no time. On a CPU it was measured "
        f"in eager: {found}. More than its upper end cannot be gained."
    )
