"""What one contestant may do: its environment, and the walls that follow from its rights."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from evaluation.devices.kinds import CPU, GPU
from evaluation.sandbox.features import isolation_features
from evaluation.sandbox.policy import Policy

PACKAGE = Path(__file__).resolve().parents[1]
LOG_BYTES = 16 << 20
SCRATCH_BYTES = {False: 32 << 20, True: 512 << 20}
"""By whether it compiles when it runs."""


@dataclass(frozen=True)
class ProcessLimits:
    """What one contestant gets: the artefact it may read, a folder it may write, and its limits."""

    folder: Path
    scratch: Path
    memory_bytes: int
    seconds: float
    threads: int
    trusted: bool = False
    """One of ours: it may write large files."""
    compiles: bool = False
    """It may start processes: a compiler, when it runs."""
    kind: str = CPU
    """The kind of device it runs on."""
    environment: Mapping[str, str] = field(default_factory=dict)

    def variables(self) -> dict[str, str]:
        """All the environment that it gets.

        On a GPU it sees the one that the judge measures on, the first of those that the judge sees.
        """
        first_gpu = os.environ.get("CUDA_VISIBLE_DEVICES", "0").partition(",")[0]
        return {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self.scratch),
            "TRITON_HOME": str(self.scratch),  # the zygote, which imported it, has none
            "USER": "contestant",  # libraries ask for its name, which a stranger has nowhere else
            "TMPDIR": str(self.scratch),
            "OMP_NUM_THREADS": str(self.threads),
            "CUDA_VISIBLE_DEVICES": first_gpu if self.kind == GPU else "",
            **self.environment,
        }

    def policy(self) -> Policy:
        """The walls around it, of those that this machine has."""
        return Policy(
            features=isolation_features(),
            readable=(sys.prefix, sys.base_prefix, str(PACKAGE), str(self.folder)),
            writable=(str(self.scratch),),
            # A GPU's driver reserves more addresses than any machine has memory.
            memory_bytes=0 if self.kind == GPU else self.memory_bytes * 2,
            file_bytes=1 << 30 if self.trusted else LOG_BYTES,
            scratch_bytes=0 if self.trusted else SCRATCH_BYTES[self.compiles],
            fork=self.compiles,
            pinned=True,
            gpu=self.kind == GPU,
            unprivileged_user=not self.trusted,
        )
