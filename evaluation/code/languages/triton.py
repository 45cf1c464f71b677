"""Triton: compiled for GPUs of this machine and others, or run by Triton's interpreter."""

from __future__ import annotations

import ast
import importlib.metadata
import json
import math
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evaluation import device_kind
from evaluation.code.building import nvcc, static_analysis, triton_cache, triton_output
from evaluation.code.building.compile_jobs import MAX_ADDRESS_BYTES, PYTHON_PATHS, run_compiler
from evaluation.code.building.host_code import HostCode
from evaluation.code.languages import Language, Texts, TrivialSource
from evaluation.errors import BuildError, Rejected, SubmissionError
from evaluation.sandbox import launch, resource_watch, untrusted_files
from evaluation.sandboxed import build_triton
from evaluation.shapes import ITEM_BYTES, dtype_of, shape_of
from evaluation.types import (
    Argument,
    Case,
    CompilerOutput,
    Diagnostic,
    Reason,
    Split,
    calling_order,
)

if TYPE_CHECKING:
    from evaluation.tasks.spec import Task

# torch and triton are imported in functions, because that takes seconds.

Target = tuple[str, int | str, int, int]
"""Backend, architecture, threads of a warp, bytes of shared memory of a block."""

# Source of the sizes: CUDA C++ programming guide, technical specifications by compute capability.
SHARED_BYTES = {75: 65_536, 80: 166_912, 90: 232_448, 100: 232_448, 103: 232_448}
OTHER_SHARED_BYTES = 101_376
TRIED: dict[str, Target] = {
    "hip:gfx942": ("hip", "gfx942", 64, 65_536),
    "cuda:100": ("cuda", 100, 32, SHARED_BYTES[100]),
}
"""Further targets that every kernel is compiled for; a failure there is no failure of the build."""

MAX_RESULT_BYTES = 16 << 20
ADDRESSES_OF_A_CALL = 4
"""Addresses for tensors of a call and of its host function, as a multiple of the call's."""
_COMPILER = Path(build_triton.__file__)

_NOT_INTERPRETED = tuple(
    f"triton.{name}."
    for name in "experimental language.core.extern_elementwise language.core.inline_asm_elementwise"
    " language.core.map_elementwise language.extra language.inline_asm_elementwise"
    " language.map_elementwise".split()
)
"""Names that kernels use and Triton 3.7's interpreter cannot run: of GPUs, and in PTX."""
_NEEDS_GPU = tuple(
    f"torch.cuda.{name}."
    for name in "current_device current_stream default_stream device Event get_device_capability"
    " get_device_name get_device_properties graph CUDAGraph set_device set_stream stream Stream"
    " synchronize".split()
)
"""Names that host code asks of PyTorch and that need a GPU."""


TEXTS = Texts(
    skeleton="""\
import torch
import triton
import triton.language as tl


def {name}({parameters}):
    \"\"\"Fill {outputs} from the inputs by launching kernels.\"\"\"
    raise NotImplementedError
""",
    convention=(
        "`{file}` defines `{name}({parameters})`, which launches Triton kernels that fill\n"
        "{outputs}. Tensors are contiguous and do not overlap; only outputs may be written."
    ),
    rules=(
        "- Compute in `@triton.jit` kernels; of PyTorch, host code may only use what allocates,\n"
        "  describes, fills, or gives a view, such as `torch.empty`, `stride` and `view`.\n"
        "- No state kept from one call to the next."
    ),
    trivial=TrivialSource(
        {
            "zeros": "tl.zeros((BLOCK,), tl.float32)",
            "constant": "tl.full((BLOCK,), 1.0, tl.float32)",
            "copy": "tl.load(source + places % size, mask)",
            "stale": "tl.load(out + places, mask)",
        },
        "    launch({input}, {output})\n",
        """\
import triton
import triton.language as tl


@triton.jit
def fill(source, out, size, elements, BLOCK: tl.constexpr):
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = places < elements
    tl.store(out + places, {value}, mask)


def launch(source, out):
    grid = (triton.cdiv(out.numel(), 1024),)
    fill[grid](source, out, source.numel(), out.numel(), BLOCK=1024)


def {name}({parameters}):
{each}""",
    ),
)


class Triton(Language):
    name = "triton"
    suffix = ".py"
    texts = TEXTS
    loader = "triton"
    kinds = ("gpu", "cpu")
    compiles_cases = True
    own_kernels = True
    modules = frozenset({"torch", "triton"})
    """Packages that a source may import, beside harmless ones of Python."""

    def check(self, files: Mapping[str, str], task: Task) -> None:
        for name, text in files.items():
            source = static_analysis.Source(name, text)
            static_analysis.check_source(source, static_analysis.PURE_MODULES | self.modules)
            _check_entry(source, task.operator.name)
            self.check_host_code(source)

    def check_host_code(self, source: static_analysis.Source) -> None:
        """Raise Rejected for host code that computes by library, and without a kernel."""
        code = HostCode(source)
        if source.tree.body and not any(map(code.is_kernel, source.nodes)):
            message = "no function is decorated with @triton.jit alone, or by an autotuner too"
            raise Rejected("no-kernel", f"{source.name}: {message}")
        code.check()

    def key(self, files: Mapping[str, str], task: Task) -> str:
        parts = (_version(), json.dumps(targets()), _COMPILER.read_text(), json.dumps(_calls(task)))
        return "\n".join(parts)

    def compiles(self, files: Mapping[str, str], kind: str) -> bool:
        return kind == device_kind.GPU

    def build(self, files: Mapping[str, str], task: Task, folder: Path) -> Sequence[CompilerOutput]:
        work = folder / "work"
        work.mkdir()
        devices, calls = list(targets().values()), _calls(task)
        completed, milliseconds = _compile(files, task, folder, devices, calls)
        text = completed.stdout.replace(f"{folder}/", "")[-16_000:]
        results = [read_result(work / f"result.{n}") for n in range(len(targets()))]
        triton_output.keep(work / "cache.0", folder / triton_cache.FOLDER)
        untrusted_files.remove(work)
        output = CompilerOutput(_version(), ", ".join(targets()), False, milliseconds, text)
        exceeded = completed.exceeded
        # At the time limit, a result for the first target is enough: the rest is compiled ahead.
        if exceeded and not (exceeded.name == resource_watch.SECONDS and results[0]):
            raise BuildError(f"compiling {exceeded}", [output])
        if results[0] is None:
            code = completed.returncode
            message = f"the process that compiles ended with code {code} and no result"
            raise BuildError(message, [output])
        return _outputs(results, task, output)

    def compile_cases(
        self, files: Mapping[str, str], task: Task, cases: Sequence[Case], made: Path, folder: Path
    ) -> None:
        if self.judged_here() or not cases:
            return
        compiling, known = folder / "compiling", made / triton_cache.FOLDER
        kept = compiling / "work" / "cache.0"
        kept.parent.mkdir(parents=True)
        triton_cache.restore(known, kept)
        here, *_ = targets().values()
        _compile(files, task, compiling, [here], [call_of(task, case) for case in cases])
        triton_output.keep(kept, folder / triton_cache.FOLDER, beyond=known)
        untrusted_files.remove(compiling)

    def judged_here(self) -> str:
        if device_kind.kind_of(self.kinds) == device_kind.GPU:
            return ""
        return "no GPU is judged here: Triton kernels run in the interpreter, for correctness only"

    def runs_here(self) -> str:
        return ""  # in the interpreter

    def not_run(self, files: Mapping[str, str], kind: str) -> str:
        return "" if kind == device_kind.GPU else not_interpreted(files)


def targets() -> dict[str, Target]:
    """Return the targets: first this machine's GPU, as for CUDA, then others."""
    number = int(re.sub(r"\D", "", nvcc.architecture()))
    here: Target = ("cuda", number, 32, SHARED_BYTES.get(number, OTHER_SHARED_BYTES))
    return {f"cuda:{number}": here, **TRIED}


def not_interpreted(files: Mapping[str, str]) -> str:
    """Return why files cannot run without a GPU; empty if they can."""
    for name, text in files.items():
        source = static_analysis.Source(name, text)
        paths = sorted({f"{source.path(node)}." for node in source.nodes})
        if used := [path for path in paths if path.startswith(_NOT_INTERPRETED)]:
            return f"the interpreter cannot run this: `{max(used, key=len)[:-1]}` needs a GPU"
        if used := [path for path in paths if path.startswith(_NEEDS_GPU)]:
            return f"there is no GPU here, and `{max(used, key=len)[:-1]}` needs one"
        if any(map(_guards_gpu, source.nodes)):
            return "there is no GPU here, and it refuses tensors that are not on one: `is_cuda`"
    return ""


def _guards_gpu(node: ast.AST) -> bool:
    """Return whether a statement fails unless a tensor is on a GPU."""
    refuses = isinstance(node, ast.If) and isinstance(node.body[0], ast.Raise)
    if not (refuses or isinstance(node, ast.Assert)):
        return False
    assert isinstance(node, ast.If | ast.Assert)
    return any(isinstance(n, ast.Attribute) and n.attr == "is_cuda" for n in ast.walk(node.test))


def _compile(
    files: Mapping[str, str],
    task: Task,
    folder: Path,
    devices: Sequence[Target],
    calls: Sequence[list[dict[str, Any]]],
) -> tuple[launch.Completed, float]:
    """Write `files` into `folder` and compile the kernels of these calls in its `work`."""
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    work, request = folder / "work", folder / "request.json"
    first, *others = calls
    values = {
        "source": str(folder / (task.operator.name + LANGUAGE.suffix)),
        "entry": task.operator.name,
        "targets": devices,
        "arguments": first,
        "others": others,
    }
    request.write_text(json.dumps(values))
    return run_compiler(
        [sys.executable, "-I", str(_COMPILER), str(request), str(work / "result")],
        work,
        (*PYTHON_PATHS, str(_COMPILER), str(folder)),
        task.operator.limits.seconds,
        env={
            **build_triton.HELION,
            "TORCHINDUCTOR_CACHE_DIR": str(work / "inductor"),
            "TRITON_CACHE_DIR": str(work / "cache"),
            "OMP_NUM_THREADS": "1",  # one thread for each core would exceed the address space
        },
        # Tensors of a call are mapped, and not written: they take no memory.
        max_address_bytes=MAX_ADDRESS_BYTES + ADDRESSES_OF_A_CALL * max(map(_tensor_bytes, calls)),
    )


def _tensor_bytes(call: Sequence[Mapping[str, Any]]) -> int:
    tensors = (value for value in call if "shape" in value)
    return sum(math.prod(each["shape"]) * ITEM_BYTES[each["dtype"]] for each in tensors)


def _calls(task: Task) -> list[list[dict[str, Any]]]:
    """Return the calls to compile, tensors by shape and dtype.

    They are the smallest seen case's, and those of all public cases where they will run.
    """
    first = min(task.cases(Split.SEEN), key=task.operator.elements)
    others = [] if LANGUAGE.judged_here() else task.checked_cases()
    cases = (first, *(case for case in others if case != first))
    return [call_of(task, case) for case in cases]


def call_of(task: Task, case: Case) -> list[dict[str, Any]]:
    return [_value(argument, case) for argument in calling_order(task.operator.arguments)]


def _value(argument: Argument, case: Case) -> dict[str, Any]:
    if argument.role != "scalar":
        return {"shape": shape_of(argument, case), "dtype": dtype_of(argument, case)}
    value = case[argument.name]
    return {"value": int(value) if argument.dtype == "int64" else float(value)}


def _version() -> str:
    return f"triton {importlib.metadata.version('triton')}"


def _check_entry(source: static_analysis.Source, entry: str) -> None:
    """Raise SubmissionError for a module of KernelBench, which another track judges."""
    defined = {
        node.name: node
        for node in source.tree.body
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
    }
    if entry not in defined and (model := defined.get("ModelNew")):
        message = f"`ModelNew` is judged on torch-to-torch, Triton included; here define `{entry}`"
        where = f"{source.name}:{model.lineno}"
        raise SubmissionError(Reason.MISSING_ENTRY, f"{where}: {message}")


def read_result(path: Path) -> Any:
    """Return the untrusted result of the compiling process for one target; None without any."""
    try:
        return json.loads(untrusted_files.read(path, MAX_RESULT_BYTES))
    except (ValueError, RecursionError):
        return None


NO_RESULT = {
    "kernels": [],
    "error": {"type": "Crash", "line": 1, "message": "the process that compiles left no result"},
}


def _outputs(results: Sequence[Any], task: Task, output: CompilerOutput) -> list[CompilerOutput]:
    """Return `output` for each target, with its result.

    Raises: BuildError where the result for this machine is a failure, or one cannot be read.
    """
    outputs = []
    for arch, result in zip(targets(), results, strict=True):
        try:
            outputs.append(output_of(result or NO_RESULT, task, replace(output, arch=arch)))
        except (AttributeError, KeyError, TypeError, ValueError):
            raise BuildError("the compiler's result cannot be read", [output]) from None
    if outputs[0].ok:
        return outputs
    first = outputs[0].diagnostics[0]
    if results[0].get("error", {}).get("type") == "MissingEntry":
        raise SubmissionError(Reason.MISSING_ENTRY, first.message)
    message = f"for {outputs[0].arch}: {first.file}:{first.line}: {first.message}"
    raise BuildError(message, outputs)


def output_of(result: Mapping[str, Any], task: Task, output: CompilerOutput) -> CompilerOutput:
    """Return `output` with a result. Raises an error of Python where it is malformed."""
    kernels, line, message = result["kernels"], 1, ""
    if error := result.get("error"):
        line, message = int(error["line"]), f"{error['type']}: {error['message']}"
    elif not kernels:
        message = f"`{task.operator.name}` launched no kernel"
    error_found = Diagnostic(task.target_file, line, "error", message)
    return replace(
        output,
        ok=not message,
        text=f"{message}\n{output.text}".strip(),
        diagnostics=(error_found,) if message else (),
        resources={
            str(k["name"]): {str(n): int(v) for n, v in k["resources"].items()} for k in kernels
        },
        listings={
            f"{k['name']}.{kind}": str(text)
            for k in kernels
            for kind, text in k["listings"].items()
        },
    )


LANGUAGE = Triton()
