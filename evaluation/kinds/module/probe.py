"""Probe of architectures on this machine: which build, run, decode and can be swapped into."""

from __future__ import annotations

import copy
import importlib.metadata
import time
import traceback
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from evaluation.kinds.module.architectures import LIBRARIES, Architecture, Size
from evaluation.sandboxed.model import models, swap
from evaluation.sandboxed.model.models import ModelData

SEED = 7


@dataclass
class ModuleFound:
    """A class of modules in a model."""

    module: str
    count: int
    paths: list[str]
    rebuilds: bool
    """True where the forward is bit for bit the same with all of them rebuilt."""
    message: str = ""


@dataclass
class Probe:
    """Findings on one architecture. `error` names the first step that failed."""

    name: str
    parameters: int = 0
    finite: bool = False
    decode_error: float | None = None
    graphs: int | None = None
    graph_breaks: int | None = None
    modules: list[ModuleFound] = field(default_factory=list)
    seconds: float = 0.0
    error: str = ""


def probe(architecture: Architecture, kind: str, graphs: bool = True) -> Probe:
    """Probe one architecture at the size of a kind of device, in float32 on the CPU."""
    started = time.perf_counter()
    found = Probe(architecture.name)
    try:
        if why := architecture.missing():
            found.error = why
        else:
            _probe(architecture, architecture.sizes[kind], found, graphs)
    except Exception as error:  # whatever a library raises is the finding
        line = traceback.format_exc().splitlines()[-2:][0].strip()
        found.error = f"{type(error).__name__}: {error} ({line})"[:400]
    found.seconds = time.perf_counter() - started
    return found


@torch.inference_mode()
def _probe(architecture: Architecture, size: Size, found: Probe, graphs: bool) -> None:
    data = ModelData(**{**vars(ModelData.of(architecture, size)), "dtype": "float32"})
    torch.manual_seed(SEED)
    classes = {type(module) for module in models.build(data).modules()}
    torch.manual_seed(SEED)
    with swap.recorded(classes) as calls:
        model = models.build(data)
    models.draw_weights(model, SEED)
    found.parameters = sum(p.numel() for p in model.parameters())
    inputs = models.draw_inputs(size.inputs, torch.float32, torch.Generator().manual_seed(SEED))
    expected = _forward(model, inputs, architecture)
    found.finite = bool(expected.isfinite().all())
    if architecture.kind == "causal":
        found.decode_error = _decode_error(model, data, inputs)
    if graphs:
        found.graphs, found.graph_breaks = _graphs(model, inputs, architecture)
    found.modules = _modules(model, calls, inputs, architecture, expected)


def _forward(
    model: nn.Module, inputs: Mapping[str, torch.Tensor], architecture: Architecture
) -> torch.Tensor:
    torch.manual_seed(SEED)
    return models.forward(model, inputs, architecture)


def _decode_error(model: nn.Module, data: ModelData, inputs: Mapping[str, torch.Tensor]) -> float:
    """Return the relative difference of one cached step from the uncached forward."""
    tokens = inputs["input_ids"]
    prompt, last = tokens[:, :-1], tokens[:, -1:]
    others = {name: value for name, value in inputs.items() if name != "input_ids"}
    whole = models.forward(model, {"input_ids": tokens, **others}, data)
    cache = models.new_cache(model, data, tokens.shape[1])
    cache = models.prefill(model, data, {"input_ids": prompt, **others}, cache)
    if cache is None:
        raise TypeError(f"the forward returned no {models.cache_argument(model)}")
    step = models.step(model, data, last, cache)
    want = whole[:, -1].double()
    got = models.main_output(step)[:, -1].double()
    return float((got - want).norm() / want.norm())


def _graphs(
    model: nn.Module, inputs: Mapping[str, torch.Tensor], architecture: Architecture
) -> tuple[int, int]:
    """Return the graphs and graph breaks of one forward."""
    import torch._dynamo as dynamo

    dynamo.reset()
    more = {"use_cache": False} if architecture.kind == "causal" else {}
    explained = dynamo.explain(model)(**inputs, **architecture.options, **more)
    dynamo.reset()
    return explained.graph_count, explained.graph_break_count


def _modules(
    model: nn.Module,
    calls: swap.Calls,
    inputs: Mapping[str, torch.Tensor],
    architecture: Architecture,
    expected: torch.Tensor,
) -> list[ModuleFound]:
    counts = Counter(type(module) for name, module in model.named_modules() if name)
    called = _called(model, inputs, architecture)
    result = []
    for cls in counts:
        name = f"{cls.__module__}.{cls.__qualname__}"
        if cls.__module__.startswith("torch.nn.modules.container") or cls not in called:
            continue
        paths = swap.places(model, cls)
        found = ModuleFound(name, len(paths), _patterns(paths), False)
        originals = {path: model.get_submodule(path) for path in paths}
        try:
            swap.swap(model, calls, cls, cls)
            found.rebuilds = torch.equal(_forward(model, inputs, architecture), expected)
            if not found.rebuilds:
                found.message = "the output differs"
        except Exception as error:  # whatever a library raises is the finding
            found.message = f"{type(error).__name__}: {error}"[:200]
        for path, module in originals.items():
            swap.replace(model, path, module)
        result.append(found)
    return result


def _called(
    model: nn.Module, inputs: Mapping[str, torch.Tensor], architecture: Architecture
) -> set[type[nn.Module]]:
    """Return the classes whose forward is called."""
    called: set[type[nn.Module]] = set()
    hooks = [
        module.register_forward_hook(lambda module, *_: called.add(type(module)))
        for module in model.modules()
    ]
    _forward(model, inputs, architecture)
    for hook in hooks:
        hook.remove()
    return called


def _patterns(paths: list[str]) -> list[str]:
    """Return paths with `*` for each number, without duplicates."""
    parts = (".".join("*" if p.isdigit() else p for p in path.split(".")) for path in paths)
    return list(dict.fromkeys(parts))


def versions() -> dict[str, str]:
    """Return the versions on which a probe depends."""
    found = {}
    for name in ("torch", *LIBRARIES):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = ""
    return found


def to_json(found: Probe) -> dict[str, Any]:
    """Return a probe as JSON data."""
    data = copy.copy(vars(found))
    data["modules"] = [vars(module) for module in found.modules]
    data["seconds"] = round(found.seconds, 2)
    return data
