"""File access rights of a process, enforced by Landlock.

Source: https://docs.kernel.org/userspace-api/landlock.html
"""

from __future__ import annotations

import os
import struct

from evaluation.sandbox.mounts import DEVICE_PATHS, GPU_PATHS, system_paths
from evaluation.sandbox.policy import Policy
from evaluation.sandbox.syscalls import checked, libc

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_READ = 1 << 0 | 1 << 2 | 1 << 3  # execute, read files, list folders
_ALL_RIGHTS = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}
"""By the ABI version that introduced them."""
_FILE_RIGHTS = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 14 | 1 << 15


def abi_version() -> int:
    """Return the version of Landlock's ABI on this machine; 0 without Landlock."""
    return max(0, int(libc.syscall(_CREATE_RULESET, None, 0, 1)))


def restrict(policy: Policy) -> None:
    """Limit this process to the paths of a policy, irrevocably."""
    abi = policy.features.landlock
    every = max(rights for version, rights in _ALL_RIGHTS.items() if version <= abi)
    network = 3 if abi >= 4 and not (policy.loopback or policy.ranks) else 0
    scope = 3 if abi >= 6 else 0
    attributes = struct.pack("QQQ", every, network, scope)
    size = 24 if abi >= 6 else 16 if abi >= 4 else 8
    ruleset = checked(libc.syscall(_CREATE_RULESET, attributes, size, 0), "landlock_create_ruleset")
    grants = [(path, _READ) for path in (*system_paths(policy), *policy.readable)]
    grants += [(path, every) for path in (*DEVICE_PATHS, *policy.writable)]
    if policy.gpu:
        grants += [(path, _READ) for path in GPU_PATHS]
        grants += [(path, every) for path in ("/proc/self/task", *policy.gpu_files)]
    for path, rights in grants:
        try:
            descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except (FileNotFoundError, PermissionError):  # an unreachable path needs no rule
            continue
        allowed = rights & every & (-1 if os.path.isdir(path) else _FILE_RIGHTS)
        rule = struct.pack("=Qi", allowed, descriptor)
        checked(libc.syscall(_ADD_RULE, ruleset, 1, rule, 0), f"landlock_add_rule {path}")
        os.close(descriptor)
    checked(libc.syscall(_RESTRICT_SELF, ruleset, 0), "landlock_restrict_self")
    os.close(ruleset)
