"""CuTe DSL: kernels in Python over CUTLASS's layouts and tensors, of `nvidia-cutlass-dsl`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from evaluation.code.building.host_code import HostCode
from evaluation.code.languages import Texts, TrivialSource
from evaluation.code.languages._jit import JitLanguage

TEXTS = Texts(
    skeleton="""\
import cutlass
import cutlass.cute as cute
import torch
from cutlass.cute.runtime import from_dlpack


def {name}({parameters}):
    \"\"\"Fill {outputs} from the inputs by kernels that `cute.compile` made.\"\"\"
    raise NotImplementedError
""",
    convention=(
        "`{file}` defines `{name}({parameters})`, which fills {outputs} by calls of `@cute.jit`\n"
        "functions or of what `cute.compile` made of them, once for each shape. Pass it\n"
        "`from_dlpack(tensor)`, and the stream\n"
        "`cuda.bindings.driver.CUstream(torch.cuda.current_stream().cuda_stream)`: a launch on\n"
        "another stream cannot be captured. Tensors are contiguous and do not overlap; only\n"
        "outputs may be written."
    ),
    rules=(
        "- Compute in `@cute.kernel`; of PyTorch, host code may only use what allocates,\n"
        "  describes, fills, or gives a view.\n"
        "- No state kept from one call to the next, but compiled functions by shape and dtype."
    ),
    trivial=TrivialSource(
        {
            "zeros": "out.element_type(0)",
            "constant": "out.element_type(1)",
            "copy": "out.element_type(source[place % cute.size(source)])",
            "stale": "out[place]",
        },
        "    launch(from_dlpack({input}.view(-1)), from_dlpack({output}.view(-1)), stream)\n",
        """\
import cuda.bindings.driver as cuda
import cutlass.cute as cute
import torch
from cutlass.cute.runtime import from_dlpack


@cute.kernel
def fill(source: cute.Tensor, out: cute.Tensor):
    block, _, _ = cute.arch.block_idx()
    thread, _, _ = cute.arch.thread_idx()
    place = block * 256 + thread
    if place < cute.size(out):
        out[place] = {value}


@cute.jit
def launch(source: cute.Tensor, out: cute.Tensor, stream: cuda.CUstream):
    blocks = (cute.size(out) + 255) // 256
    fill(source, out).launch(grid=(blocks, 1, 1), block=(256, 1, 1), stream=stream)


def {name}({parameters}):
    stream = cuda.CUstream(torch.cuda.current_stream().cuda_stream)
{each}""",
    ),
)


class CuteCode(HostCode):
    """Host code of CuTe DSL: all but its kernels and the functions that launch them."""

    jit = frozenset({"cutlass.cute.kernel", "cutlass.cute.jit"})
    decorators = jit
    allowed = ("cutlass.", "cuda.bindings.driver.CUstream.")


class CuteDsl(JitLanguage):
    name = "cutedsl"
    texts = TEXTS
    package = "nvidia-cutlass-dsl"
    module = "cutlass"
    requirement = "nvidia-cutlass-dsl==4.8.1"
    code = CuteCode
    modules = frozenset({"cutlass"})
    exempt = frozenset({"cuda.bindings.driver", "cuda.bindings.driver.CUstream"})

    def environment(self, arch: str, work: Path) -> Mapping[str, str]:
        return {
            "CUTE_DSL_ARCH": arch,
            "CUTE_DSL_KEEP_PTX": "1",
            "CUTE_DSL_DUMP_DIR": str(work),
            "CUTE_DSL_CACHE_DIR": str(work / "cache"),
        }


LANGUAGE = CuteDsl()
