"""UNTRUSTED: problems of KernelBench's form: `Model`, `get_inputs` and `get_init_inputs`."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from evaluation.importers.files import Files
from evaluation.importers.sandboxed.constants import GENERATORS, Constants
from evaluation.importers.sandboxed.forms.problem_text import CASES
from evaluation.importers.sandboxed.observation import Observed, Sizes, Unsupported
from evaluation.importers.sandboxed.recording import Recording

MODEL = "Model"
RESERVED = frozenset(
    "auto bool break case char class const constexpr continue default delete do double else enum"
    " extern false float for friend goto if inline int long mutable namespace new operator private"
    " protected public register return short signed sizeof static struct switch template this throw"
    " true try typedef union unsigned using virtual void volatile while lambda in is not and or def"
    " del pass from import global raise with yield as assert except finally None True False"
    " reference inputs cost model problem torch functools stream case draw".split()
)
"""Names that mean something in C++, in Python or in a written reference."""


@dataclass(frozen=True)
class Call:
    """One construction and call of the module."""

    names: tuple[str, ...]
    tensors: dict[str, torch.Tensor]
    recording: Recording
    others: dict[str, Any]
    """Arguments of `forward` that are no tensors."""
    init: list[Any]
    init_named: dict[str, Any]
    module: torch.nn.Module
    result: Any
    outputs: tuple[torch.Tensor, ...]


def sources(files: Files, name: str) -> Iterator[str]:
    """Yield the files that may become a task: the problem's own."""
    yield files.source


class KernelBench:
    """A problem file whose constants can be changed.

    It is called on tensors without data, or on those of another `device`.
    """

    def __init__(self, source: str, device: str = "meta") -> None:
        self.device, self.has_data = device, device != "meta"
        self.constants = Constants(source)
        for name in GENERATORS:
            if name not in self.constants.functions:
                raise Unsupported(f"has no function {name}()")
        namespace = self._namespace({})
        if not isinstance(namespace.get(MODEL), type):
            raise Unsupported(f"has no class {MODEL}")
        self.sizes = self.constants.values(namespace)
        self.cases: dict[str, dict[str, object]] = namespace.get(CASES, {})
        self.made_on_cpu = False
        self.published = self.call({})
        self.parameters = parameter_names(self.published.module, self.published.tensors)
        self.weights = frozenset(self.parameters)

    def _namespace(self, values: Sizes) -> dict[str, Any]:
        module = types.ModuleType("problem")
        exec(self.constants.compiled(values), module.__dict__)
        return module.__dict__

    def call(self, values: Sizes) -> Call:
        """Return one call with these sizes."""
        namespace = self._namespace(values)
        recording = Recording()
        with torch.device(self.device):
            with recording:
                given = namespace["get_inputs"]()
                if isinstance(given, types.GeneratorType):
                    given = next(given)
            init, named = init_arguments(namespace["get_init_inputs"]())
            module = self._made(lambda: namespace[MODEL](*init, **named))
            prepare(module)
            signature = inspect.signature(module.forward)
            names = argument_names(signature, len(given))
            result = module(*given)
            outputs = outputs_of(result)
        tensors = {n: x for n, x in zip(names, given, strict=True) if torch.is_tensor(x)}
        others = {n: x for n, x in zip(names, given, strict=True) if not torch.is_tensor(x)}
        for name, value in others.items():
            if type(value) not in (int, float, bool, type(None)):
                raise Unsupported(f"the input {name} is a {type(value).__name__}, no tensor")
        if not tensors:
            raise Unsupported("no input is a tensor")
        return Call(names, tensors, recording, others, init, named, module, result, outputs)

    def _made(self, construct: Callable[[], torch.nn.Module]) -> torch.nn.Module:
        """Return the module; one whose constructor reads numbers is made on a CPU and moved."""
        if not self.made_on_cpu:
            try:
                return construct()
            except (NotImplementedError, RuntimeError):  # `item()` of a tensor without data
                if self.has_data:
                    raise
        with torch.device("cpu"):
            module = construct()
        self.made_on_cpu = True
        return module.to(self.device)

    def observe(self, sizes: Sizes) -> Observed:
        call = self.call(sizes)
        arguments = {name: tuple(x.shape) for name, x in call.tensors.items()}
        weights = dict(call.module.named_parameters())
        for name, path in self.parameters.items():
            arguments[name] = tuple(weights[path].shape)
        return Observed(arguments, tuple(tuple(y.shape) for y in call.outputs))


def init_arguments(found: Any) -> tuple[list[Any], dict[str, Any]]:
    """Return arguments of `__init__`: a list, or a pair of a list and named ones."""
    if not isinstance(found, list | tuple):
        raise Unsupported("get_init_inputs() returns no list")
    match found:
        case [list() as listed, dict() as named]:
            return listed, named
        case _:
            return list(found), {}


def argument_names(signature: inspect.Signature, count: int) -> tuple[str, ...]:
    """Return the names of the inputs, as `forward` names them, changed where they are reserved."""
    names: list[str] = []
    for name, parameter in signature.parameters.items():
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            names += [f"{name}_{number}" for number in range(count - len(names))]
        elif parameter.kind is not inspect.Parameter.VAR_KEYWORD:
            names.append(name)
    if len(names) < count:
        raise Unsupported(f"forward() takes {len(names)} inputs, and get_inputs() gives {count}")
    return tuple(identifier(name, ()) for name in names[:count])


def identifier(name: str, taken: Any) -> str:
    """Return a name that is valid in C++ and Python and not taken."""
    name = "".join(c if c.isascii() and c.isalnum() else "_" for c in name).strip("_") or "x"
    name = f"x{name}" if name[0].isdigit() else name
    while name in RESERVED or name in taken:
        name += "_"
    return name


def parameter_names(module: torch.nn.Module, taken: Mapping[str, Any]) -> dict[str, str]:
    """Return the paths of parameters by the names that they get as arguments."""
    names: dict[str, str] = {}
    for path, _ in module.named_parameters():
        names[identifier(path, {*taken, *names, "out"})] = path
    return names


def prepare(module: torch.nn.Module) -> None:
    """Make a module a function of its inputs: no dropout, and no running statistics."""
    for part in module.modules():
        if isinstance(part, torch.nn.modules.dropout._DropoutNd):
            part.p = 0.0
        if isinstance(part, torch.nn.modules.batchnorm._NormBase):
            part.track_running_stats = False
            part.running_mean = part.running_var = part.num_batches_tracked = None


def outputs_of(result: Any) -> tuple[torch.Tensor, ...]:
    """Return the tensors of a result, nested ones in order."""
    if torch.is_tensor(result):
        return (result,)
    if isinstance(result, list | tuple) and result:
        return tuple(y for each in result for y in outputs_of(each))
    raise Unsupported(f"forward() returns a {type(result).__name__}, no tensor")
