"""Texts of a language: for agents' workspaces, and as trivial submissions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class TrivialSource:
    """Source of the trivial submissions in one language.

    It has a line for `each` output, and its value by name. See `admission.trivial_submissions` for
    the words in braces.
    """

    values: Mapping[str, str]
    each: str
    source: str


@dataclass(frozen=True)
class Texts:
    """Texts of one language. See `tracks.workspace_files` for the words in braces."""

    skeleton: str
    """The target file where there is no baseline to start from."""
    convention: str
    """How the entry point is called."""
    rules: str
    trivial: TrivialSource
    profiled: bool = True
    """Whether a profiler exists for it."""


GPU_SKELETON = """\
// arena: flags -O3
#include "{name}.h"

// Fill {outputs} from the inputs by launching kernels on `stream`, and return 0.
extern "C" int {name}(const {name}_args* args, {stream} stream) {{
    return 1;
}}
"""
GPU_TRIVIAL = TrivialSource(
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
