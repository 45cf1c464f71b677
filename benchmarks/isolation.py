"""Behind which walls a contestant still reaches the GPU, and memory of the judge's by CUDA IPC.

Every wall of `evaluation.sandbox` is tried alone and all of them together, and so is a user other
than the judge's, with the judge's CUDA context made by root and, on a second try, made by that
user. A trial has reached the memory when the judge finds there what it wrote. `python
benchmarks/gpu.py isolation` runs it, as root; by itself it is a judge that holds memory.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from evaluation.sandbox import launch  # noqa: E402 - the path comes first
from evaluation.sandbox.features import isolation_features
from evaluation.sandbox.policy import IsolationFeatures, Policy  # noqa: E402

OTHER = 65534
"""The user nobody."""
SECONDS, AT_ONCE = 120, 6
APART = "unshare --net --ipc --uts --mount --pid --fork --mount-proc".split()
AS_OTHER = f"setpriv --reuid {OTHER} --regid {OTHER} --clear-groups --no-new-privs".split()
BEFORE = {"another user": AS_OTHER, "another user in namespaces": [*APART, *AS_OTHER]}
INMATE = """
import sys
sys.path.insert(0, {package!r})
import torch
from evaluation.memory import cuda_ipc
cuda.as_tensor(cuda.opened({handle!r}), 256)[{place}] = {place}
torch.cuda.synchronize()
"""


def measure() -> list[dict[str, Any]]:
    """A row for each trial: the walls, who made the judge's CUDA context, and what came of it."""
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder)
        package.chmod(0o755)  # another user reads it
        shutil.copytree(ROOT / "evaluation", package / "evaluation")
        return [row for maker in (0, OTHER) for row in _tried(maker, package)]


def _tried(maker: int, package: Path) -> list[dict[str, Any]]:
    trials = ("none", *_walls(), *BEFORE)
    made_by = "root" if maker == 0 else f"user {maker}"
    with _judge(maker) as (handle, found):
        if not handle:
            return [{"walls": "any", "context": made_by, "reached": False, "said": "no context"}]

        def tried(numbered: tuple[int, str]) -> tuple[int, str]:
            place, walls = numbered
            code = INMATE.format(package=str(package), handle=handle, place=place)
            return _run(walls, [sys.executable, "-I", "-c", code], package)

        with ThreadPoolExecutor(AT_ONCE) as pool:
            ended = list(pool.map(tried, enumerate(trials, 1)))
        written = found()
    return [
        {
            "walls": walls,
            "context": made_by,
            "reached": written[place] == place,
            "status": status,
            "said": "".join(said.strip().splitlines()[-1:]),
        }
        for place, (walls, (status, said)) in enumerate(zip(trials, ended, strict=True), 1)
    ]


def _walls() -> dict[str, IsolationFeatures]:
    every = isolation_features()
    apart = dataclasses.replace(every, landlock=0, seccomp=False)
    return {
        "namespaces": IsolationFeatures(namespaces=True),
        "namespaces, own /proc, read-only system": apart,
        "user namespace": IsolationFeatures(namespaces=True, user_namespace=True),
        "Landlock": IsolationFeatures(landlock=every.landlock),
        "seccomp": IsolationFeatures(seccomp=every.seccomp),
        "all that this machine has": every,
    }


def _run(walls: str, command: list[str], package: Path) -> tuple[int, str]:
    """Exit status and last words of a command behind those walls."""
    if walls in _walls():
        with tempfile.TemporaryDirectory() as scratch:
            readable = (sys.prefix, sys.base_prefix, str(package))
            policy = Policy(_walls()[walls], readable, (scratch,), memory_bytes=0, gpu=True)
            home = {"HOME": scratch, "TMPDIR": scratch}
            done = launch.run(command, policy, timeout=SECONDS, env=home)
            return done.returncode, done.stdout
    done = subprocess.run(
        [*BEFORE.get(walls, ()), *command],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=SECONDS, cwd="/",
    )  # fmt: skip
    return done.returncode, done.stdout


@contextmanager
def _judge(maker: int) -> Iterator[tuple[str, Any]]:
    """A process that holds device memory, its CUDA context made by that user: the memory's handle,
    which is empty where none can be made, and what tells what was written there.
    """
    with subprocess.Popen(
        [sys.executable, __file__, str(maker)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdin and process.stdout
        handle = process.stdout.readline().strip()

        def found() -> list[int]:
            return list(json.loads(process.communicate("", timeout=SECONDS)[0]))

        yield handle, found


def hold(maker: int) -> None:
    """As root: hold memory, with a context made by that user, until stdin ends; then tell it."""
    import torch

    from evaluation.memory import cuda_ipc

    os.seteuid(maker)
    block = cuda_ipc._Block(cuda_ipc.LARGE_PAGE)
    os.seteuid(0)
    memory = cuda_ipc.as_tensor(block.pointer.value or 0, 256).zero_()
    torch.cuda.synchronize()
    print(block.handle, flush=True)
    sys.stdin.read()
    print(json.dumps(memory.tolist()))


if __name__ == "__main__":
    hold(int(sys.argv[1]))
