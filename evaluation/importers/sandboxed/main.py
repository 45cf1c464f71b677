"""UNTRUSTED: converts problems of a suite, and writes what each came to as JSON.

    python -I main.py <requests.json> <folder>

The folder gets a folder for each problem, with the task's files and `result.json`: flags and a
fingerprint, or the reason of a refusal. Each problem has a process of its own.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import resource
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

RESULT = "result.json"
SECONDS_TO_SEARCH = 25.0
"""Processor time after which no further sizes are tried."""
IDLE_FACTOR = 5
"""Time in which a problem takes no processor time, in multiples of what it may take."""


def main(requests: Path, folder: Path) -> int:
    os.environ["GOMP_SPINCOUNT"] = "0"
    sys.path.insert(0, str(requests.parent))
    asked = json.loads(requests.read_text(encoding="utf-8"))
    gc.disable()  # during imports, collection takes a sixth of the time and frees nothing
    import torch

    import evaluation.importers.sandboxed.checked  # noqa: F401 - once for all problems
    from evaluation.tasks.loaded_code import run_here

    run_here()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    torch.ones(2, device="meta").add(1)  # imports what operations without data need
    gc.freeze()  # collection in a fork would walk these objects and copy their memory
    gc.enable()
    seconds = asked["seconds"]
    for each in asked["problems"]:
        pid = os.fork()
        if pid == 0:
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
            write_result(each, folder / each["name"])
            os._exit(0)
        status = wait(pid, IDLE_FACTOR * seconds)
        if status is None:
            reason = f"its code took longer than {IDLE_FACTOR * seconds} s"
            refuse(folder / each["name"], reason, final=False)
        elif os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU:
            reason = f"its code took longer than {seconds} s of processor time"
            refuse(folder / each["name"], reason, final=False)
    return 0


def wait(pid: int, idle_seconds: float) -> int | None:
    """Return the status of a process; None where it was killed for taking no processor time.

    A busy machine gives it little time, and is no reason to refuse it.
    """
    clock = (~pid << 3) | 2  # as clock_getcpuclockid() makes it
    spent, until = -1.0, time.monotonic() + idle_seconds
    while time.monotonic() < until:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return status
        if (now := time.clock_gettime(clock)) > spent:
            spent, until = now, time.monotonic() + idle_seconds
        time.sleep(0.02)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return None


def write_result(asked: dict[str, Any], folder: Path) -> None:
    from evaluation.importers.sandboxed.observation import Unsupported

    folder.mkdir()
    try:
        found = convert(asked, folder)
    except Unsupported as error:
        refuse(folder, str(error))
    except BaseException as error:  # a problem's code raises anything
        traceback.print_exc()
        text = str(error).strip().partition("\n")[0]
        refuse(folder, f"{type(error).__name__}: {text[:300]}")
    else:
        (folder / RESULT).write_text(json.dumps(found), encoding="utf-8")


def refuse(folder: Path, reason: str, final: bool = True) -> None:
    folder.mkdir(exist_ok=True)
    found = {"refused": reason, "final": final}
    (folder / RESULT).write_text(json.dumps(found), encoding="utf-8")


def convert(asked: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Write the first of a problem's sources that can be a task; raise the first's error."""
    from evaluation.importers.files import Files

    form = importlib.import_module(f"evaluation.importers.sandboxed.forms.{asked['form']}")
    files, name = Files(**asked["files"]), Path(asked["path"]).stem
    asked["case"] = form.case_name(files) if hasattr(form, "case_name") else "published"
    first: Exception | None = None
    for source in form.sources(files, name):
        try:
            found = convert_source(source, asked, folder, getattr(form, "DEVICES", ("meta",)))
            more = form.flags(files) if hasattr(form, "flags") else []
            return {**found, "flags": [*found["flags"], *more]}
        except Exception as error:  # a problem's code raises anything
            first = first or error
    assert first is not None
    raise first


def convert_source(
    source: str, asked: dict[str, Any], folder: Path, devices: Sequence[str]
) -> dict[str, Any]:
    from evaluation.importers.sandboxed.checked import Checker
    from evaluation.importers.sandboxed.forms.kernelbench import KernelBench
    from evaluation.importers.sandboxed.generalise import General, generalise
    from evaluation.importers.sandboxed.observation import Random, Unsupported
    from evaluation.importers.sandboxed.written import write

    *others, last = devices
    for device in others:
        try:
            problem = KernelBench(source, device)
            break
        except Exception:  # a reference that reads its inputs
            continue
    else:
        problem = KernelBench(source, last)
    general = generalise(problem, SECONDS_TO_SEARCH)

    def converted(general: General) -> dict[str, Any]:
        checker = Checker(write(problem, general, source, asked), folder)
        checker.run()
        return {"fingerprint": checker.fingerprint(), "flags": checker.flags}

    try:
        return converted(general)
    except Random:
        for name in general.ranges:
            with suppress(Unsupported):
                found = converted(general.from_half(name, problem.sizes[name]))
                why = f"{name} is at least half of what it is published as: calls differ for less"
                return {**found, "flags": [*found["flags"], why]}
        raise


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
