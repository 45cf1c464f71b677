"""The limits of one candidate or baseline process, and its environment and policy."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from evaluation.bench.devices.gpu_files import Gpus, measured
from evaluation.device_kind import CPU, GPU
from evaluation.sandbox.features import isolation_features
from evaluation.sandbox.policy import Policy

PACKAGE = Path(__file__).resolve().parents[2]
LOG_BYTES, TRUSTED_FILE_BYTES = 16 << 20, 1 << 30
COMPILER_FILE_BYTES = 256 << 20
"""Of a process that compiles: precompiled headers of PyTorch exceed 16 MiB."""
CPU_SECONDS, TASK_CODE_CPU_SECONDS = 600, 24 * 3600
"""The code of a task serves many verdicts, and each of its replies has a limit."""
SCRATCH_BYTES, COMPILER_SCRATCH_BYTES = 32 << 20, 512 << 20
SHARED_MEMORY = "/dev/shm"
"""A folder that NCCL needs."""
RANK_ENVIRONMENT = {
    "GLOO_SOCKET_IFNAME": "lo",
    "NCCL_SOCKET_IFNAME": "lo",
    "NCCL_IB_DISABLE": "1",
    "NCCL_RAS_ENABLE": "0",
    "NCCL_CUMEM_ENABLE": "0",  # GPUs share memory by CUDA IPC, without descriptors
    "NCCL_CUMEM_HOST_ENABLE": "0",
    "TORCH_NCCL_ENABLE_MONITORING": "0",  # it would end a rank that was suspended for minutes
    "NCCL_NVLS_ENABLE": "0",
    "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1",
    "NVSHMEM_DISABLE_NVLS": "1",
}
"""Ranks meet on the loopback interface. Multicast over NVLink, in the last three, can put the GPUs
of a shared host out of service."""


@dataclass(frozen=True)
class ProcessLimits:
    """A process's folders, resources and rights."""

    folder: Path
    """The built kernel, which it can read."""
    scratch: Path
    """The folder that it can write to."""
    memory_bytes: int
    seconds: float
    """Limit on one reply."""
    threads: int
    trusted: bool = False
    """Whether it is a baseline: it can write large files."""
    compiles: bool = False
    """Whether it starts compilers when it runs, and so can start processes."""
    kind: str = CPU
    """The kind of device that it runs on."""
    environment: Mapping[str, str] = field(default_factory=dict)
    readable: tuple[Path, ...] = ()
    """Other folders that it can read."""
    task_code: bool = False
    """Whether it runs the code of a task, which is never timed. Its GPU memory has no limit."""
    ranks: int = 1
    """Processes that a model is split over, each with a GPU of its own if it uses one."""

    @property
    def timed_on_cores(self) -> bool:
        """Return whether its windows run on the processor, where other threads disturb them."""
        return self.kind != GPU and not self.task_code

    def variables(self) -> dict[str, str]:
        """Return its whole environment.

        It sees only the GPU that the judge measures on, or one for each of several ranks.
        """
        return {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self.scratch),
            "TRITON_HOME": str(self.scratch),  # the fork server imported Triton without a home
            "USER": "candidate",  # libraries ask for a name, which its user id does not have
            "TMPDIR": str(self.scratch),
            "OMP_NUM_THREADS": str(self.threads),
            "CUDA_VISIBLE_DEVICES": ",".join(self._gpus().names),
            **(RANK_ENVIRONMENT if self.ranks > 1 else {}),
            **self.environment,
        }

    def policy(self) -> Policy:
        """Return its sandbox policy, with the isolation features of this machine."""
        scratch_bytes = COMPILER_SCRATCH_BYTES if self.compiles else SCRATCH_BYTES
        ranks = self.ranks > 1
        shared = (SHARED_MEMORY,) if ranks and self.kind == GPU else ()
        return Policy(
            features=isolation_features(),
            readable=(
                sys.prefix,
                sys.base_prefix,
                *map(str, (PACKAGE, self.folder, *self.readable)),
            ),
            writable=(str(self.scratch), *shared),
            # A GPU's driver reserves more addresses than any machine has memory.
            memory_bytes=0 if self.kind == GPU else self.memory_bytes * 2,
            file_bytes=self._file_bytes(),
            cpu_seconds=TASK_CODE_CPU_SECONDS if self.task_code else CPU_SECONDS,
            scratch_bytes=0 if self.trusted and not shared else scratch_bytes,
            fork=self.compiles,
            pinned=True,
            ranks=ranks,
            minimal_root=ranks,  # so that ranks reach no socket but their own
            gpu=self.kind == GPU,
            gpu_files=self._gpus().files,
            unprivileged_user=not self.trusted,
        )

    def _gpus(self) -> Gpus:
        return measured(self.ranks) if self.kind == GPU else Gpus((), ())

    def _file_bytes(self) -> int:
        if self.trusted:
            return TRUSTED_FILE_BYTES
        return COMPILER_FILE_BYTES if self.compiles else LOG_BYTES
