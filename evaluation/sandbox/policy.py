"""The rights of a sandboxed process, and the isolation features that a machine offers."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass


@dataclass(frozen=True)
class IsolationFeatures:
    """The kernel features that isolate a process. The field names are published with results."""

    namespaces: bool = False
    user_namespace: bool = False
    private_proc: bool = False
    read_only_system: bool = False
    landlock: int = 0
    """Version of the ABI; 0 without Landlock."""
    seccomp: bool = False
    other_user: bool = False

    @property
    def any(self) -> bool:
        return self.namespaces or self.landlock > 0


@dataclass(frozen=True)
class Policy:
    """The rights of a sandboxed process. Paths are absolute."""

    features: IsolationFeatures
    readable: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    memory_bytes: int = 8 << 30
    """Limit on the address space; 0 for none."""
    file_bytes: int = 128 << 20
    cpu_seconds: int = 600
    processes: int = 256
    """Limit on processes and threads together."""
    scratch_bytes: int = 0
    """Size of the writable folders in memory; 0 leaves them on their file system."""
    fork: bool = True
    """Whether it can start processes and programs. Threads need no right."""
    pinned: bool = False
    """Whether it must keep the CPU affinity that it is given."""
    unix_sockets: bool = False
    loopback_control: int = -1
    """Descriptor of a Unix socket that gets the sockets of its loopback network; -1 for none."""
    ranks: bool = False
    """Permission to reach one another over a loopback interface, and nothing else."""
    gpu: bool = False
    gpu_files: tuple[str, ...] = ()
    """The device files of the GPUs that it may open; it sees no others."""
    unprivileged_user: bool = False
    """Whether it runs as a user of its own, who gets its writable folders."""
    minimal_root: bool = False
    """Whether all other paths are hidden. `unix_sockets` reach every socket with a visible path."""
    toolchain_only: bool = False
    """Whether it sees of the system only programs, headers and libraries: no accounts, no `/proc`.
    """
    judges: bool = False
    """True for a judge, which shares memory with processes that it confines in turn."""
    confines_itself: bool = False
    """True for code of the judge that applies Landlock to itself later."""

    @property
    def loopback(self) -> bool:
        """True with a loopback network of its own."""
        return self.loopback_control >= 0

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Policy:
        data = json.loads(text)
        data["features"] = IsolationFeatures(**data["features"])
        data |= {name: tuple(data[name]) for name in ("readable", "writable", "gpu_files")}
        return cls(**data)
