"""Workspace files of an agent, made from the public part of a task."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evaluation.building.c_header import header
from evaluation.tasks.domain import Choices, LogUniform, Range
from evaluation.types import Argument, Case, Split

if TYPE_CHECKING:
    from evaluation.tasks.spec import Operator, Task

_CPP_SKELETON = """\
// arena: flags -O2
#include "{name}.h"

// Fill {outputs} from the inputs and return 0.
extern "C" int {name}(const {name}_args* args) {{
    return 1;
}}
"""

_GPU_SKELETON = """\
// arena: flags -O3
#include "{name}.h"

// Fill {outputs} from the inputs by launching kernels on `stream`, and return 0.
extern "C" int {name}(const {name}_args* args, {stream} stream) {{
    return 1;
}}
"""

_TRITON_SKELETON = """\
import torch
import triton
import triton.language as tl


def {name}({parameters}):
    \"\"\"Fill {outputs} from the inputs by launching kernels.\"\"\"
    raise NotImplementedError
"""

_TORCH_SKELETON = """\
import torch


def {name}({parameters}):
    \"\"\"Fill {outputs} from the inputs.\"\"\"
    raise NotImplementedError
"""

_CONVENTION = {
    "cpp": (
        "`{file}` includes `{name}.h` and defines `{name}`, which fills {outputs} and returns 0.\n"
        "It is compiled as C++17 with OpenMP into a shared library; use at most `arena_threads()`\n"
        "threads. A line `// arena: flags -O3 -march=native` at its top adds compiler flags."
    ),
    "cuda": (
        "`{file}` includes `{name}.h` and defines `{name}`, which launches kernels that fill\n"
        "{outputs} on `stream` and returns 0, or a `cudaError_t` as an int. Launches must be\n"
        "asynchronous and capturable in a CUDA graph: no synchronisation and no allocation.\n"
        "nvcc compiles it as C++17 for this GPU, once for each dtype: `arena_t` is the case's and\n"
        "`ARENA_FLOAT32`, `ARENA_FLOAT16` or `ARENA_BFLOAT16` is 1. A line\n"
        "`// arena: flags -use_fast_math -maxrregcount=64` at its top adds compiler flags."
    ),
    "hip": (
        "`{file}` includes `{name}.h` and defines `{name}`, which launches kernels that fill\n"
        "{outputs} on `stream` and returns 0, or a `hipError_t` as an int. Launches must be\n"
        "asynchronous and capturable in a graph: no synchronisation and no allocation. It is\n"
        "compiled as C++17, once for each dtype: `arena_t` is the case's, and `ARENA_FLOAT32`,\n"
        "`ARENA_FLOAT16` or `ARENA_BFLOAT16` is 1. hipcc compiles it for an AMD GPU; on an NVIDIA\n"
        "GPU nvcc does, behind a header that maps HIP's names. A wave has `warpSize` lanes, 64 or\n"
        "32. A line `// arena: flags -use_fast_math` at its top adds compiler flags."
    ),
    "triton": (
        "`{file}` defines `{name}({parameters})`, which launches Triton kernels that fill\n"
        "{outputs}. Tensors are contiguous and do not overlap; only outputs may be written."
    ),
    "torch": (
        "`{file}` defines `{name}({parameters})`, which fills {outputs}, as\n"
        "`torch.mul(a, b, out=c)` fills `c`; or a `torch.nn.Module` named `ModelNew` whose\n"
        "`forward` does. What its `__init__` names of the sizes and scalars, it is given there\n"
        "and not again. Tensors are contiguous; only outputs may be written. Who does not name\n"
        "the outputs among its parameters returns a new tensor or a tuple of them instead. Those\n"
        "are copied on the clock, while what is to be beaten pays for no copy.\n"
        "`torch.utils.cpp_extension.load_inline` may be called while the file is imported: what\n"
        "it asks for is built once, with no GPU in reach, and found ready-made from then on."
    ),
}

_RULES = {
    "cpp": (
        "- The computation is yours: C++17, intrinsics and OpenMP. No other library is linked.\n"
        "- No files, processes or network, and no state kept from one call to the next."
    ),
    "cuda": (
        "- The computation is yours: C++17, inline PTX, and the toolkit's headers for device code\n"
        "  (`mma.h`, `cooperative_groups.h`, `cuda_pipeline.h`, CUB). No other library.\n"
        "- The device's limits and the L2 cache's policy stay as they are.\n"
        "- No files, processes or network, and no state kept from one call to the next."
    ),
    "hip": (
        "- The computation is yours: C++17 and the headers of the HIP runtime, by HIP's names. No\n"
        "  library, and nothing of CUDA's.\n"
        "- The device's limits and the L2 cache's policy stay as they are.\n"
        "- No files, processes or network, and no state kept from one call to the next."
    ),
    "triton": (
        "- Compute in `@triton.jit` kernels; PyTorch may only allocate and reshape.\n"
        "- No state kept from one call to the next."
    ),
    "torch": (
        "- Any call of PyTorch that works in this process, and extensions in C++ and CUDA; on a\n"
        "  GPU, `torch.compile` too.\n"
        "- No files, processes or network, and no state kept from one call to the next."
    ),
}

_BRIEF = """\
# {title}: {source} to {target}

{prompt}

## What to hand in

{convention}

{signature}

| argument | role | dtype | shape |
|---|---|---|---|
{arguments}

{start}

## Cases

These are timed, and every one must be right:

{cases}

Right answers are also asked for at awkward sizes (1, 3, 7, around powers of two) and for other
inputs: large, tiny, with outliers, shifted, structured and cancelling. At the end come cases that
you are not shown, from this domain:

{domain}

An output y is right when |y - y*| <= c1 u |y*| + c2 6.0e-8 sqrt(K) s, where y* is the exact answer,
u the unit roundoff of the output, s its `magnitude` and K its `reduction` (both in `reference.py`):
the accuracy of a careful float32 implementation.

## Rules

{rules}
- One source file, `{file}`; other files are not handed in.

## Asking for a verdict

Run `./arena-check` in this folder. It hands in `{file}` as it stands, prints what each gate said
and the speedup of each case, and counts as one round of your budget.
{profile}"""

_PROFILE = """
Run `./arena-profile` to see where the time of the round before went, kernel by kernel: duration,
share of memory and compute, occupancy, registers, what warps wait for. `./arena-profile CASE` takes
another case than the largest. It needs a GPU, counts as no round, and a run has a dozen.
"""


def starter_files(task: Task) -> dict[str, str]:
    """Return the files by name: the target, TASK.md, reference.py, and any header."""
    files = {
        task.target_file: _target(task),
        "TASK.md": _brief(task),
        "reference.py": (task.operator.folder / "reference.py").read_text(encoding="utf-8"),
    }
    if text := header(task.operator, task.track.target):
        files[f"{task.operator.name}.h"] = text
    return files


def parameters(operator: Operator) -> str:
    """Return the parameters of a Python entry point, outputs included."""
    return ", ".join(argument.name for argument in operator.arguments)


def _target(task: Task) -> str:
    track, operator = task.track, task.operator
    if _starts_from_baseline(task):
        return operator.baseline(track.source)
    skeletons = {
        "cpp": _CPP_SKELETON,
        "cuda": _GPU_SKELETON,
        "hip": _GPU_SKELETON,
        "triton": _TRITON_SKELETON,
        "torch": _TORCH_SKELETON,
    }
    return skeletons[track.target].format(**_words(task), stream=f"{track.target}Stream_t")


def _starts_from_baseline(task: Task) -> bool:
    """Return whether the baseline is a file to change; for torch it is the reference."""
    return task.track.source == task.track.target != "torch"


def _words(task: Task) -> dict[str, str]:
    return {
        "name": task.operator.name,
        "file": task.target_file,
        "outputs": " and ".join(f"`{argument.name}`" for argument in task.operator.outputs),
        "parameters": parameters(task.operator),
    }


def _brief(task: Task) -> str:
    operator, track = task.operator, task.track
    words = _words(task)
    signature = header(operator, track.target)
    return _BRIEF.format(
        **words,
        title=operator.title,
        source=track.source,
        target=track.target,
        prompt=operator.prompt.strip(),
        convention=_CONVENTION[track.target].format(**words),
        signature=f"```c\n{signature}```" if signature else "",
        arguments="\n".join(_argument_row(argument) for argument in operator.arguments),
        start=(
            "The file holds the baseline: what it does now is what must be beaten."
            if _starts_from_baseline(task)
            else "The file is a skeleton. To be beaten: `reference`, eager or compiled."
        ),
        cases=_case_table(operator, task.cases(Split.SEEN)),
        domain=_domain_table(task),
        rules=_RULES[track.target],
        profile="" if track.target == "cpp" else _PROFILE,
    )


def _argument_row(argument: Argument) -> str:
    dtype = "the case's" if argument.dtype == "dtype" else argument.dtype
    shape = f"[{', '.join(map(str, argument.shape))}]" if argument.shape else "scalar"
    return f"| {argument.name} | {argument.role} | {dtype} | {shape} |"


def _case_table(operator: Operator, cases: tuple[Case, ...]) -> str:
    symbols = tuple(operator.domain.symbols)
    rows = [("case", "dtype", *symbols), ("---",) * (len(symbols) + 2)]
    rows += [(c.name, c.dtype, *(str(c[symbol]) for symbol in symbols)) for c in cases]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _domain_table(task: Task) -> str:
    rows = [
        f"| {symbol} | {_range(values)} |"
        for symbol, values in task.operator.domain.symbols.items()
    ]
    return "\n".join(
        ("| symbol | values |", "|---|---|", f"| dtype | {', '.join(task.dtypes)} |", *rows)
    )


def _range(values: Range) -> str:
    match values:
        case Choices(values=choices):
            return ", ".join(str(choice) for choice in choices)
        case LogUniform(low=low, high=high, multiple_of=multiple):
            return f"{low} to {high}" + (f", multiples of {multiple}" if multiple > 1 else "")
