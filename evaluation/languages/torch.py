"""PyTorch: a function returns its outputs, which are copied to the judge's memory on the clock."""

from __future__ import annotations

import importlib.metadata
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evaluation import reading
from evaluation.errors import BuildError, SubmissionError
from evaluation.languages import Kernel, Launch, Slot
from evaluation.types import Argument, CompilerOutput, Reason

if TYPE_CHECKING:
    import torch

    from evaluation.task import Task

DISCARDS = "discards_result"
"""An attribute by which a function asks that its result be dropped, not copied: a baseline's,
beside candidates that write in place and pay for no copy. A candidate that asks wrote nothing.
"""
WATCHED = 16
"""Launches of each binding whose results are held to see that no memory is handed out twice."""


class Torch:
    name = "torch"
    suffix = ".py"
    dtypes = frozenset({"float32", "float16", "bfloat16"})
    kinds = ("gpu", "cpu")
    compiles_on: tuple[str, ...] = ()

    def check(self, files: Mapping[str, str], task: Task) -> None:
        for name, text in files.items():
            reading.refuse_breaches(reading.Source(name, text), reading.PURE_MODULES | {"torch"})

    def key(self, task: Task) -> str:
        return f"torch {importlib.metadata.version('torch')}"

    def build(self, files: Mapping[str, str], task: Task, folder: Path) -> Sequence[CompilerOutput]:
        started = time.perf_counter()
        diagnostics = reading.syntax_errors(files)
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
        return [output]

    def judged_here(self) -> str:
        return ""

    def runs_here(self) -> str:
        return ""

    def load(self, folder: Path, entry: str) -> Kernel:
        return TorchKernel(reading.load_function(folder / f"{entry}.py", entry))


class TorchKernel:
    """A Python function of inputs and scalars that returns one tensor or a tuple of them."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def bind(self, arguments: Sequence[Argument], slots: Sequence[Slot]) -> Launch:
        import torch

        given = [a.name for a in arguments if a.role != "output"]
        wanted = [a.name for a in arguments if a.role == "output"]
        calls = [([slot[n] for n in given], [slot[n] for n in wanted]) for slot in slots]
        function, ring = self.function, len(calls)
        discards = getattr(function, DISCARDS, False)
        watch: Watch | None = Watch(wanted)

        @torch.inference_mode()
        def run(first: int, count: int) -> None:
            nonlocal watch
            for index in range(first, first + count):
                inputs, outputs = calls[index % ring]
                returned = function(*inputs)
                if discards:
                    continue
                results = returned if type(returned) is tuple else (returned,)
                if watch is not None:
                    watch = watch if watch.holds(inputs, results) else None
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
                    output.copy_(result)

        return run


class Watch:
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
