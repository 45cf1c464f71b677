"""PyTorch: a function or a module that fills the outputs it names among its parameters, or returns
them, to be copied to where they belong on the clock. Extensions that it builds by `load_inline` are
built beforehand; what it gives to `torch.compile`, on a GPU alone, is compiled when it is first
called.
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
from evaluation.languages.cuda import BREACHES
from evaluation.types import Argument, BufferSet, CompilerOutput, Launch, Reason

if TYPE_CHECKING:
    import torch

    from evaluation.tasks.spec import Task

MODEL = "ModelNew"
"""The name of an answer that is a `torch.nn.Module`, as KernelBench has it."""
DISCARDS = "discards_result"
"""An attribute by which a function asks that its result be dropped, not copied: a baseline's, which
pays for no copy. A candidate that asks wrote nothing.
"""
WATCHED = 16
"""Launches of each binding whose results are held to see that no memory is handed out twice."""
COMPILER = {
    # In this process, of which the judge sees the end, and not in a pool of others.
    "TORCHINDUCTOR_COMPILE_THREADS": "1",
    # To precompile them takes longer than a few kernels make up for.
    "TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS": "0",
    # Its common vectors are taken as the processor says, not compiled and run to see.
    "TORCHINDUCTOR_VEC_ISA_OK": "1",
}
"""What `torch.compile` reads of the environment when it is first called."""
MOST_SHAPES = 1 << 12
"""How often `torch.compile` may compile a function anew, for other shapes and dtypes: a verdict has
some forty cases. By itself it stops at eight, and the rest would be judged eager without a word.
"""
_LOAD_INLINE, _COMPILE = "torch.utils.cpp_extension.load_inline", "torch.compile"
_IN_EXTENSIONS = tuple(breach for breach in BREACHES if breach[0] != "library-wrapper")
"""What has no place in C++ or CUDA that is a string here; PyTorch's own headers have."""


class Torch:
    name = "torch"
    suffix = ".py"
    dtypes = frozenset({"float32", "float16", "bfloat16"})
    kinds = ("gpu", "cpu")

    def check(self, files: Mapping[str, str], task: Task) -> None:
        modules = static_analysis.PURE_MODULES | {"torch"}
        exempt = frozenset({_COMPILE if self.compiles(files, task.kind) else _LOAD_INLINE})
        for name, text in files.items():
            source = static_analysis.Source(name, text)
            static_analysis.refuse_breaches(source, modules, exempt)
            if extensions.asked_for({name: text}):
                native.refuse_breaches({name: text}, _IN_EXTENSIONS)

    def key(self, files: Mapping[str, str], task: Task) -> str:
        compilers = extensions.key() if extensions.asked_for(files) else ""
        return f"torch {importlib.metadata.version('torch')}\n{compilers}"

    def compiles(self, files: Mapping[str, str], kind: str) -> bool:
        """Only on a GPU, and where nothing but PyTorch's compiler asks for it: native code of a
        stranger's starts no process.
        """
        if kind != GPU or extensions.asked_for(files):
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
        if not extensions.asked_for(files):
            return [output]
        source = folder / task.target_file
        return [output, extensions.build(source, task.operator.limits.seconds)]

    def judged_here(self) -> str:
        return ""

    def runs_here(self) -> str:
        return ""

    def prepare(self) -> None:
        """Import its compiler, seconds of which every contestant that compiles is spared."""
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
    """Whether a source of these speaks of `torch.compile`."""
    return any(static_analysis.Source(name, text).uses(_COMPILE) for name, text in files.items())


def compile_any_number() -> None:
    """Have `torch.compile` compile as many cases as there are."""
    import torch._dynamo  # takes a second or two, of which only who compiles pays

    torch._dynamo.config.recompile_limit = MOST_SHAPES
    torch._dynamo.config.accumulated_recompile_limit = MOST_SHAPES


class TorchKernel:
    """A function of inputs and scalars, or a module. It takes all outputs by name, and fills them,
    or returns one tensor or a tuple of them.

    A module is made once for each binding. What its `__init__` names of the sizes and scalars, it
    is given there by name; `forward` is given the inputs and all other scalars, in calling order.
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
    """The sizes and scalars that `__init__` names. Raises SubmissionError for any other name."""
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
    """What a function that takes its outputs is called with, by position and by keyword; None of
    one that returns them. Raises SubmissionError where it takes some of them.
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
    """Launches of what is given its outputs; what it returns is dropped."""
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
    """Looks for results that share memory with an input or with the result of the call before."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names
        self.seen = 0
        self.previous: tuple[Any, ...] = ()

    def holds(self, inputs: Sequence[Any], results: tuple[Any, ...]) -> bool:
        """Look at one call; False when enough were seen. Raises SubmissionError."""
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
    """Say which result is not what was asked for, and how."""
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
    """Whether a value is a strided tensor in memory, and not something that only acts like one."""
    import torch

    return type(value) is torch.Tensor and value.layout is torch.strided


def _storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


LANGUAGE = Torch()
