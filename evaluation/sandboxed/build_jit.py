"""UNTRUSTED: runs a candidate's host function with a compiler that launches nothing. A script.

    python -I build_jit.py <request.json> <answer>

The request holds `source` (path), `entry`, `arguments` (the call on the smallest case) and
`language`. The kernels that the call compiles, and any `error`, are written to `<answer>`.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

Kernels = dict[str, dict[str, Any]]
"""Compiled kernels by name, as `build_triton.describe` returns one."""

_ENTRY = re.compile(r"__global__\s+void\s+(?:__launch_bounds__\([^)]*\)\s+)?(\w+)\s*\(")


def main(request_path: Path, answer_path: Path) -> int:
    request, kernels = json.loads(request_path.read_text()), Kernels()
    triton = _script("build_triton")
    source, answer = Path(request["source"]), dict[str, Any]()
    try:
        replace_stream()
        _LANGUAGES[request["language"]](kernels)
        triton.add_types_of_gpu_mode()
        module = _load(source)
        entry = getattr(module, request["entry"], None)
        if not callable(entry):
            message = f"no function `{request['entry']}` in {source.name}; define it"
            raise triton.MissingEntry(message)
        entry(*triton.values_of(request["arguments"], triton.zeros))
    except BaseException as error:
        answer["error"] = triton.explain(error, source)
    for kernel in kernels.values():
        for kind, text in kernel["listings"].items():
            kernel["listings"][kind] = text[: triton.MAX_LISTING_CHARACTERS]
    answer_path.write_text(json.dumps({**answer, "kernels": list(kernels.values())}))
    return 0


def replace_stream() -> None:
    """Let a host function ask for the current stream, though no GPU is in reach of a build."""
    import torch

    stream = SimpleNamespace(cuda_stream=0, device=torch.device("cpu"))
    torch.cuda.current_stream = lambda device=None: stream  # type: ignore[assignment,return-value]


def record_cutedsl(kernels: Kernels) -> None:
    """Let functions of CuTe DSL be compiled, and record their kernels instead of running them."""
    executor: Any = importlib.import_module("cutlass.base_dsl.jit_executor")

    def run(self: Any, arguments: list[Any]) -> int:
        listing = str(getattr(self.artifacts, "PTX", None) or "")
        listings = {"ptx": listing} if listing else {}
        for name in self.kernel_info or {}:
            resources = {"targets": listing.count(".target")} if listing else {}
            kernels[name] = {"name": name, "resources": resources, "listings": listings}
        return 0

    executor.JitCompiledFunction.run_compiled_program = run


def record_tilelang(kernels: Kernels) -> None:
    """Let TileLang compile its functions, and record their kernels instead of running them."""
    compiled: Any = importlib.import_module("tilelang.jit.kernel")

    def run(self: Any, *arguments: Any, **options: Any) -> None:
        source = str(self.get_kernel_source())
        registers = {"registers": self.n_regs, "spill_bytes": self.n_spills}
        resources = {n: int(v) for n, v in registers.items() if isinstance(v, int)}
        for name in dict.fromkeys(_ENTRY.findall(source)):
            kernels[name] = {"name": name, "resources": resources, "listings": {"cu": source}}

    compiled.JITKernel.__call__ = run


_LANGUAGES: dict[str, Callable[[Kernels], None]] = {
    "cutedsl": record_cutedsl,
    "tilelang": record_tilelang,
}


def _script(name: str) -> Any:
    """Return another script of this folder, which is not on Python's path."""
    return _load(Path(__file__).with_name(f"{name}.py"))


def _load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    code = main(Path(sys.argv[1]), Path(sys.argv[2]))
    sys.stdout.flush()
    os._exit(code)  # these compilers have threads that would outlive the interpreter
