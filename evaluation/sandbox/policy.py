"""What an inmate may do, and the walls that a machine can put around one.

Standard library alone, as `sandbox`.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass


@dataclass(frozen=True)
class IsolationFeatures:
    """What this machine can put around a process, found by trying it."""

    namespaces: bool = False
    user_namespace: bool = False
    private_proc: bool = False
    read_only_system: bool = False
    landlock: int = 0
    seccomp: bool = False
    other_user: bool = False

    @property
    def any(self) -> bool:
        return self.namespaces or self.landlock > 0


@dataclass(frozen=True)
class Policy:
    """What an inmate may do. Paths are absolute; `processes` counts threads too.

    With `scratch_bytes` the writable folders are memory of that size, gone with the inmate; with
    `gpu` it reaches this machine's GPUs. No `memory_bytes` are no limit on addresses.
    `fork=False` leaves threads but neither new processes nor other programs; who is `pinned` stays
    on the cores that it is put on. A `stranger` is a user of its own, who owns nothing but its
    writable folders, which must be of memory. Who is `enclosed` finds no path but the system's and
    its own, for `unix_sockets` reach whatever has one.
    """

    walls: IsolationFeatures
    readable: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    memory_bytes: int = 8 << 30
    file_bytes: int = 128 << 20
    cpu_seconds: int = 600
    processes: int = 256
    scratch_bytes: int = 0
    fork: bool = True
    pinned: bool = False
    unix_sockets: bool = False
    gpu: bool = False
    stranger: bool = False
    enclosed: bool = False

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Policy:
        data = json.loads(text)
        data["walls"] = IsolationFeatures(**data["walls"])
        data |= {name: tuple(data[name]) for name in ("readable", "writable")}
        return cls(**data)
