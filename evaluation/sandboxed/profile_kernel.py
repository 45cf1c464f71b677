"""UNTRUSTED: runs a candidate's kernel under a profiler, in the sandbox. Run as a script.

    profile_kernel.py JOB [confined]        a JSON object; see `evaluation.kinds.kernel.profile`

Inputs are those of a seen case, from a public seed. The candidate's output is dropped. Two lines
are printed: REACHED, before any of the candidate's code runs, and ANSWER followed by JSON.
"""

from __future__ import annotations

import ctypes
import importlib.util
import json
import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

# torch and `evaluation` are imported in functions: after `_import_evaluation`, in the sandbox.

REACHED = "arena-profile reached the GPU"
ANSWER = "arena-profile answers "
PR_SET_PDEATHSIG = 1
SEED = 1
MAX_MESSAGE_CHARACTERS = 2000


def main(text: str, *confined: str) -> None:
    """Profile one job and print the answer; a job with a `policy` runs in that sandbox."""
    job = json.loads(text)
    _import_evaluation()
    if "policy" in job and not confined:
        restart_confined(job["policy"], [__file__, text, "confined"])
    output = os.dup(1)
    null = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(null, stream)
    try:
        answer = _profile(job, output)
    except BaseException as error:
        # The import of `evaluation` may have failed, so its error classes cannot be used.
        reason = getattr(getattr(error, "reason", None), "value", "CALL_ERROR")
        message = getattr(error, "message", "") or traceback.format_exc()
        answer = {"reason": reason, "message": str(message)[-MAX_MESSAGE_CHARACTERS:]}
    _print(output, ANSWER + json.dumps(answer))
    os._exit(0)  # the clean-up of a broken CUDA context can hang


def _print(output: int, line: str) -> None:
    os.write(output, f"\n{line}\n".encode())


def restart_confined(policy: str, arguments: Sequence[str]) -> NoReturn:
    """Confine this process by `policy`, and replace its program by Python with `arguments`.

    Landlock and seccomp confine the calling thread only, and a profiler may have started others. A
    new program has no other threads.
    """
    from evaluation.sandbox import containment
    from evaluation.sandbox.policy import Policy

    containment.confine(Policy.from_json(policy))
    # Its parent is a thread of the profiler, which may end earlier.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0)
    os.execv(sys.executable, [sys.executable, "-I", *arguments])


def _profile(job: Mapping[str, Any], output: int) -> dict[str, Any]:
    import torch

    from evaluation.bench.profiling.tools import tools
    from evaluation.sandboxed.kernels import loader
    from evaluation.sandboxed.kernels.torch import TorchKernel
    from evaluation.types import Argument, Case, Split

    torch.set_num_threads(1)
    torch.backends.cudnn.allow_tf32 = False  # as in a measured process
    torch.zeros(1, device="cuda").item()
    _print(output, REACHED)
    case = Case(**{**job["case"], "split": Split(job["case"]["split"])})
    arguments = [Argument(**argument) for argument in job["arguments"]]
    kernel = loader(job["loader"]).load(Path(job["folder"]), job["entry"])
    slots = slots_of(job, case, arguments, "cuda")
    if isinstance(kernel, TorchKernel):
        kernel.suite_call = job["suite_call"]
    launch = kernel.bind(arguments, slots)
    launch(0, 1)  # compiles and tunes just-in-time kernels
    torch.cuda.synchronize()
    return dict(tools()[job["tool"]].watch(lambda: launch(1, job["launches"])))


def slots_of(
    job: Mapping[str, Any], case: Any, arguments: Sequence[Any], device: str
) -> list[dict[str, Any]]:
    """Return the arguments of each launch: generated inputs and uninitialised outputs."""
    import torch

    from evaluation.shapes import dtype_of, shape_of
    from evaluation.tasks.defaults import load_reference
    from evaluation.tasks.input_families import torch_dtype
    from evaluation.tasks.loaded_code import LoadedCode

    path = Path(job["reference"])
    module = load_reference(path.read_text(encoding="utf-8"), path, tuple(arguments))
    seeds = [SEED] * job["slots"]
    drawn = LoadedCode(module, arguments).draw(case, torch.device(device), "nominal", seeds)
    outputs = [a for a in arguments if a.role == "output"]
    types = {a.name: torch_dtype(dtype_of(a, case)) for a in outputs}
    for slot in drawn:
        slot |= job["values"]
        for a in outputs:
            slot[a.name] = torch.empty(shape_of(a, case), dtype=types[a.name], device=device)
    return drawn


def _import_evaluation() -> None:
    """Import the package by its path: in the sandbox the folder above it cannot be listed."""
    package = Path(__file__).resolve().parent.parent
    spec = importlib.util.spec_from_file_location("evaluation", package / "__init__.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["evaluation"] = module
    spec.loader.exec_module(module)


if __name__ == "__main__":
    main(*sys.argv[1:])
