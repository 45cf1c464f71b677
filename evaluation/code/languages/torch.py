"""PyTorch: a function or module that fills its outputs, or returns them.

Returned tensors are copied to the outputs within the measured time, as those of the baseline are
for a candidate that is slower (see `gates.performance.measure`). Extensions by `load_inline` are
built beforehand. `torch.compile`, on a GPU only, compiles at the first call, and so does Triton,
whose kernels are interpreted on a CPU.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import inspect
import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evaluation.code.building import extensions, native, static_analysis
from evaluation.code.languages import (
    Kernel,
    Language,
    Texts,
    TrivialSource,
    _signature,
    _suite_module,
    triton,
)
from evaluation.code.languages._python import load_module
from evaluation.code.languages.cuda import RULES
from evaluation.device_kind import GPU, gpu_vendor
from evaluation.errors import BuildError, SubmissionError
from evaluation.tasks.suite_call import extension_call
from evaluation.types import Argument, BufferSet, CompilerOutput, Launch, Reason

if TYPE_CHECKING:
    import torch

    from evaluation.tasks.operator import Operator
    from evaluation.tasks.spec import Task

# torch is imported in functions, because that takes a second.

MODEL, MODELS = "ModelNew", ("ModelNew", "Model")
"""Names of an implementation that is a `torch.nn.Module`, as in KernelBench and in METR's form."""
DISCARDS = "discards_result"
"""Attribute of a baseline function whose result is dropped instead of copied.

A candidate that sets it has written no output.
"""
CHECKED_LAUNCHES = 16
"""Launches of each binding whose results are checked for shared memory."""
COMPILER = {
    # Compile in this process, whose end the judge sees, and not in a pool of processes.
    "TORCHINDUCTOR_COMPILE_THREADS": "1",
    # Precompiling headers takes longer than it saves for a few kernels.
    "TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS": "0",
    # Trust the processor's flags for vector instructions, and compile no test programs.
    "TORCHINDUCTOR_VEC_ISA_OK": "1",
}
"""Environment variables that `torch.compile` reads at its first call."""
COMPILER_IMPORTS = (
    "torch.distributed.tensor.experimental",
    "torch.utils.cpp_extension",
    "sympy.tensor.tensor",
)
"""Modules that its first call imports. On a GPU they might start CUDA, which a fork cannot use."""
MAX_SHAPES = 1 << 12
"""Recompilations that `torch.compile` may make for other shapes and dtypes.

A verdict has some forty cases; the default of eight would silently run the rest eagerly.
"""
_COMPILE = "torch.compile"
_COMPILERS = frozenset({_COMPILE})
_EXTENSIONS = frozenset(
    {"torch.utils", "torch.utils.cpp_extension", "torch.utils.cpp_extension.load_inline"}
)
"""Names that a source with native code may use."""
_EXTENSION_RULES = tuple(rule for rule in RULES if rule[0] != "library-wrapper")
"""Rules for C++ or CUDA in a string; PyTorch's own headers are allowed there."""


TEXTS = Texts(
    skeleton="""\
import torch


def {name}({parameters}):
    \"\"\"Fill {outputs} from the inputs.\"\"\"
    raise NotImplementedError
""",
    convention=(
        "`{file}` defines `{name}({parameters})`, which fills {outputs}, as\n"
        "`torch.mul(a, b, out=c)` fills `c`; or a `torch.nn.Module` named `ModelNew` whose\n"
        "`forward` does. What its `__init__` names of the sizes and scalars, it is given there\n"
        "and not again. Tensors are contiguous; only outputs may be written. Who does not name\n"
        "the outputs among its parameters returns a new tensor or a tuple of them instead. Those\n"
        "are copied on the clock. What is to be beaten pays for the same copy up to a speedup of\n"
        "1, and beyond that for none: fill the outputs to save the copy.\n"
        "`torch.utils.cpp_extension.load_inline` may be called while the file is imported, and in\n"
        "a suite's module also when it is made or first called: what it asks for is built once,\n"
        "with no GPU in reach, and found ready-made from then on.\n"
        "`@triton.jit` kernels may be defined and launched; a CPU interprets them, untimed."
    ),
    rules=(
        "- Any call of PyTorch that works in this process, and extensions in C++ and CUDA or\n"
        "  kernels in Triton, not both; on a GPU, `torch.compile` too.\n"
        "- No files, processes or network, and no state kept from one call to the next."
    ),
    trivial=TrivialSource(
        {
            "zeros": "torch.zeros(shape, dtype=dtype, device=source.device)",
            "constant": "torch.ones(shape, dtype=dtype, device=source.device)",
            "copy": "source.flatten().repeat(count // source.numel() + 1)[:count]"
            ".to(dtype).view(shape)",
            "stale": "torch.empty(shape, dtype=dtype, device=source.device)",
        },
        "            made({input}, ({output_shape}), {output_dtype}),\n",
        """\
import math

import torch


def made(source, shape, dtype):
    count = math.prod(shape)
    return {value}


class ModelNew(torch.nn.Module):
    def __init__(self, {keywords}):
        super().__init__()
        self.sizes = ({sizes})

    def forward(self, {others}):
        ({sizes}) = self.sizes
        return (
{each}        )
""",
    ),
)


class Torch(Language):
    name = "torch"
    suffix = ".py"
    texts = TEXTS
    kinds = ("gpu", "cpu")

    def check(self, files: Mapping[str, str], task: Task) -> None:
        modules = static_analysis.PURE_MODULES | {"torch", "triton"}
        exempt = _COMPILERS if self.compiles(files, task.kind) else _EXTENSIONS
        for name, text in _without_switches(files).items():
            source = static_analysis.Source(name, text)
            static_analysis.check_source(source, modules, exempt)
            if extensions.requested({name: text}):
                native.check_rules({name: text}, _EXTENSION_RULES)
                if _uses_triton({name: text}):
                    message = "Triton compiles when it runs, which native code must not; use one"
                    raise source.unsupported(source.tree, message)

    def ignored(self, files: Mapping[str, str]) -> Sequence[str]:
        found = (static_analysis.without_switches(*each)[1] for each in files.items())
        return [statement for statements in found for statement in statements]

    def key(self, files: Mapping[str, str], task: Task) -> str:
        compilers = extensions.key() if extensions.requested(files) else ""
        if _uses_triton(files):
            compilers += f"triton {importlib.metadata.version('triton')}"
        return f"torch {importlib.metadata.version('torch')}\n{compilers}"

    def compiles(self, files: Mapping[str, str], kind: str) -> bool:
        """Return whether a source uses a compiler when it runs, on a GPU and without native code.

        Native code of a candidate must not start processes.
        """
        uses = _uses_compile(files) or _uses_triton(files)
        return kind == GPU and not extensions.requested(files) and uses

    def untimed(self, files: Mapping[str, str], kind: str) -> str:
        if kind == GPU or not _uses_triton(files):
            return self.judged_here()
        return "on a CPU Triton kernels run in the interpreter, for correctness only"

    def not_run(self, files: Mapping[str, str], kind: str) -> str:
        return "" if kind == GPU else triton.not_interpreted(files)

    def returns(self, files: Mapping[str, str], operator: Operator) -> bool:
        tree = static_analysis.Source("", files.get(f"{operator.name}{self.suffix}", "")).tree
        outputs = [argument.name for argument in operator.outputs]
        return not _signature.names_all(tree, (operator.name, *MODELS), outputs)

    def build(self, files: Mapping[str, str], task: Task, folder: Path) -> Sequence[CompilerOutput]:
        started = time.perf_counter()
        diagnostics = static_analysis.syntax_errors(files)
        output = CompilerOutput(
            tool="python",
            arch="cpu",
            ok=not diagnostics,
            duration_ms=(time.perf_counter() - started) * 1e3,
            text="\n".join(f"{d.file}:{d.line}: {d.message}" for d in diagnostics),
            diagnostics=diagnostics,
        )
        if diagnostics:
            raise BuildError(f"not valid Python: {output.text}", [output])
        for name, text in _without_switches(files).items():
            (folder / name).write_text(text, encoding="utf-8")
        if not extensions.requested(files):
            return [output]
        source = folder / task.target_file
        call = extension_call(task.operator, task.checked_cases()[0])
        return [output, extensions.build(source, task.operator.limits.seconds, call)]

    def prepare(self) -> None:
        """Import PyTorch's compiler, and what it does once in a process, which takes seconds.

        It imports Triton, whose library is interpreted only if that is asked for before.
        """
        import torch

        os.environ.update(COMPILER)
        if not gpu_vendor():
            triton.interpret_without_gpu()
        is_available = torch.cuda.is_available
        # The import calls it, after which no fork of this process could use CUDA.
        torch.cuda.is_available = lambda: True
        try:
            import torch._inductor.compile_fx
            from torch._inductor import codecache
            from torch._inductor.runtime import triton_compat

            codecache.torch_key()  # hashes of PyTorch's and of Triton's own source
            triton_compat.triton_key()
            for name in () if gpu_vendor() else COMPILER_IMPORTS:
                importlib.import_module(name)
            inspect.getmodule(inspect.currentframe())  # finds the files of all modules
        finally:
            torch.cuda.is_available = is_available
            tempfile.tempdir = None  # the import has cached our folder; a fork has its own

    def load(self, folder: Path, entry: str) -> Kernel:
        os.environ.update(COMPILER)
        # The default folder needs a user's name, which a candidate process does not have.
        os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", f"{tempfile.gettempdir()}/inductor")
        if (folder / extensions.FOLDER).exists():
            extensions.replace_load_inline(folder)
        files = {path.name: path.read_text("utf-8") for path in folder.glob("*.py")}
        if _uses_compile(files):
            _allow_recompilations()
        if _uses_triton(files):
            triton.interpret_without_gpu()
        module = load_module(folder / f"{entry}.py")
        for name in (entry, *MODELS):
            if callable(function := getattr(module, name, None)):
                return TorchKernel(function)
        raise SubmissionError(
            Reason.MISSING_ENTRY,
            f"no function `{entry}` in {entry}.py, nor a torch.nn.Module `{MODEL}`; define one",
        )


def _without_switches(files: Mapping[str, str]) -> dict[str, str]:
    return {n: static_analysis.without_switches(n, text)[0] for n, text in files.items()}


def _uses_compile(files: Mapping[str, str]) -> bool:
    """Return whether one of these sources uses `torch.compile`."""
    return any(static_analysis.Source(name, text).uses(_COMPILE) for name, text in files.items())


def _uses_triton(files: Mapping[str, str]) -> bool:
    """Return whether one of these sources imports Triton."""
    sources = (static_analysis.Source(name, text) for name, text in files.items())
    modules = (module for source in sources for module in source.modules.values())
    return any(module.partition(".")[0] == "triton" for module in modules)


def _allow_recompilations() -> None:
    """Let `torch.compile` compile as many cases as there are."""
    import torch._dynamo  # takes a second or two

    torch._dynamo.config.recompile_limit = MAX_SHAPES
    torch._dynamo.config.accumulated_recompile_limit = MAX_SHAPES


class TorchKernel:
    """A function of inputs and scalars, or a module.

    A function has all outputs as parameters and fills them, or returns one tensor or a tuple of
    them. A module is made once for each binding. Sizes and scalars that `__init__` names are passed
    there by name; `forward` gets the inputs and the other scalars, in calling order. Where a suite
    has the operator, a module that can be called as it calls one is (see `_suite_module`).
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.suite_call: _suite_module.SuiteCall | None = None

    def bind(self, arguments: Sequence[Argument], slots: Sequence[BufferSet]) -> Launch:
        import torch

        inputs = [a.name for a in arguments if a.role != "output"]
        outputs = [a.name for a in arguments if a.role == "output"]
        function = self.function
        if isinstance(function, type) and issubclass(function, torch.nn.Module):
            call = self.suite_call
            module = _suite_module.constructed(function, call, slots[0]) if call else None
            if module is None:
                options = _init_arguments(function, slots[0])
                inputs = [name for name in inputs if name not in options]
                module = function(**options).to(slots[0][outputs[0]].device)
            if call and _suite_module.accepts(module.forward, *call["inputs"]):
                inputs = list(call["inputs"])
                slots = [{**slot, **call["constants"]} for slot in slots]
            function = module
        if names := _names_with_outputs(function, inputs, outputs):
            return _launch_filling(function, *names, slots)
        return _launch_returning(function, inputs, outputs, slots)


def _init_arguments(model: Callable[..., Any], slot: BufferSet) -> dict[str, int | float]:
    """Return the sizes and scalars that `__init__` names.

    Raises: SubmissionError for another name.
    """
    values = {n: value for n, value in slot.items() if isinstance(value, int | float)}
    options = {}
    for name, parameter in inspect.signature(model).parameters.items():
        if name in values:
            options[name] = values[name]
        elif parameter.default is parameter.empty and parameter.kind not in (
            parameter.VAR_POSITIONAL,
            parameter.VAR_KEYWORD,
        ):
            raise SubmissionError(
                Reason.CALL_ERROR,
                f"`{MODEL}.__init__` asks for `{name}`; it may ask for {', '.join(values)}",
            )
    return options


def _names_with_outputs(
    function: Callable[..., Any], inputs: Sequence[str], outputs: Sequence[str]
) -> tuple[list[str], list[str]] | None:
    """Return the positional and the keyword arguments of a function with outputs as parameters.

    Returns None where it has none of them. Raises: SubmissionError where it has some of them.
    """
    plain = getattr(function, "_orig_mod", function)  # of a compiled module
    try:
        parameters = inspect.signature(getattr(plain, "forward", plain)).parameters
    except (TypeError, ValueError):  # many functions of PyTorch have no signature
        return None
    named = [name for name in outputs if name in parameters]
    if not named:
        return None
    if len(named) < len(outputs):
        raise SubmissionError(
            Reason.CALL_ERROR,
            f"takes {', '.join(named)}, of the outputs {', '.join(outputs)}; take all or none",
        )
    positions, rest = [], list(inputs)
    for name, parameter in parameters.items():
        by_position = parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        if not by_position or not (name in outputs or rest):
            break
        positions.append(name if name in outputs else rest.pop(0))
    positions += rest
    return positions, [name for name in outputs if name not in positions]


def _launch_filling(
    function: Callable[..., Any],
    positions: Sequence[str],
    keywords: Sequence[str],
    slots: Sequence[BufferSet],
) -> Launch:
    """Return launches of a function that fills its outputs; its results are dropped."""
    import torch

    calls = [([slot[n] for n in positions], {n: slot[n] for n in keywords}) for slot in slots]
    ring = len(calls)

    @torch.inference_mode()
    def run(first: int, count: int) -> None:
        for index in range(first, first + count):
            by_position, by_name = calls[index % ring]
            function(*by_position, **by_name)

    return run


def _launch_returning(
    function: Callable[..., Any],
    input_names: Sequence[str],
    output_names: Sequence[str],
    slots: Sequence[BufferSet],
) -> Launch:
    """Return launches of a function whose results are checked and copied to the outputs."""
    import torch

    calls = [([slot[n] for n in input_names], [slot[n] for n in output_names]) for slot in slots]
    ring = len(calls)
    discards = getattr(function, DISCARDS, False)
    checks: AliasCheck | None = AliasCheck(output_names)

    @torch.inference_mode()
    def run(first: int, count: int) -> None:
        nonlocal checks
        for index in range(first, first + count):
            inputs, outputs = calls[index % ring]
            returned = function(*inputs)
            if discards:
                continue
            results = returned if type(returned) is tuple else (returned,)
            if checks is not None:
                checks = checks if checks.check(inputs, results) else None
            if len(results) != len(outputs):
                raise _mismatch(results, outputs, output_names)
            for output, result in zip(outputs, results, strict=True):
                if (
                    type(result) is not torch.Tensor
                    or result.shape != output.shape
                    or result.dtype is not output.dtype
                    or result.device != output.device
                ):
                    raise _mismatch(results, outputs, output_names)
                if _is_plain(result) and result.data_ptr() == output.data_ptr() != 0:
                    raise SubmissionError(
                        Reason.ALIASED_OUTPUT,
                        "returned the judge's own output; return a tensor of its own",
                    )
                output.copy_(result)

    return run


class AliasCheck:
    """Finds results that share memory with an input or with the previous call's result."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names
        self.count = 0
        self.previous: tuple[Any, ...] = ()

    def check(self, inputs: Sequence[Any], results: tuple[Any, ...]) -> bool:
        """Check one call; return False when enough were checked. Raises SubmissionError."""
        for others, owner in (
            (inputs, "an input"),
            (self.previous, "the result of the call before"),
        ):
            used = {_storage(other) for other in others if _is_plain(other)}
            for name, result in zip(self.names, results):  # noqa: B905 - _mismatch reports lengths
                if _is_plain(result) and result.numel() and _storage(result) in used:
                    raise SubmissionError(
                        Reason.ALIASED_OUTPUT,
                        f"{name} shares memory with {owner}; return a tensor of its own",
                    )
        self.previous = results
        self.count += 1
        return self.count < CHECKED_LAUNCHES


def _mismatch(
    results: tuple[Any, ...], outputs: Sequence[torch.Tensor], names: Sequence[str]
) -> SubmissionError:
    """Return the error for results of another number, shape or dtype than the outputs."""
    if len(results) != len(outputs):
        return SubmissionError(
            Reason.WRONG_SHAPE,
            f"returned {len(results)} values, expected {len(outputs)}: {', '.join(names)}",
        )
    for name, result, output in zip(names, results, outputs, strict=True):
        if not _is_plain(result) or result.device != output.device:
            got = f"{type(result).__name__} on {getattr(result, 'device', 'nothing')}"
            message = f"{name}: expected a plain torch.Tensor on {output.device}, got {got}"
            return SubmissionError(Reason.WRONG_DTYPE, message)
        if result.shape != output.shape:
            message = f"{name}: expected shape {list(output.shape)}, got {list(result.shape)}"
            return SubmissionError(Reason.WRONG_SHAPE, message)
    expected_dtypes, got_dtypes = [o.dtype for o in outputs], [r.dtype for r in results]
    return SubmissionError(Reason.WRONG_DTYPE, f"expected {expected_dtypes}, got {got_dtypes}")


def _is_plain(value: Any) -> bool:
    """Return whether a value is a strided tensor in memory, not a subclass that imitates one."""
    import torch

    return type(value) is torch.Tensor and value.layout is torch.strided


def _storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


LANGUAGE = Torch()
