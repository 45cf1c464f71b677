"""TileLang: kernels over tiles in Python, which its package compiles by nvcc."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from evaluation.code.building import nvcc
from evaluation.code.building.host_code import HostCode
from evaluation.code.languages import Texts, TrivialSource
from evaluation.code.languages._jit import JitLanguage

TEXTS = Texts(
    skeleton="""\
import tilelang
import tilelang.language as T
import torch


def {name}({parameters}):
    \"\"\"Fill {outputs} from the inputs by kernels that `@tilelang.jit` made.\"\"\"
    raise NotImplementedError
""",
    convention=(
        "`{file}` defines `{name}({parameters})`, which fills {outputs} by calls of kernels that\n"
        "`@tilelang.jit` functions make, once for each shape. Kernels take their outputs as\n"
        "arguments: leave `out_idx` out. Tensors are contiguous and do not overlap; only outputs\n"
        "may be written."
    ),
    rules=(
        "- Compute in `@T.prim_func`; of PyTorch, host code may only use what allocates,\n"
        "  describes, fills, or gives a view.\n"
        "- No state kept from one call to the next, but compiled kernels by shape and dtype."
    ),
    trivial=TrivialSource(
        {
            "zeros": "T.cast(0, kind)",
            "constant": "T.cast(1, kind)",
            "copy": "T.cast(source[place % size], kind)",
            "stale": "out[place]",
        },
        "    fill({input}.view(-1), {output}.view(-1))\n",
        """\
import tilelang
import tilelang.language as T


@tilelang.jit
def filling(size, read, elements, kind):
    @T.prim_func
    def kernel(source: T.Tensor((size,), read), out: T.Tensor((elements,), kind)):
        with T.Kernel(T.ceildiv(elements, 256), threads=256) as block:
            for thread in T.Parallel(256):
                place = block * 256 + thread
                if place < elements:
                    out[place] = {value}

    return kernel


def fill(source, out):
    read, kind = (str(each.dtype).rpartition(".")[2] for each in (source, out))
    filling(source.numel(), read, out.numel(), kind)(source, out)


def {name}({parameters}):
{each}""",
    ),
)


class TileCode(HostCode):
    """Host code of TileLang: all but the functions that it compiles or that make these."""

    jit = frozenset({"tilelang.jit", "tilelang.language.prim_func"})
    decorators = jit
    allowed = tuple(
        f"tilelang.{name}."
        for name in "PassConfigKey __version__ cdiv compile jit language layout".split()
    )


class TileLang(JitLanguage):
    name = "tilelang"
    texts = TEXTS
    package = module = "tilelang"
    requirement = "tilelang==0.1.15"
    code = TileCode
    modules = frozenset({"tilelang"})

    def environment(self, arch: str, work: Path) -> Mapping[str, str]:
        return {
            "CUDA_HOME": str(nvcc.toolkit().root),
            "TILELANG_CACHE_DIR": str(work / "cache"),
            "TILELANG_DEFAULT_TARGET": json.dumps({"kind": "cuda", "arch": arch}),
            "TILELANG_DISABLE_CACHE": "1",
        }

    def readable(self) -> tuple[str, ...]:
        return str(nvcc.toolkit().root), "/etc/gcc"


LANGUAGE = TileLang()
