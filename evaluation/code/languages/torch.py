"""PyTorch: a function or module that fills its outputs, or returns them.

Returned tensors are copied to the outputs within the measured time, as those of the baseline are
for a candidate that is slower (see `kernel.gates.performance.measure`). Extensions by `load_inline`
are built beforehand. `torch.compile`, on a GPU only, compiles at the first call, and so does
Triton, whose kernels are interpreted on a CPU.
"""

from __future__ import annotations

import ast
import importlib.metadata
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evaluation.code.building import extensions, native, static_analysis
from evaluation.code.languages import Language, Texts, TrivialSource, _signature, triton
from evaluation.code.languages.cuda import RULES
from evaluation.device_kind import GPU
from evaluation.errors import BuildError
from evaluation.sandboxed import build_torch
from evaluation.shapes import dtype_of, shape_of
from evaluation.types import Case, CompilerOutput

if TYPE_CHECKING:
    from evaluation.tasks.operator import Operator
    from evaluation.tasks.spec import Task

_COMPILERS = frozenset({static_analysis.COMPILE})
_EXTENSIONS = frozenset(
    {"torch.utils", "torch.utils.cpp_extension", "torch.utils.cpp_extension.load_inline"}
)
"""Names that a source with native code may use."""
_EXTENSION_RULES = tuple(rule for rule in RULES if rule[0] != "library-wrapper")
"""Rules for C++ or CUDA in a string; PyTorch's own headers are allowed there."""
SWITCHES = "torch.backends."
"""Places of PyTorch's switches, such as `torch.backends.cudnn.benchmark`."""


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
    loader = "torch"
    kinds = ("gpu", "cpu")

    def check(self, files: Mapping[str, str], task: Task) -> None:
        modules = static_analysis.PURE_MODULES | {"torch", "triton"}
        exempt = _COMPILERS if self.compiles(files, task.kind) else _EXTENSIONS
        for name, written in files.items():
            text, _ = without_switches(name, written)
            source = static_analysis.Source(name, text)
            static_analysis.check_source(source, modules, exempt)
            if extensions.requested({name: text}):
                native.check_rules({name: text}, _EXTENSION_RULES)
                if static_analysis.uses_triton({name: text}):
                    message = "Triton compiles when it runs, which native code must not; use one"
                    raise source.unsupported(source.tree, message)

    def ignored(self, files: Mapping[str, str]) -> Sequence[str]:
        found = (without_switches(*each)[1] for each in files.items())
        return [statement for statements in found for statement in statements]

    def key(self, files: Mapping[str, str], task: Task) -> str:
        compilers = extensions.key() if extensions.requested(files) else ""
        if static_analysis.uses_triton(files):
            compilers += f"triton {importlib.metadata.version('triton')}"
        return f"torch {importlib.metadata.version('torch')}\n{compilers}"

    def compiles(self, files: Mapping[str, str], kind: str) -> bool:
        """Return whether a source uses a compiler when it runs, on a GPU and without native code.

        Native code of a candidate must not start processes.
        """
        uses = static_analysis.uses_compile(files) or static_analysis.uses_triton(files)
        return kind == GPU and not extensions.requested(files) and uses

    def untimed(self, files: Mapping[str, str], kind: str) -> str:
        if kind == GPU or not static_analysis.uses_triton(files):
            return self.judged_here()
        return "on a CPU Triton kernels run in the interpreter, for correctness only"

    def not_run(self, files: Mapping[str, str], kind: str) -> str:
        if kind == GPU:
            return ""
        if extensions.requests_cuda(files):
            return "its extension has CUDA sources, which are built and run on an NVIDIA GPU alone"
        return triton.not_interpreted(files)

    def returns(self, files: Mapping[str, str], operator: Operator) -> bool:
        tree = static_analysis.Source("", files.get(f"{operator.name}{self.suffix}", "")).tree
        outputs = [argument.name for argument in operator.outputs]
        return not _signature.names_all(tree, (operator.name, *build_torch.MODELS), outputs)

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
            (folder / name).write_text(without_switches(name, text)[0], encoding="utf-8")
        if not extensions.requested(files) or self.not_run(files, task.kind):
            return [output]
        source = folder / task.target_file
        call = _extension_call(task.operator, task.checked_cases()[0])
        return [output, extensions.build(source, task.operator.limits.seconds, call)]


def without_switches(name: str, text: str) -> tuple[str, list[str]]:
    """Return a source without assignments to switches, and these with their lines.

    Lines keep their numbers. The judge sets the switches, so that such a source can be judged. An
    assignment that calls something stays, and is refused.
    """
    if SWITCHES.rstrip(".").rpartition(".")[2] not in text:
        return text, []
    source = static_analysis.Source(name, text)
    lines, ignored = source.text.splitlines(keepends=True), []
    for node in source.nodes:
        if not isinstance(node, ast.Assign):
            continue
        if any(isinstance(part, ast.Call) for part in ast.walk(node.value)):
            continue
        targets = [source.path(target) for target in node.targets]
        of_module = all(map(source.of_module, node.targets))
        if of_module and all(path.startswith(SWITCHES) for path in targets):
            ignored.append(f"{name}:{node.lineno}: {source.quote(node)}")
            first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
            before = lines[first].encode()[: node.col_offset].decode()
            after = lines[last].encode()[node.end_col_offset :].decode()
            lines[first : last + 1] = [f"{before}pass{after}", *["\n"] * (last - first)]
    return "".join(lines), ignored


LANGUAGE = Torch()


def _extension_call(operator: Operator, case: Case) -> dict[str, Any] | None:
    """Return a call of a suite's module with shapes in the place of tensors, as JSON.

    A source may build extensions when its module is made or first called. None for an operator of
    ours, which is built when its file is imported.
    """
    call = operator.suite_call(case, seed=0)
    if call is None:
        return None
    tensors = {
        a.name: {"shape": shape_of(a, case), "dtype": dtype_of(a, case)} for a in operator.inputs
    }
    scalars = {a.name: case[a.name] for a in operator.scalars}
    known = {**scalars, **call["constants"], **tensors}
    return {"arguments": call["arguments"], "inputs": [known[name] for name in call["inputs"]]}
