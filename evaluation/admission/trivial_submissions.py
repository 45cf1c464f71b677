"""Trivial submissions: implementations without knowledge of the operator, which must fail."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from evaluation.tasks.domain import factors
from evaluation.tasks.operator import Example, Operator, symbols_of
from evaluation.tracks.workspace_files import parameters
from evaluation.types import Argument

NOTES = {
    "zeros": "every output is zero",
    "constant": "every output is one",
    "copy": "every output is a copy of the first input, repeated or cut to size",
    "stale": "no output is written",
}


@dataclass(frozen=True)
class _Form:
    """Source of the trivial submissions in one language.

    It has a line for `each` output, and its value by probe. See `_written` for the words in braces.
    """

    values: Mapping[str, str]
    each: str
    source: str


_CPP = _Form(
    {
        "zeros": "0.0f",
        "constant": "1.0f",
        "copy": "args->{input}[i % ({input_size})]",
        "stale": "args->{output}[i]",
    },
    "    for (int64_t i = 0; i < {output_size}; ++i) args->{output}[i] = {value};\n",
    """\
#include "{name}.h"

extern "C" int {name}(const {name}_args* args) {{
{each}    return 0;
}}
""",
)

_GPU = _Form(
    {
        "zeros": "Out(0.0f)",
        "constant": "Out(1.0f)",
        "copy": "Out(float(in[i % size]))",
        "stale": "out[i]",
    },
    "    launch(args->{input}, {input_size}, args->{output}, {output_size}, stream);\n",
    """\
#include "{name}.h"

template <typename In, typename Out>
__global__ void fill(const In* in, int64_t size, Out* out, int64_t elements) {{
    const int64_t step = int64_t(gridDim.x) * blockDim.x;
    for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < elements; i += step)
        out[i] = {value};
}}

template <typename In, typename Out>
void launch(const In* in, int64_t size, Out* out, int64_t elements, {language}Stream_t stream) {{
    const int64_t blocks = (elements + 255) / 256, most = 1 << 16;
    if (blocks)
        fill<<<unsigned(blocks < most ? blocks : most), 256, 0, stream>>>(in, size, out, elements);
}}

extern "C" int {name}(const {name}_args* args, {language}Stream_t stream) {{
{each}    return {language}GetLastError();
}}
""",
)

_TRITON = _Form(
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
)

_TORCH = _Form(
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
)

_FORMS = {"cpp": _CPP, "cuda": _GPU, "hip": _GPU, "triton": _TRITON, "torch": _TORCH}


def probes(operator: Operator, language: str) -> tuple[Example, ...]:
    """Return the trivial submissions for `operator`, written in `language`."""
    return tuple(
        Example(name, language, _written(operator, language, name), NOTES[name]) for name in NOTES
    )


def _written(operator: Operator, language: str, probe: str) -> str:
    form, first = _FORMS[language], operator.inputs[0]
    sizes = symbols_of(operator.outputs)
    words = {
        "name": operator.name,
        "language": language,
        "parameters": parameters(operator),
        "input": first.name,
        "input_size": _c_size(first),
        "sizes": "".join(f"{size}, " for size in sizes),
        # What a module's `__init__` asks for by name, `forward` is not given again.
        "others": ", ".join(
            a.name for a in operator.arguments if a.role != "output" and a.name not in sizes
        ),
    }
    each = ""
    for output in operator.outputs:
        of_output = {
            "output": output.name,
            "output_size": _c_size(output),
            "output_shape": ", ".join(map(str, output.shape)),
            "output_dtype": _torch_dtype(operator, output),
        }
        value = form.values[probe].format(**words, **of_output)
        each += form.each.format(**words, **of_output, value=value)
    return form.source.format(**words, value=form.values[probe], each=each)


def _c_size(argument: Argument) -> str:
    """Return the elements of a tensor as a C expression."""
    names = [factor for dimension in argument.shape for factor in factors(dimension)]
    return " * ".join(name if name.isdigit() else f"args->{name}" for name in names)


def _torch_dtype(operator: Operator, output: Argument) -> str:
    """Return the dtype of an output as a PyTorch expression; the case's is that of an input."""
    if output.dtype != "dtype":
        return f"torch.{output.dtype}"
    return next(f"{a.name}.dtype" for a in operator.inputs if a.dtype == "dtype")
