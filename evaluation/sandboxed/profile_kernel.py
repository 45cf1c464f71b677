"""What a profiler starts: a candidate's kernel, behind a contestant's walls, on memory of its own.

    inmate.py JOB [confined]        a JSON object; see `evaluation.profiling`

The values are those of a seen case, from a seed that anyone may know. What the candidate prints is
dropped; of what is said here two lines count: REACHED, before anything of the candidate's runs, and
in the end an answer as JSON behind ANSWER.
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

REACHED = "arena-profile reached the GPU"
ANSWER = "arena-profile answers "
PR_SET_PDEATHSIG = 1
SEED = 1
MOST_SAID = 2000


def main(text: str, *confined: str) -> None:
    """Profile one job and say how that went; a job with a `policy` behind the walls of it."""
    job = json.loads(text)
    _know_the_judge()
    if "policy" in job and not confined:
        start_again_confined(job["policy"], [__file__, text, "confined"])
    said = os.dup(1)
    nothing = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nothing, stream)
    try:
        answer = _carry_out(job, said)
    except BaseException as error:
        # `evaluation` may be what failed to load, so a reason is looked for, not imported.
        reason = getattr(getattr(error, "reason", None), "value", "CALL_ERROR")
        message = getattr(error, "message", "") or traceback.format_exc()
        answer = {"reason": reason, "message": str(message)[-MOST_SAID:]}
    _say(said, ANSWER + json.dumps(answer))
    os._exit(0)  # a context that a kernel has spoilt is not to be taken apart


def _say(said: int, line: str) -> None:
    os.write(said, f"\n{line}\n".encode())


def start_again_confined(policy: str, words: Sequence[str]) -> NoReturn:
    """Put up the walls of `policy` and start Python on `words` behind them, in this process.

    A thread puts up walls around itself alone, and a profiler may have started others here already;
    a program that starts has only threads from within.
    """
    from evaluation.sandbox import launch
    from evaluation.sandbox.policy import Policy

    launch.confine(Policy.from_json(policy))
    # Its parent is a thread of the profiler's, which may end before it is done.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0)
    os.execv(sys.executable, [sys.executable, "-I", *words])


def _carry_out(job: Mapping[str, Any], said: int) -> dict[str, Any]:
    import torch

    from evaluation.languages import languages
    from evaluation.profiling.tools import tools
    from evaluation.types import Argument, Case, Split

    torch.set_num_threads(1)
    torch.backends.cudnn.allow_tf32 = False  # as contestants have it
    torch.zeros(1, device="cuda").item()
    _say(said, REACHED)
    case = Case(**{**job["case"], "split": Split(job["case"]["split"])})
    arguments = [Argument(**argument) for argument in job["arguments"]]
    kernel = languages()[job["language"]].load(Path(job["folder"]), job["entry"])
    slots = [_slot(job, case, arguments) for _ in range(job["slots"])]
    launch = kernel.bind(arguments, slots)
    launch(0, 1)  # compiles and tunes what is compiled and tuned when it runs
    torch.cuda.synchronize()
    return dict(tools()[job["tool"]].watch(lambda: launch(1, job["launches"])))


def _slot(job: Mapping[str, Any], case: Any, arguments: Any) -> dict[str, Any]:
    """The arguments of one launch: inputs as the operator draws them, outputs of no values."""
    import runpy

    import torch

    from evaluation.memory.layout import torch_dtype
    from evaluation.tasks.domain import dtype_of, shape_of
    from evaluation.tasks.input_families import InputGenerator

    reference = runpy.run_path(job["reference"])
    generator = torch.Generator("cuda").manual_seed(SEED)
    drawn = reference["inputs"](case, InputGenerator(generator, "nominal"))
    slot: dict[str, Any] = dict(job["values"])
    for argument in arguments:
        if argument.role == "scalar":
            continue
        dtype = torch_dtype(dtype_of(argument, case))
        if argument.role == "input":
            slot[argument.name] = drawn[argument.name].to(dtype).contiguous()
        else:
            slot[argument.name] = torch.empty(shape_of(argument, case), dtype=dtype, device="cuda")
    return slot


def _know_the_judge() -> None:
    """Make the package known: the folder above it cannot be listed behind the walls."""
    package = Path(__file__).resolve().parent.parent
    spec = importlib.util.spec_from_file_location("evaluation", package / "__init__.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["evaluation"] = module
    spec.loader.exec_module(module)


if __name__ == "__main__":
    main(*sys.argv[1:])
