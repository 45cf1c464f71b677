"""Runs in the sandbox, as a script: the host function of a Triton candidate against a driver that
compiles and never launches.

    python -I triton_build.py <request.json> <answer>

The request holds `source` (path), `entry`, `targets` (each a backend, arch, warp size and bytes of
shared memory), `arguments`, the call on its smallest case, and `others`, calls that are to be found
compiled later. Each target has a process of its own, side by side, so that none undoes another;
what came of it is left in `<answer>.0` and so on: the compiled `kernels`, and perhaps an `error`.
Their reader takes them for a stranger's words. The exit code is that of the first target's process,
which goes on with the other calls when it has answered.
"""

from __future__ import annotations

import contextlib
import gc
import importlib.util
import json
import os
import re
import resource
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

LISTINGS = ("ttgir", "ptx", "amdgcn")
MOST_TEXT = 400_000
MOST_SECONDS, MOST_SHARES = 30, 4
"""Spent on calls that are only to be found compiled later, and the processes that share them."""

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
    """What Triton asks of a device, answered for a target not here. Launches do nothing."""

    def __init__(self, target: Any, shared_bytes: int) -> None:
        self.target = target
        properties = {
            "max_shared_mem": shared_bytes,
            "multiprocessor_count": 1,
            "warpSize": target.warp_size,
        }
        self.utils = SimpleNamespace(
            get_device_properties=lambda device: properties,
            load_binary=lambda *binary: (None, None, 0, 0, 1024),
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
        """An autotuner finds all its configurations equal, and takes the first."""

        def time_once(call: Any, quantiles: Any = None, **options: Any) -> list[float]:
            return [1.0] * len(quantiles or (0,))

        return time_once

    def assemble_tensormap_to_arg(self, tensormaps: Any, arguments: Any) -> Any:
        return arguments


class MissingEntry(Exception):
    """The file has no such function."""


def main(request_path: Path, answer: str) -> int:
    gc.disable()  # what is imported is no garbage, and looking for some takes a fifth of the time
    import torch  # noqa: F401 - imported once for all
    import triton  # noqa: F401

    gc.freeze()
    gc.enable()
    request = json.loads(request_path.read_text())
    children = [fork(number, request, answer) for number in range(len(request["targets"]))]
    first, *_ = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    return first if first >= 0 else 128 - first


def fork(number: int, request: dict[str, Any], path: str) -> int:
    """Start a process that compiles for one target and leaves its answer in `path`; its pid."""
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
        compile_ahead(entry, request["others"])
    os._exit(0)


def compile_for(
    target: list[Any], request: dict[str, Any], path: Path, kernels: list[dict[str, Any]]
) -> Callable[..., Any]:
    """Call the entry point once; every kernel it launches is compiled and added to `kernels`.
    Returns the entry point.
    """
    import torch
    import triton
    from triton.backends.compiler import GPUTarget

    def heard(*, metadata: Any, metadata_group: Any, **rest: Any) -> None:
        kernels.append(describe(metadata, metadata_group, path.parent))

    *device, shared_bytes = target
    triton.runtime.driver.set_active(CompilingDriver(GPUTarget(*device), shared_bytes))
    triton.knobs.compilation.listener = heard
    spec = importlib.util.spec_from_file_location("_candidate", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    entry: Callable[..., Any] | None = getattr(module, request["entry"], None)
    if not callable(entry):
        raise MissingEntry(f"no function `{request['entry']}` in {path.name}; define it")
    entry(*values_of(request["arguments"], torch.zeros))
    return entry


def compile_ahead(entry: Callable[..., Any], calls: list[list[dict[str, Any]]]) -> None:
    """Compile what these calls launch into Triton's cache while there is time, of an autotuner its
    first choice, and the C by which Triton launches: one module for all, and before Triton 3.7 one
    for each signature. Whatever goes wrong here is told when it is run.
    """
    import triton
    from triton.backends.nvidia.driver import CudaLauncher, CudaUtils

    def launcher(source: Any, metadata: Any) -> Any:
        with contextlib.suppress(Exception):  # it is compiled, but there is no GPU to load it for
            CudaLauncher(source, metadata)
        return lambda *arguments: None

    triton.knobs.compilation.listener = None
    triton.runtime.driver.active.launcher_cls = launcher
    shares = min(MOST_SHARES, len(os.sched_getaffinity(0)), len(calls))
    memory = resource.getrlimit(resource.RLIMIT_AS)[0] // shares
    children = [fork_share(entry, calls[share::shares], memory) for share in range(shares)]
    with contextlib.suppress(Exception):
        CudaUtils()
    for child in children:
        os.waitpid(child, 0)


def fork_share(entry: Callable[..., Any], calls: list[list[dict[str, Any]]], memory: int) -> int:
    """Start a process that makes these calls and takes at most so many bytes for it; its pid."""
    import torch

    child = os.fork()
    if child:
        return child
    signal.alarm(MOST_SECONDS)  # ends it; of Triton's cache only whole entries are found
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        most = pages * resource.getpagesize() + memory
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        for call in calls:
            with contextlib.suppress(Exception):
                entry(*values_of(call, torch.empty))
    finally:
        os._exit(0)


def values_of(call: list[dict[str, Any]], made: Callable[..., Any]) -> list[Any]:
    """The arguments of a call, tensors as `made` makes them."""
    import torch

    return [
        made(item["shape"], dtype=getattr(torch, item["dtype"]))
        if "shape" in item
        else item["value"]
        for item in call
    ]


def describe(metadata: Any, files: dict[str, str], folder: Path) -> dict[str, Any]:
    """Name, resources and listings of one compiled kernel, whose sources lie in `folder`."""
    texts = {}
    for name, location in files.items():
        kind = name.rpartition(".")[2]
        if kind in LISTINGS:
            text = Path(location).read_text().replace(f"{folder}/", "").replace(str(folder), ".")
            texts[kind] = text[:MOST_TEXT]
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
    """What ptxas says of a listing: Triton's own call throws these words away."""
    import triton

    tools = triton.knobs.nvidia  # a newer ptxas is for Blackwell alone
    tool = (tools.ptxas_blackwell if capability >= 100 else tools.ptxas).path
    arch = f"sm_{capability}a" if capability >= 90 else f"sm_{capability}"
    argv = [tool, "-v", f"--gpu-name={arch}", listing, "-o", "/dev/null"]
    return subprocess.run(argv, capture_output=True, text=True).stderr


def explain(error: BaseException, path: Path) -> dict[str, Any]:
    """The type, line and message of what went wrong; the line is the candidate's own."""
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
    said = str(error) or str(cause or "")
    return {"type": type(error).__name__, "line": line, "message": said[:8000]}


def _numbers(patterns: dict[str, str], text: str) -> dict[str, int]:
    found = {name: re.search(pattern, text) for name, pattern in patterns.items()}
    return {name: int(match[1]) for name, match in found.items() if match}


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2]))
