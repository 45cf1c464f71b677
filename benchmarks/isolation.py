"""Isolation features with which a process still reaches the GPU and the judge's CUDA IPC memory.

Each feature of `evaluation.sandbox` is tried alone and all of them together, and so is a user other
than the judge's. The judge's CUDA context is made by root and, in a second round, by that user. A
trial has reached the memory when the judge finds its value there. `python benchmarks/gpu.py
isolation` runs it, as root; by itself this script is a judge that holds memory.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from evaluation.bench.devices.gpu_files import measured  # noqa: E402 - the path comes first
from evaluation.sandbox import launch  # noqa: E402 - the path comes first
from evaluation.sandbox.features import isolation_features  # noqa: E402
from evaluation.sandbox.policy import IsolationFeatures, Policy  # noqa: E402

NOBODY_UID = 65534
MAX_TRIAL_SECONDS, PARALLEL_TRIALS = 120, 6
IN_NAMESPACES = "unshare --net --ipc --uts --mount --pid --fork --mount-proc".split()
AS_NOBODY = (
    f"setpriv --reuid {NOBODY_UID} --regid {NOBODY_UID} --clear-groups --no-new-privs".split()
)
PREFIXES = {
    "another user": AS_NOBODY,
    "another user in namespaces": [*IN_NAMESPACES, *AS_NOBODY],
}
TRIAL = """
import sys
sys.path.insert(0, {package!r})
import torch
from evaluation.bench.memory.cuda_runtime import as_tensor, open_block
as_tensor(open_block({handle!r}), 256)[{place}] = {place}
torch.cuda.synchronize()
"""


def measure() -> list[dict[str, Any]]:
    """Return a row for each trial: its features, the user of the judge's context, the outcome."""
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder)
        package.chmod(0o755)  # another user reads it
        shutil.copytree(ROOT / "evaluation", package / "evaluation")
        return [row for user in (0, NOBODY_UID) for row in _run_trials(user, package)]


def _run_trials(user: int, package: Path) -> list[dict[str, Any]]:
    trials = ("none", *_features(), *PREFIXES)
    made_by = "root" if user == 0 else f"user {user}"
    with _judge(user) as (handle, read_values):
        if not handle:
            return [{"walls": "any", "context": made_by, "reached": False, "said": "no context"}]

        def run_trial(numbered: tuple[int, str]) -> tuple[int, str]:
            place, trial = numbered
            code = TRIAL.format(package=str(package), handle=handle, place=place)
            return _run(trial, [sys.executable, "-I", "-c", code], package)

        with ThreadPoolExecutor(PARALLEL_TRIALS) as pool:
            outcomes = list(pool.map(run_trial, enumerate(trials, 1)))
        values = read_values()
    return [
        {
            "walls": trial,
            "context": made_by,
            "reached": values[place] == place,
            "status": status,
            "said": "".join(output.strip().splitlines()[-1:]),
        }
        for place, (trial, (status, output)) in enumerate(zip(trials, outcomes, strict=True), 1)
    ]


def _features() -> dict[str, IsolationFeatures]:
    every = isolation_features()
    return {
        "namespaces": IsolationFeatures(namespaces=True),
        "namespaces, own /proc, read-only system": dataclasses.replace(
            every, landlock=0, seccomp=False
        ),
        "user namespace": IsolationFeatures(namespaces=True, user_namespace=True),
        "Landlock": IsolationFeatures(landlock=every.landlock),
        "seccomp": IsolationFeatures(seccomp=every.seccomp),
        "all that this machine has": every,
    }


def _run(trial: str, command: list[str], package: Path) -> tuple[int, str]:
    """Return exit code and output of a command with the features of a trial."""
    if features := _features().get(trial):
        with tempfile.TemporaryDirectory() as scratch:
            readable = (sys.prefix, sys.base_prefix, str(package))
            files = measured().files
            policy = Policy(
                features, readable, (scratch,), memory_bytes=0, gpu=True, gpu_files=files
            )
            home = {"HOME": scratch, "TMPDIR": scratch}
            completed = launch.run(command, policy, timeout=MAX_TRIAL_SECONDS, env=home)
            return completed.returncode, completed.stdout
    process = subprocess.run(
        [*PREFIXES.get(trial, ()), *command],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=MAX_TRIAL_SECONDS,
        cwd="/",
    )  # fmt: skip
    return process.returncode, process.stdout


@contextmanager
def _judge(user: int) -> Iterator[tuple[str, Callable[[], list[int]]]]:
    """Start a process that holds device memory, with a CUDA context made by a user.

    Yields: the memory's IPC handle, empty if it has none, and a function that reads the memory.
    """
    with subprocess.Popen(
        [sys.executable, __file__, str(user)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdin and process.stdout
        handle = process.stdout.readline().strip()

        def read_values() -> list[int]:
            return list(json.loads(process.communicate("", timeout=MAX_TRIAL_SECONDS)[0]))

        yield handle, read_values


def hold(user: int) -> None:
    """As root: hold memory, with a context made by a user, until stdin ends; then print it."""
    import torch  # only in the process that holds memory

    from evaluation.bench.memory import cuda_ipc, cuda_runtime

    os.seteuid(user)
    block = cuda_ipc.DeviceBlock(cuda_ipc.LARGE_PAGE)
    os.seteuid(0)
    memory = cuda_runtime.as_tensor(block.pointer.value or 0, 256).zero_()
    torch.cuda.synchronize()
    print(block.handle, flush=True)
    sys.stdin.read()
    print(json.dumps(memory.tolist()))


if __name__ == "__main__":
    hold(int(sys.argv[1]))
