"""Description of the tasks of an architecture, from a model that is built and run on the CPU."""

from __future__ import annotations

import importlib.metadata
import inspect
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch
from torch import nn

from evaluation.bench.devices.vendors.cpu import processor_name
from evaluation.bench.process.fork_server import ForkServer
from evaluation.device_kind import CPU
from evaluation.errors import Broken, TaskError
from evaluation.kinds.module import judge
from evaluation.kinds.module.architectures import Architecture, ModuleTask
from evaluation.kinds.module.bounds import ceiling
from evaluation.kinds.module.description import library_source
from evaluation.kinds.module.description.descriptions import (
    COPY,
    SKELETON,
    Constructor,
    Description,
    Shapes,
)
from evaluation.kinds.module.description.library_source import NotPortable
from evaluation.kinds.module.session import LiveSession
from evaluation.sandboxed.model import calls as arguments
from evaluation.sandboxed.model import models, swap
from evaluation.sandboxed.model.models import ModelData
from evaluation.sandboxed.model.phases import Regime
from evaluation.tasks.input_families import dtype_name
from evaluation.types import Interval, to_json

SEED = 7
MAX_PATHS = 8
MAX_CONSTRUCTORS = 6
MAX_SHAPES = 6
"""Rows of each phase that are kept, the most frequent first."""
MAX_VALUE = 60
"""Characters of an argument that are shown."""


def describe(
    architecture: Architecture, cache: Path, with_ceilings: bool, log: Callable[[str], None]
) -> dict[str, Any]:
    """Return the descriptions of all tasks of an architecture, as JSON data."""
    if why := architecture.missing():
        raise TaskError(f"{architecture.name}: {why}")
    found = _Described(architecture)
    tasks: dict[str, Any] = {}
    for task in architecture.tasks:
        ceilings = _ceilings(architecture, task, cache) if with_ceilings else {}
        described = found.of(task, ceilings)
        tasks[task.name] = to_json(described)
        log(
            f"{task.name}: {described.places} modules, {described.starter}, "
            + ", ".join(f"{phase} {each.speedup:.3f}x" for phase, each in ceilings.items())
        )
    return {
        "hash": architecture.hash,
        "version": importlib.metadata.version(architecture.library),
        "device": f"{processor_name()}, {os.cpu_count()} threads",
        "tasks": tasks,
    }


def _ceilings(architecture: Architecture, task: ModuleTask, cache: Path) -> dict[str, Interval]:
    """Return the ceiling of each phase in eager; none where no stored output can be returned."""
    found = {}
    with ForkServer() as server, LiveSession(architecture, [task], CPU, server, cache) as session:
        for phase in architecture.phases:
            try:
                found[phase] = ceiling(session, phase, Regime.EAGER)
            except Broken as error:
                last = str(error).strip().splitlines()[-1]
                print(f"{task.name}, {phase}: no ceiling: {last}", file=sys.stderr)
    return {
        phase: Interval(round(each.speedup, 3), round(each.low, 3), round(each.high, 3))
        for phase, each in found.items()
    }


class _Described:
    """A built model whose modules' constructions and calls are recorded.

    `taped` has the classes of which the judge can repeat a call outside the model.
    """

    def __init__(self, architecture: Architecture) -> None:
        self.architecture = architecture
        self.size = architecture.sizes[CPU]
        self.data = ModelData.of(architecture, self.size)
        self.taped: set[type[nn.Module]] = set()
        self.classes = {task.name: models.module_class(task) for task in architecture.tasks}
        torch.manual_seed(SEED)
        with swap.recorded(set(self.classes.values())) as self.made:
            self.model = models.build(self.data)
        models.draw_weights(self.model, SEED)
        self.model.requires_grad_(False)
        self.dtype = models.float_dtype(self.model)
        generator = torch.Generator().manual_seed(SEED)
        self.inputs = models.draw_inputs(self.size.inputs, self.dtype, generator)

    def of(self, task: ModuleTask, ceilings: Mapping[str, Interval]) -> Description:
        paths = swap.places(self.model, self.classes[task.name])
        if not paths:
            raise TaskError(f"{self.architecture.name} has no {task.module}")
        shapes = self._shapes(paths)
        if self.classes[task.name] not in self.taped:
            raise TaskError(f"{task.name}: each call takes what cannot be taped, such as a cache")
        return Description(
            dtype=dtype_name(self.dtype),
            places=len(paths),
            paths=tuple(paths[:MAX_PATHS]),
            constructor=self._constructors(paths),
            shapes=shapes,
            starter=self._starter(task, paths),
            ceilings=ceilings,
        )

    def _constructors(self, paths: list[str]) -> tuple[Constructor, ...]:
        written = []
        for path in paths:
            made = self.made.of(self.model.get_submodule(path))
            if made is None:
                raise LookupError(f"{path}: its construction was not recorded")
            positional, named = made
            values = [*map(_written, positional)]
            values += [f"{name}={_written(value)}" for name, value in named.items()]
            written.append(", ".join(values))
        return tuple(
            Constructor(text, count)
            for text, count in Counter(written).most_common(MAX_CONSTRUCTORS)
        )

    def _shapes(self, paths: list[str]) -> tuple[Shapes, ...]:
        found = []
        for phase in self.architecture.phases:
            seen: Counter[tuple[tuple[str, ...], tuple[str, ...]]] = Counter()
            with self._hooked(paths, seen):
                self._run(phase, seen)
            found += [
                Shapes(phase, inputs, outputs, count)
                for (inputs, outputs), count in seen.most_common(MAX_SHAPES)
            ]
        return tuple(found)

    @contextmanager
    def _hooked(self, paths: list[str], seen: Counter[Any]) -> Iterator[None]:
        """Count the shapes of each call of the modules at these paths."""

        def after(module: nn.Module, args: Any, kwargs: Any, result: Any) -> None:
            inputs = tuple(
                f"{name} {_shape(value)}"
                for name, given in _named(module, args, kwargs).items()
                for value in arguments.tensors(given)
            )
            seen[inputs, tuple(map(_shape, arguments.tensors(result)))] += 1
            with suppress(arguments.Unsupported):
                arguments.encoded((args, kwargs), [])
                self.taped.add(type(module))

        hooks = [
            self.model.get_submodule(path).register_forward_hook(after, with_kwargs=True)
            for path in paths
        ]
        try:
            yield
        finally:
            for handle in hooks:
                handle.remove()

    @torch.inference_mode()
    def _run(self, phase: str, seen: Counter[Any]) -> Any:
        """Run one forward, or one step after a prefill whose calls are not counted."""
        if phase != "decode":
            return models.forward(self.model, self.inputs, self.data)
        prompt = self.inputs
        cache = models.new_cache(self.model, self.data, prompt["input_ids"].shape[1] + 1)
        cache = models.prefill(self.model, self.data, prompt, cache)
        seen.clear()
        return models.step(self.model, self.data, prompt["input_ids"][:, :1], cache)

    @torch.inference_mode()
    def _starter(self, task: ModuleTask, paths: list[str]) -> str:
        """Return `copy` if a copy of the class has the library's results and keeps the rules."""
        try:
            text = library_source.copied(task.module)
            if (ranks := self.architecture.ranks) > 1:  # tried without the sum over the ranks
                summed = library_source.copied_rank(task.module)
                judge.check_rules({task.target_file: summed}, task, ranks)
            judge.check_rules({task.target_file: text}, task)
            namespace: dict[str, Any] = {"__name__": task.name}
            exec(compile(text, task.target_file, "exec"), namespace)
            new = namespace[swap.MODEL]
            swap.check_interface(new, self.classes[task.name])
            originals = {path: self.model.get_submodule(path) for path in paths}
            want = models.forward(self.model, self.inputs, self.data)
            try:
                for path, module in originals.items():
                    swap.replace(self.model, path, swap.rebuilt(module, self.made, new))
                got = models.forward(self.model, self.inputs, self.data)
            finally:
                for path, module in originals.items():
                    swap.replace(self.model, path, module)
        except NotPortable:
            return SKELETON
        except Exception as error:  # whatever a copy raises, it is no file to start from
            message = f"{task.name}: its copy does not work: {type(error).__name__}: {error}"
            print(message, file=sys.stderr)
            return SKELETON
        return COPY if torch.equal(got, want) else SKELETON


def _named(module: nn.Module, args: Any, kwargs: Any) -> dict[str, Any]:
    """Return the arguments of a call by their names."""
    signature = inspect.signature(module.forward)
    found: dict[str, Any] = {}
    for name, given in signature.bind(*args, **kwargs).arguments.items():
        variable = signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD
        found.update(given if variable else {name: given})
    return found


def _shape(value: torch.Tensor) -> str:
    return f"{dtype_name(value.dtype)}{list(value.shape)}"


def _written(value: Any) -> str:
    """Return an argument as it is written; an object by its class."""
    if value is None or isinstance(value, bool | int | float | str | torch.dtype):
        return repr(value)
    if isinstance(value, tuple | list):
        inner = ", ".join(map(_written, value))
        text = f"({inner})" if isinstance(value, tuple) else f"[{inner}]"
        return text if len(text) <= MAX_VALUE else f"{text[:MAX_VALUE]} ..."
    return type(value).__name__
