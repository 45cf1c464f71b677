"""UNTRUSTED: loading of a function or module of PyTorch, and its launches."""

from __future__ import annotations

import importlib
import inspect
import os
import re
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evaluation.device_kind import gpu_vendor
from evaluation.errors import SubmissionError
from evaluation.sandboxed.build_torch import EXTENSIONS, MODELS
from evaluation.sandboxed.kernels import Kernel, Loader, built_extensions, suite_module, triton
from evaluation.sandboxed.kernels.python_file import imports_for_forks, load_module
from evaluation.types import Argument, BufferSet, Launch, Reason

if TYPE_CHECKING:
    import torch

# torch is imported in functions, because that takes a second.

MODEL = MODELS[0]
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
IMPORTS_TRITON = re.compile(r"^[ \t]*(import|from)\b.*\btriton\b", re.MULTILINE)
MAX_SHAPES = 1 << 12
"""Recompilations for other cases. After eight, its default, `torch.compile` would run eagerly."""


class TorchLoader(Loader):
    def prepare(self) -> None:
        """Import PyTorch's compiler, and what it does once in a process, which takes seconds."""
        os.environ.update(COMPILER)
        if not gpu_vendor():
            triton.interpret_without_gpu()  # before Triton is imported
        with imports_for_forks():
            from torch._inductor import codecache, compile_fx  # noqa: F401
            from torch._inductor.runtime import triton_compat

            codecache.torch_key()  # hashes of PyTorch's and of Triton's own source
            triton_compat.triton_key()
            for name in () if gpu_vendor() else COMPILER_IMPORTS:
                importlib.import_module(name)
            inspect.getmodule(inspect.currentframe())  # finds the files of all modules

    def load(self, folder: Path, entry: str) -> Kernel:
        os.environ.update(COMPILER)
        # The default folder needs a user's name, which a candidate process does not have.
        os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", f"{tempfile.gettempdir()}/inductor")
        _keep_headers_in(os.environ["TORCHINDUCTOR_CACHE_DIR"])
        if (folder / EXTENSIONS).exists():
            built_extensions.replace_load_inline(folder)
        source = "".join(path.read_text("utf-8") for path in folder.glob("*.py"))
        if "compile" in source:  # if only in a comment, it pays for an import
            _prepare_compiler()
        if IMPORTS_TRITON.search(source):
            triton.interpret_without_gpu()
        module = load_module(folder / f"{entry}.py")
        for name in (entry, *MODELS):
            if callable(function := getattr(module, name, None)):
                return TorchKernel(function)
        raise SubmissionError(
            Reason.MISSING_ENTRY,
            f"no function `{entry}` in {entry}.py, nor a torch.nn.Module `{MODEL}`; define one",
        )


def _keep_headers_in(folder: str) -> None:
    """Let PyTorch's compiler write precompiled headers below a folder of this process.

    It chose the folder when it was imported, which the fork server did: that one is read-only.
    """
    if codecache := sys.modules.get("torch._inductor.codecache"):
        chosen: Any = codecache
        chosen._HEADER_DIR = f"{folder}/precompiled_headers"
        chosen._HEADER_LOCK_DIR = f"{folder}/precompiled_headers/locks"


def _prepare_compiler() -> None:
    """Let `torch.compile` compile all cases, and start no thread to show its progress."""
    import torch._dynamo  # takes a second or two

    torch._dynamo.config.recompile_limit = MAX_SHAPES
    torch._dynamo.config.accumulated_recompile_limit = MAX_SHAPES
    progress: Any = torch.hub
    progress.tqdm.monitor_interval = 0  # it would wake after each suspension, on the same core


class TorchKernel:
    """A function of inputs and scalars, or a module.

    A function has all outputs as parameters and fills them, or returns one tensor or a tuple of
    them. A module is made once for each binding. Sizes and scalars that `__init__` names are passed
    there by name; `forward` gets the inputs and the other scalars, in calling order. Where a suite
    has the operator, a module that can be called as it calls one is (see `suite_module`).
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.suite_call: suite_module.SuiteCall | None = None

    def bind(self, arguments: Sequence[Argument], slots: Sequence[BufferSet]) -> Launch:
        import torch

        inputs = [a.name for a in arguments if a.role != "output"]
        outputs = [a.name for a in arguments if a.role == "output"]
        function = self.function
        if isinstance(function, type) and issubclass(function, torch.nn.Module):
            call = self.suite_call
            module = suite_module.constructed(function, call, slots[0]) if call else None
            if module is None:
                options = _init_arguments(function, slots[0])
                inputs = [name for name in inputs if name not in options]
                module = function(**options).to(slots[0][outputs[0]].device)
            if call and suite_module.accepts(module.forward, *call["inputs"]):
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
    """Finds results that share memory with an input or with the previous call's result.

    Where PyTorch replays CUDA graphs of its own, each call writes the memory of the one before.
    """

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
            used = {_storage(other) for other in others if _is_plain(other)} - {None}
            for name, result in zip(self.names, results):  # noqa: B905 - _mismatch reports lengths
                if _is_plain(result) and result.numel() and _storage(result) in used:
                    raise SubmissionError(
                        Reason.ALIASED_OUTPUT,
                        f"{name} shares memory with {owner}; return a tensor of its own",
                    )
        self.previous = () if _replays_graphs(results) else results
        self.count += 1
        return self.count < CHECKED_LAUNCHES


def _replays_graphs(results: Sequence[Any]) -> bool:
    """Return whether `torch.compile` keeps CUDA graphs on the device of these results."""
    trees: Any = sys.modules.get("torch._inductor.cudagraph_trees")
    gpus = {result.device.index for result in results if _is_plain(result) and result.is_cuda}
    return trees is not None and any(
        trees.get_manager(gpu, create_if_none_exists=False) is not None for gpu in gpus
    )


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


def _storage(tensor: torch.Tensor) -> int | None:
    """Return the address of a tensor's memory.

    None where PyTorch has taken the memory back, as a compiled function with CUDA graphs does with
    its earlier results. No one can read them any more.
    """
    try:
        return tensor.untyped_storage().data_ptr()
    except RuntimeError:
        return None


LOADER = TorchLoader()
