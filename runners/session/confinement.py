"""Sandbox of an agent's process: its workspace is writable, tools are readable.

Its only network is a loopback of its own, where the model gateway answers.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import pydantic

from evaluation.code.building import nvcc
from evaluation.sandbox import launch
from evaluation.sandbox.features import isolation_features
from evaluation.sandbox.policy import Policy

PACKAGE = Path(__file__).parents[1]
SCRATCH = ".tmp"
MAX_FILE_BYTES = 256 << 20
HARNESS_PROCESSES = 4096
"""Limit on processes and threads of all of this user, where a harness starts many of both."""


def confined(
    workspace: Path,
    package: Path = PACKAGE,
    *,
    readable: Sequence[str] = (),
    loopback_control: int = -1,
) -> list[str]:
    """Return the command line of an agent's process, which reads its brief from stdin.

    `readable` are the paths of its harness, and `loopback_control` is the descriptor over which the
    gateway gets the sockets of its network; -1 for an agent without a model.
    """
    policy = Policy(
        features=isolation_features(),
        readable=(*_python(), *_libraries(), str(package), *readable),
        writable=(str(workspace),),
        memory_bytes=0 if readable else Policy.memory_bytes,  # Node reserves far more than it uses
        processes=HARNESS_PROCESSES if readable else Policy.processes,
        file_bytes=MAX_FILE_BYTES,
        cpu_seconds=24 * 3600,  # the run's time budget ends it earlier
        unix_sockets=True,
        loopback_control=loopback_control,
        minimal_root=True,  # so that it reaches no socket but its own
    )
    agent = [sys.executable, "-P", "-s", str(package / "agents" / "__main__.py")]
    return launch.command(agent, policy)


def environment(workspace: Path, folders: Sequence[str] = ()) -> dict[str, str]:
    """Return the whole environment of an agent; create its folder for temporary files.

    `folders` are added to its PATH, and so is that of nvcc where it is installed.
    """
    scratch = workspace / SCRATCH
    scratch.mkdir(exist_ok=True)
    compilers = [str(Path(found).parent)] if (found := nvcc.compiler()) else []
    path = [str(Path(sys.executable).parent), *folders, "/usr/local/bin:/usr/bin:/bin", *compilers]
    libraries = os.pathsep.join(_libraries())
    return {
        "PATH": os.pathsep.join(path),
        "HOME": str(workspace),
        "TMPDIR": str(scratch),
        "LANG": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",
        **({"PYTHONPATH": libraries} if libraries else {}),
    }


def _python() -> tuple[str, ...]:
    return sys.prefix, sys.base_prefix, sys.executable


def _libraries() -> list[str]:
    """Return the folder of pydantic where it is not Python's own, as on an offline box."""
    folder = Path(pydantic.__file__).resolve().parents[1]
    own = any(folder.is_relative_to(Path(path).resolve()) for path in _python())
    return [] if own else [str(folder)]
