"""UNTRUSTED: runs a Triton candidate's host function with a driver that only compiles. A script.

    python -I build_triton.py <request.json> <answer>

The request holds `source` (path), `entry`, and `targets` (each a backend, arch, warp size and bytes
of shared memory). `arguments` is the call on the smallest case; `others` are compiled ahead.
Each target is compiled in a process of its own, which writes its `kernels`, and any `error`, to
`<answer>.0` and so on. The exit code is that of the first target's process, which then compiles the
other calls.
"""

from __future__ import annotations

import contextlib
import gc
import importlib.util
import json
import math
import os
import re
import resource
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

# torch and triton are imported in functions: `main` does so first, without garbage collection.

HELION = {"HELION_AUTOTUNE_EFFORT": "none"}
"""Environment variables of Helion: a kernel without a configuration gets the default one."""
LISTINGS = ("ttgir", "ptx", "amdgcn")
MAX_LISTING_CHARACTERS, MAX_MESSAGE_CHARACTERS = 400_000, 8000
MAX_AHEAD_SECONDS, MAX_PROCESSES = 30, 4
"""Limits on compiling calls ahead, which several processes share."""
LARGE_BYTES = 64 << 20
"""Above it, memory that is allocated is new to the process, and thus zero (see mallopt(3))."""
_REGISTERS = 32
"""Registers of a thread as a kernel is told when it is compiled ahead: it may divide by them."""

_PTXAS = {
    "registers": r"Used (\d+) registers",
    "spill_store_bytes": r"(\d+) bytes spill stores",
    "spill_load_bytes": r"(\d+) bytes spill loads",
    "stack_bytes": r"(\d+) bytes stack frame",
}
_AMDGCN = {
    "vector_registers": r"\.vgpr_count:\s+(\d+)",
    "scalar_registers": r"\.sgpr_count:\s+(\d+)",
    "vector_spills": r"\.vgpr_spill_count:\s+(\d+)",
    "scalar_spills": r"\.sgpr_spill_count:\s+(\d+)",
}


class CompilingDriver:
    """A Triton driver for a target that is not in this machine. Launches do nothing."""

    def __init__(self, target: Any, shared_bytes: int) -> None:
        self.target = target
        properties = {  # a kernel may compute its grid from any of these
            "max_shared_mem": shared_bytes,
            "max_num_regs": 65536,
            "multiprocessor_count": 1,
            "warpSize": target.warp_size,
            "sm_clock_rate": 1_000_000,
            "mem_clock_rate": 1_000_000,
            "mem_bus_width": 1024,
        }
        self.utils = SimpleNamespace(
            get_device_properties=lambda device: properties,
            load_binary=lambda *binary: (None, None, _REGISTERS, 0, 1024),
        )

    def launcher_cls(self, source: Any, metadata: Any) -> Any:
        return lambda *arguments: None

    def get_current_target(self) -> Any:
        return self.target

    def get_current_device(self) -> int:
        return 0

    def set_current_device(self, device: int) -> None:
        return None

    def get_current_stream(self, device: int | None = None) -> int:
        return 0

    def get_active_torch_device(self) -> Any:
        import torch

        return torch.device("cpu")

    def get_benchmarker(self) -> Any:
        """Return equal times, so that an autotuner selects its first configuration."""

        def time_once(call: Any, quantiles: Any = None, **options: Any) -> list[float]:
            return [1.0] * len(quantiles or (0,))

        return time_once

    def assemble_tensormap_to_arg(self, tensormaps: Any, arguments: Any) -> Any:
        return arguments


class MissingEntry(Exception):
    """The file does not define the entry point."""


def main(request_path: Path, answer: str) -> int:
    gc.disable()  # during imports, collection takes a fifth of the time and frees nothing
    import torch  # noqa: F401 - imported once for all processes
    import triton  # noqa: F401

    gc.freeze()
    gc.enable()
    request = json.loads(request_path.read_text())
    pages = int(Path("/proc/self/statm").read_text().split()[0])  # those forked cannot read theirs
    request["mapped_bytes"] = pages * resource.getpagesize()
    children = [fork(number, request, answer) for number in range(len(request["targets"]))]
    first, *_ = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    return first if first >= 0 else 128 - first


def fork(number: int, request: dict[str, Any], path: str) -> int:
    """Fork a process that compiles for one target and writes its answer; return the pid."""
    sys.stdout.flush()
    child = os.fork()
    if child:
        return child
    target, source = request["targets"][number], Path(request["source"])
    os.environ["TRITON_CACHE_DIR"] += f".{number}"
    answer: dict[str, Any] = {"kernels": []}
    entry = None
    try:
        entry = compile_for(target, request, source, answer["kernels"])
    except BaseException as error:
        answer["error"] = explain(error, source)
    Path(f"{path}.{number}").write_text(json.dumps(answer))
    sys.stdout.flush()
    if entry and number == 0 and request["others"]:
        compile_ahead(entry, request["others"], request["mapped_bytes"])
    os._exit(0)


def compile_for(
    target: list[Any], request: dict[str, Any], path: Path, kernels: list[dict[str, Any]]
) -> Callable[..., Any]:
    """Call the entry point once, and return it.

    Each kernel that it launches is compiled and added to `kernels`.
    """
    import triton
    from triton.backends.compiler import GPUTarget

    def record(*, metadata: Any, metadata_group: Any, **rest: Any) -> None:
        kernels.append(describe(metadata, metadata_group, path.parent))

    *device, shared_bytes = target
    triton.runtime.driver.set_active(CompilingDriver(GPUTarget(*device), shared_bytes))
    triton.knobs.compilation.listener = record
    add_types_of_gpu_mode()
    spec = importlib.util.spec_from_file_location("_candidate", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    entry: Callable[..., Any] | None = getattr(module, request["entry"], None)
    if not callable(entry):
        raise MissingEntry(f"no function `{request['entry']}` in {path.name}; define it")
    entry(*values_of(request["arguments"], zeros))
    return entry


def add_types_of_gpu_mode() -> None:
    """Let a source import the types of its arguments, as a submission to GPU MODE does."""
    types: Any = ModuleType("task")
    types.input_t = types.output_t = Any
    sys.modules["task"] = types


def compile_ahead(
    entry: Callable[..., Any], calls: list[list[dict[str, Any]]], mapped_bytes: int
) -> None:
    """Compile the kernels of these calls into Triton's cache, until the time is up.

    It also compiles Triton's launchers: one C module, or one a signature before Triton 3.7. An
    autotuner's first configuration is compiled. Errors are ignored: they occur again at run time.
    """
    import triton
    from triton.backends.nvidia.driver import CudaLauncher, CudaUtils

    def launcher(source: Any, metadata: Any) -> Any:
        with contextlib.suppress(Exception):  # it compiles, but there is no GPU to load it
            CudaLauncher(source, metadata)
        return lambda *arguments: None

    triton.knobs.compilation.listener = None
    triton.runtime.driver.active.launcher_cls = launcher
    shares = min(MAX_PROCESSES, len(os.sched_getaffinity(0)), len(calls))
    memory = mapped_bytes + resource.getrlimit(resource.RLIMIT_AS)[0] // shares
    children = [fork_share(entry, calls[share::shares], memory) for share in range(shares)]
    with contextlib.suppress(Exception):
        CudaUtils()
    for child in children:
        os.waitpid(child, 0)


def fork_share(entry: Callable[..., Any], calls: list[list[dict[str, Any]]], memory: int) -> int:
    """Fork a process that makes these calls with so many bytes of addresses; return the pid."""
    import torch

    child = os.fork()
    if child:
        return child
    signal.alarm(MAX_AHEAD_SECONDS)  # the judge reads only whole entries of Triton's cache
    try:
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
        for call in calls:
            with contextlib.suppress(Exception):
                entry(*values_of(call, torch.empty))
    finally:
        os._exit(0)


def values_of(call: list[dict[str, Any]], make_tensor: Callable[..., Any]) -> list[Any]:
    """Return the arguments of a call, with tensors from `make_tensor`."""
    import torch

    return [
        make_tensor(item["shape"], dtype=getattr(torch, item["dtype"]))
        if "shape" in item
        else item["value"]
        for item in call
    ]


def zeros(shape: list[int], dtype: Any) -> Any:
    """Return zeros, for a large tensor of pages that take no memory until they are written."""
    import torch

    large = math.prod(shape) * dtype.itemsize > LARGE_BYTES
    return (torch.empty if large else torch.zeros)(shape, dtype=dtype)


def describe(metadata: Any, files: dict[str, str], folder: Path) -> dict[str, Any]:
    """Return name, resources and listings of a compiled kernel, with sources in `folder`."""
    texts = {}
    for name, location in files.items():
        kind = name.rpartition(".")[2]
        if kind in LISTINGS:
            text = Path(location).read_text().replace(f"{folder}/", "").replace(str(folder), ".")
            texts[kind] = text[:MAX_LISTING_CHARACTERS]
    resources = {
        "shared_bytes": metadata["shared"],
        "warps": metadata["num_warps"],
        "stages": metadata["num_stages"],
    }
    resources |= _numbers(_AMDGCN, texts.get("amdgcn", ""))
    listing = next((location for name, location in files.items() if name.endswith(".ptx")), None)
    if listing:
        resources |= _numbers(_PTXAS, ptxas(listing, metadata["target"].arch))
    return {"name": metadata["name"], "resources": resources, "listings": texts}


def ptxas(listing: str, capability: int) -> str:
    """Return the output of ptxas for a listing, which Triton's own call discards."""
    import triton

    tools = triton.knobs.nvidia  # a newer ptxas is for Blackwell alone
    tool = (tools.ptxas_blackwell if capability >= 100 else tools.ptxas).path
    arch = f"sm_{capability}a" if capability >= 90 else f"sm_{capability}"
    argv = [tool, "-v", f"--gpu-name={arch}", listing, "-o", "/dev/null"]
    return subprocess.run(argv, capture_output=True, text=True).stderr


def explain(error: BaseException, path: Path) -> dict[str, Any]:
    """Return type and message of an error, and its line in the candidate's source."""
    text = path.read_text()
    line = 0
    for frame in traceback.extract_tb(error.__traceback__):
        if frame.filename == str(path):
            line = frame.lineno or line
    if isinstance(error, SyntaxError):
        line = error.lineno or line
    kernel = getattr(error, "src", None)
    within = getattr(getattr(error, "node", None), "lineno", None)
    if isinstance(kernel, str) and isinstance(within, int):
        begin = text.find(kernel.partition("\n")[0])
        if begin >= 0:
            line = text.count("\n", 0, begin) + within
    cause = error.__cause__ or error.__context__
    message = (str(error) or str(cause or ""))[:MAX_MESSAGE_CHARACTERS]
    return {"type": type(error).__name__, "line": line, "message": message}


def _numbers(patterns: dict[str, str], text: str) -> dict[str, int]:
    found = {name: re.search(pattern, text) for name, pattern in patterns.items()}
    return {name: int(match[1]) for name, match in found.items() if match}


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2]))
