"""Helion: kernels over tiles, which its package compiles to Triton."""

from __future__ import annotations

import ast
import importlib.metadata
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from evaluation.code.building import static_analysis
from evaluation.code.building.host_code import HostCode
from evaluation.code.languages import Texts, TrivialSource, _packages, triton
from evaluation.errors import Rejected
from evaluation.types import CompilerOutput

if TYPE_CHECKING:
    from evaluation.tasks.spec import Task

PACKAGE, REQUIREMENT = "helion", "helion==1.5.1"
_LOOPS = ("helion.language.tile", "helion.language.grid", "helion.language.static_range")

TEXTS = Texts(
    skeleton="""\
import helion
import helion.language as hl
import torch


@helion.kernel(config=helion.Config(block_sizes=[1024]))
def {name}({parameters}):
    \"\"\"Fill {outputs} from the inputs in loops over hl.tile.\"\"\"
    raise NotImplementedError
""",
    convention=(
        "`{file}` defines `{name}({parameters})`: a `@helion.kernel`, or a function that calls\n"
        "some, which fills {outputs}. Tensors are contiguous and do not overlap; only outputs may\n"
        "be written. Name the configuration, `config=helion.Config(...)`: without it, Helion's\n"
        "default is taken, and nothing is tuned in a verdict."
    ),
    rules=(
        "- Compute in loops over `hl.tile` or `hl.grid`; of PyTorch, code outside them may only\n"
        "  use what allocates, describes, fills, or gives a view.\n"
        "- No state kept from one call to the next."
    ),
    trivial=TrivialSource(
        {
            "zeros": "0.0",
            "constant": "1.0",
            "copy": "hl.load(source, [tile.index % source.size(0)])",
            "stale": "out[tile]",
        },
        "    fill({input}.view(-1), {output}.view(-1))\n",
        """\
import helion
import helion.language as hl


@helion.kernel(config=helion.Config(block_sizes=[1024]))
def fill(source, out):
    for tile in hl.tile(out.size(0)):
        out[tile] = {value}


def {name}({parameters}):
{each}""",
    ),
)


class HelionCode(HostCode):
    """Host code of Helion: all but the loops over tiles in a kernel, which run on the GPU."""

    traces_torch = True
    jit = frozenset({"helion.kernel"})
    decorators = jit
    allowed = tuple(
        f"helion.{name}."
        for name in "Config __version__ cdiv kernel language next_power_of_2".split()
    )

    def device_code(self, node: ast.AST) -> Sequence[ast.AST]:
        if not (isinstance(node, ast.For) and isinstance(node.iter, ast.Call)):
            return ()
        return node.body if self.path(node.iter.func) in _LOOPS and self._in_kernel(node) else ()

    def _in_kernel(self, loop: ast.For) -> bool:
        kernels = filter(self.is_kernel, self.source.nodes)
        return any(loop in ast.walk(kernel) for kernel in kernels)


class Helion(triton.Triton):
    name = "helion"
    texts = TEXTS
    loader = "helion"
    optional = True
    modules = frozenset({"torch", "helion"})

    def check_host_code(self, source: static_analysis.Source) -> None:
        code = HelionCode(source)
        if source.tree.body and not any(map(code.is_kernel, source.nodes)):
            raise Rejected(
                "no-kernel", f"{source.name}: no function is decorated with @helion.kernel"
            )
        for node in source.nodes:
            if isinstance(node, ast.keyword) and node.arg == "ref_mode":
                message = "`ref_mode` runs the kernel by PyTorch; leave it out"
                raise source.reject(node.value, "library-wrapper", message)
        code.check()

    def key(self, files: Mapping[str, str], task: Task) -> str:
        _packages.require(PACKAGE, REQUIREMENT)
        return f"helion {importlib.metadata.version(PACKAGE)}\n{super().key(files, task)}"

    def build(self, files: Mapping[str, str], task: Task, folder: Path) -> Sequence[CompilerOutput]:
        _packages.require(PACKAGE, REQUIREMENT)
        return super().build(files, task, folder)


LANGUAGE = Helion()
