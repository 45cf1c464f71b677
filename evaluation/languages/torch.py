"""PyTorch: a function or module that fills its outputs, or returns them.

Returned tensors are copied to the outputs within the measured time. Extensions by `load_inline` are
built beforehand. `torch.compile`, on a GPU only, compiles at the first call.
"""

from __future__ import annotations

import importlib.metadata
import inspect
import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evaluation.building import extensions, native, static_analysis
from evaluation.device_kind import GPU
from evaluation.errors import BuildError, SubmissionError
from evaluation.languages import Kernel
from evaluation.languages._texts import Texts, TrivialSource
from evaluation.languages.cuda import BREACHES
from evaluation.types import Argument, BufferSet, CompilerOutput, Launch, Reason

if TYPE_CHECKING:
    import torch

    from evaluation.tasks.operator import Operator
    from evaluation.tasks.spec import Task

MODEL = "ModelNew"
"""Name of an implementation that is a `torch.nn.Module`, as in KernelBench."""
DISCARDS = "discards_result"
"""Attribute of a baseline function whose result is dropped instead of copied.

A candidate that sets it has written no output.
"""
WATCHED = 16
"""Launches of each binding whose results are checked for shared memory."""
COMPILER = {
    # In this process, of which the judge sees the end, and not in a pool of others.
    "TORCHINDUCTOR_COMPILE_THREADS": "1",
    # To precompile them takes longer than a few kernels make up for.
    "TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS": "0",
    # Its common vectors are taken as the processor says, not compiled and run to see.
    "TORCHINDUCTOR_VEC_ISA_OK": "1",
}
"""Environment variables that `torch.compile` reads at its first call."""
MAX_SHAPES = 1 << 12
"""Recompilations that `torch.compile` may make for other shapes and dtypes.

A verdict has some forty cases; the default of eight would silently run the rest eagerly.
"""
_LOAD_INLINE, _COMPILE = "torch.utils.cpp_extension.load_inline", "torch.compile"
_IN_EXTENSIONS = tuple(breach for breach in BREACHES if breach[0] != "library-wrapper")
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
        "are copied on the clock, while what is to be beaten pays for no copy.\n"
        "`torch.utils.cpp_extension.load_inline` may be called while the file is imported: what\n"
        "it asks for is built once, with no GPU in reach, and found ready-made from then on."
    ),
    rules=(
        "- Any call of PyTorch that works in this process, and extensions in C++ and CUDA; on a\n"
        "  GPU, `torch.compile` too.\n"
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
        "            made({input}, ({output_shape},), {output_dtype}),\n",
        """\
import math

import torch


def made(source, shape, dtype):
    count = math.prod(shape)
    return {value}


class ModelNew(torch.nn.Module):
    def __init__(self, {sizes}):
        super().__init__()
        self.sizes = ({sizes})

    def forward(self, {others}):
        ({sizes}) = self.sizes
        return (
{each}        )
""",
    ),
)


class Torch:
    texts = TEXTS
    name = "torch"
    suffix = ".py"
    dtypes = frozenset({"float32", "float16", "bfloat16"})
    kinds = ("gpu", "cpu")

    def header(self, operator: Operator) -> str:
        return ""

    def check(self, files: Mapping[str, str], task: Task) -> None:
        modules = static_analysis.PURE_MODULES | {"torch"}
        exempt = frozenset({_COMPILE if self.compiles(files, task.kind) else _LOAD_INLINE})
        for name, text in files.items():
            source = static_analysis.Source(name, text)
            static_analysis.refuse_breaches(source, modules, exempt)
            if extensions.requested({name: text}):
                native.refuse_breaches({name: text}, _IN_EXTENSIONS)

    def key(self, files: Mapping[str, str], task: Task) -> str:
        compilers = extensions.key() if extensions.requested(files) else ""
        return f"torch {importlib.metadata.version('torch')}\n{compilers}"

    def compiles(self, files: Mapping[str, str], kind: str) -> bool:
        """Return whether a source uses PyTorch's compiler, on a GPU and without native code.

        Native code of a candidate must not start processes.
        """
        if kind != GPU or extensions.requested(files):
            return False
        return _compiles(files)

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
        for name, text in files.items():
            (folder / name).write_text(text, encoding="utf-8")
        if not extensions.requested(files):
            return [output]
        source = folder / task.target_file
        return [output, extensions.build(source, task.operator.limits.seconds)]

    def judged_here(self) -> str:
        return ""

    def runs_here(self) -> str:
        return ""

    def prepare(self) -> None:
        """Import PyTorch's compiler, which takes seconds."""
        import torch

        os.environ.update(COMPILER)
        asks = torch.cuda.is_available
        torch.cuda.is_available = lambda: True  # it is asked, and no fork of who asks can use CUDA
        try:
            import torch._inductor.compile_fx
        finally:
            torch.cuda.is_available = asks
            tempfile.tempdir = None  # it has asked where ours is, which is not theirs

    def load(self, folder: Path, entry: str) -> Kernel:
        os.environ.update(COMPILER)
        # Else its default, which asks who the user is.
        os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", f"{tempfile.gettempdir()}/inductor")
        if (folder / extensions.FOLDER).exists():
            extensions.stand_in(folder)
        if _compiles({path.name: path.read_text("utf-8") for path in folder.glob("*.py")}):
            compile_any_number()
        module = static_analysis.load_module(folder / f"{entry}.py")
        for name in (entry, MODEL):
            if callable(answer := getattr(module, name, None)):
                return TorchKernel(answer)
        raise SubmissionError(
            Reason.MISSING_ENTRY,
            f"no function `{entry}` in {entry}.py, nor a torch.nn.Module `{MODEL}`; define one",
        )


def _compiles(files: Mapping[str, str]) -> bool:
    """Return whether one of these sources uses `torch.compile`."""
    return any(static_analysis.Source(name, text).uses(_COMPILE) for name, text in files.items())


def compile_any_number() -> None:
    """Let `torch.compile` compile as many cases as there are."""
    import torch._dynamo  # takes a second or two, of which only who compiles pays

    torch._dynamo.config.recompile_limit = MAX_SHAPES
    torch._dynamo.config.accumulated_recompile_limit = MAX_SHAPES


class TorchKernel:
    """A function of inputs and scalars, or a module.

    A function takes all outputs by name and fills them, or returns one tensor or a tuple of them. A
    module is made once for each binding. Sizes and scalars that `__init__` names are passed there
    by name; `forward` gets the inputs and the other scalars, in calling order.
    """

    def __init__(self, answer: Callable[..., Any]) -> None:
        self.answer = answer

    def bind(self, arguments: Sequence[Argument], slots: Sequence[BufferSet]) -> Launch:
        import torch

        given = [a.name for a in arguments if a.role != "output"]
        wanted = [a.name for a in arguments if a.role == "output"]
        function = self.answer
        if isinstance(function, type) and issubclass(function, torch.nn.Module):
            taken = _taken_by(function, slots[0])
            given = [name for name in given if name not in taken]
            function = function(**taken).to(slots[0][wanted[0]].device)
        if into := _filled_by(function, given, wanted):
            return _filling(function, into, slots)
        calls = [([slot[n] for n in given], [slot[n] for n in wanted]) for slot in slots]
        ring = len(calls)
        discards = getattr(function, DISCARDS, False)
        sharing: Sharing | None = Sharing(wanted)

        @torch.inference_mode()
        def run(first: int, count: int) -> None:
            nonlocal sharing
            for index in range(first, first + count):
                inputs, outputs = calls[index % ring]
                returned = function(*inputs)
                if discards:
                    continue
                results = returned if type(returned) is tuple else (returned,)
                if sharing is not None:
                    sharing = sharing if sharing.holds(inputs, results) else None
                if len(results) != len(outputs):
                    raise _mismatch(results, outputs, wanted)
                for output, result in zip(outputs, results, strict=True):
                    if (
                        type(result) is not torch.Tensor
                        or result.shape != output.shape
                        or result.dtype is not output.dtype
                        or result.device != output.device
                    ):
                        raise _mismatch(results, outputs, wanted)
                    if _is_plain(result) and result.data_ptr() == output.data_ptr() != 0:
                        raise SubmissionError(
                            Reason.ALIASED_OUTPUT,
                            "returned the judge's own output; return a tensor of its own",
                        )
                    output.copy_(result)

        return run


def _taken_by(model: Callable[..., Any], slot: BufferSet) -> dict[str, int | float]:
    """Return the sizes and scalars that `__init__` names.

    Raises SubmissionError for another name.
    """
    offered = {n: value for n, value in slot.items() if isinstance(value, int | float)}
    taken = {}
    for name, parameter in inspect.signature(model).parameters.items():
        if name in offered:
            taken[name] = offered[name]
        elif parameter.default is parameter.empty and parameter.kind not in (
            parameter.VAR_POSITIONAL,
            parameter.VAR_KEYWORD,
        ):
            raise SubmissionError(
                Reason.CALL_ERROR,
                f"`{MODEL}.__init__` asks for `{name}`; it may ask for {', '.join(offered)}",
            )
    return taken


def _filled_by(
    function: Callable[..., Any], given: Sequence[str], wanted: Sequence[str]
) -> tuple[list[str], list[str]] | None:
    """Return the arguments of a function that takes its outputs; None where it returns them.

    Raises: SubmissionError where it takes some of them.
    """
    plain = getattr(function, "_orig_mod", function)  # of a module that PyTorch compiles
    try:
        parameters = inspect.signature(getattr(plain, "forward", plain)).parameters
    except (TypeError, ValueError):  # as many a function of PyTorch's own
        return None
    taken = [name for name in wanted if name in parameters]
    if not taken:
        return None
    if len(taken) < len(wanted):
        raise SubmissionError(
            Reason.CALL_ERROR,
            f"takes {', '.join(taken)}, of the outputs {', '.join(wanted)}; take all or none",
        )
    positions, rest = [], list(given)
    for name, parameter in parameters.items():
        by_position = parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        if not by_position or not (name in wanted or rest):
            break
        positions.append(name if name in wanted else rest.pop(0))
    positions += rest
    return positions, [name for name in wanted if name not in positions]


def _filling(
    function: Callable[..., Any], taken: tuple[list[str], list[str]], slots: Sequence[BufferSet]
) -> Launch:
    """Return launches of a function that fills its outputs; its results are dropped."""
    import torch

    positions, keywords = taken
    calls = [([slot[n] for n in positions], {n: slot[n] for n in keywords}) for slot in slots]
    ring = len(calls)

    @torch.inference_mode()
    def run(first: int, count: int) -> None:
        for index in range(first, first + count):
            given, named = calls[index % ring]
            function(*given, **named)

    return run


class Sharing:
    """Finds results that share memory with an input or with the previous call's result."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names
        self.seen = 0
        self.previous: tuple[Any, ...] = ()

    def holds(self, inputs: Sequence[Any], results: tuple[Any, ...]) -> bool:
        """Check one call; return False when enough were checked. Raises SubmissionError."""
        for others, whose in (
            (inputs, "an input"),
            (self.previous, "the result of the call before"),
        ):
            taken = {_storage(other) for other in others if _is_plain(other)}
            for name, result in zip(self.names, results):  # noqa: B905 - a wrong number is told by _mismatch
                if _is_plain(result) and result.numel() and _storage(result) in taken:
                    raise SubmissionError(
                        Reason.ALIASED_OUTPUT,
                        f"{name} shares memory with {whose}; return a tensor of its own",
                    )
        self.previous = results
        self.seen += 1
        return self.seen < WATCHED


def _mismatch(
    results: tuple[Any, ...], outputs: Sequence[torch.Tensor], names: Sequence[str]
) -> SubmissionError:
    """Return the message for a result of another number, shape or dtype than required."""
    if len(results) != len(outputs):
        return SubmissionError(
            Reason.WRONG_SHAPE,
            f"returned {len(results)} values, expected {len(outputs)}: {', '.join(names)}",
        )
    for name, result, output in zip(names, results, outputs, strict=True):
        if not _is_plain(result) or result.device != output.device:
            what = f"{type(result).__name__} on {getattr(result, 'device', 'nothing')}"
            return SubmissionError(
                Reason.WRONG_DTYPE,
                f"{name}: expected a plain torch.Tensor on {output.device}, got {what}",
            )
        if result.shape != output.shape:
            expected, got = list(output.shape), list(result.shape)
            return SubmissionError(
                Reason.WRONG_SHAPE, f"{name}: expected shape {expected}, got {got}"
            )
    expected_dtypes, got_dtypes = [o.dtype for o in outputs], [r.dtype for r in results]
    return SubmissionError(Reason.WRONG_DTYPE, f"expected {expected_dtypes}, got {got_dtypes}")


def _is_plain(value: Any) -> bool:
    """Return whether a value is a strided tensor in memory, not a subclass that imitates one."""
    import torch

    return type(value) is torch.Tensor and value.layout is torch.strided


def _storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


LANGUAGE = Torch()
