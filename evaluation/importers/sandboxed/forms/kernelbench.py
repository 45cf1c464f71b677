"""UNTRUSTED: problems of KernelBench's form: `Model`, `get_inputs` and `get_init_inputs`."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from evaluation.importers.files import Files
from evaluation.importers.sandboxed.constants import GENERATORS, Constants
from evaluation.importers.sandboxed.forms.problem_text import CASES
from evaluation.importers.sandboxed.observation import Observed, Sizes, Unsupported
from evaluation.importers.sandboxed.recording import Recording

MODEL = "Model"
RECURRENT = ("lstm", "gru", "rnn_tanh", "rnn_relu")
"""Recurrent networks of PyTorch, as their modules call them."""
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
    drawn: tuple[str, ...]
    """Paths of the tensors that the constructor drew and that are no parameters."""
    result: Any
    outputs: tuple[torch.Tensor, ...]

    @property
    def weights(self) -> dict[str, torch.Tensor]:
        """The parameters by path, and the other tensors that the constructor drew.

        A call may have assigned one of those to the name of another, too.
        """
        buffers = dict(self.module.named_buffers(remove_duplicate=False))
        return {**dict(self.module.named_parameters()), **{n: buffers[n] for n in self.drawn}}


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
        self.parameters = parameter_names(self.published.weights, self.published.tensors)
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
            made = Recording()
            with made:
                module = self._made(lambda: namespace[MODEL](*init, **named))
            prepare(module)
            drawn = register_drawn(module, made, self.device)
            signature = inspect.signature(module.forward)
            names = argument_names(signature, len(given))
            with nullcontext() if self.has_data else recurrent_shapes():
                result = module(*given)
            outputs = outputs_of(result)
        tensors = {n: x for n, x in zip(names, given, strict=True) if torch.is_tensor(x)}
        others = {n: x for n, x in zip(names, given, strict=True) if not torch.is_tensor(x)}
        for name, value in others.items():
            if type(value) not in (int, float, bool, type(None)):
                raise Unsupported(f"the input {name} is a {type(value).__name__}, no tensor")
        if not tensors:
            raise Unsupported("no input is a tensor")
        return Call(names, tensors, recording, others, init, named, module, drawn, result, outputs)

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
        weights = call.weights
        if weights.keys() != self.published.weights.keys():
            raise Unsupported("the module has other weights")  # such as those of more layers
        for name, path in self.parameters.items():
            arguments[name] = tuple(weights[path].shape)
        return Observed(arguments, tuple(tuple(y.shape) for y in call.outputs))


@contextmanager
def recurrent_shapes() -> Iterator[None]:
    """Let recurrent networks of PyTorch give tensors of the right shapes meanwhile, not computed.

    Without data, each step of each layer would be a dozen operations: seconds for a call.
    """
    functions: Any = torch._VF
    for name in RECURRENT:
        setattr(functions, name, partial(_recurrent, getattr(functions, name)))
    try:
        yield
    finally:
        for name in RECURRENT:
            delattr(functions, name)  # which that module then looks up in PyTorch again


def _recurrent(computed: Callable[..., Any], x: Any, states: Any, *rest: Any) -> Any:
    """Return outputs and last states of a recurrent network; packed sequences are computed."""
    if not isinstance(rest[1], bool):
        return computed(x, states, *rest)
    _, _, _, _, _, is_bidirectional, _ = rest
    last = [state.clone() for state in ([states] if torch.is_tensor(states) else states)]
    width = last[0].shape[-1] * (2 if is_bidirectional else 1)
    return (x.new_empty(*x.shape[:2], width), *last)


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


def parameter_names(paths: Iterable[str], taken: Mapping[str, Any]) -> dict[str, str]:
    """Return the paths of weights by the names that they get as arguments."""
    names: dict[str, str] = {}
    for path in paths:
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


def register_drawn(module: torch.nn.Module, made: Recording, device: str) -> tuple[str, ...]:
    """Register the tensors that a constructor drew as buffers, and return their paths.

    Such is the first state of a recurrent network. As attributes, they could not be given.
    """
    paths = []
    for prefix, part in module.named_modules():
        for name, value in list(vars(part).items()):
            if torch.is_tensor(value) and made.source_of(value):
                delattr(part, name)
                part.register_buffer(name, value.to(device))
                paths.append(f"{prefix}.{name}".lstrip("."))
    return tuple(paths)


def outputs_of(result: Any) -> tuple[torch.Tensor, ...]:
    """Return the tensors of a result, nested ones in order."""
    if torch.is_tensor(result):
        return (result,)
    if isinstance(result, list | tuple) and result:
        return tuple(y for each in result for y in outputs_of(each))
    raise Unsupported(f"forward() returns a {type(result).__name__}, no tensor")
