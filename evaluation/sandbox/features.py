"""Isolation features of this machine, found by running commands with them."""

from __future__ import annotations

import dataclasses
import functools
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from evaluation.sandbox import landlock, seccomp
from evaluation.sandbox.launch import Completed, run
from evaluation.sandbox.mounts import DEVICES
from evaluation.sandbox.policy import IsolationFeatures, Policy

CAP_KILL, CAP_SETGID, CAP_SETUID, CAP_SYS_NICE = 5, 6, 7, 23
USER_CAPABILITIES = 1 << CAP_KILL | 1 << CAP_SETGID | 1 << CAP_SETUID | 1 << CAP_SYS_NICE
"""Capabilities to start a process as another user, to signal it, and to pin its threads."""


Run = Callable[..., Completed]


@functools.cache
def isolation_features() -> IsolationFeatures:
    """Return the features that work here: all of them if possible, else each that does."""
    return tried_features(Path("/proc/self/status").read_text())


def tried_features(status: str, run: Run = run) -> IsolationFeatures:
    """Return the features with which commands run; `status` is that of this process in /proc."""
    found = IsolationFeatures(landlock=landlock.abi_version(), seccomp=seccomp.supported())
    every = dataclasses.replace(found, namespaces=True, private_proc=True, read_only_system=True)
    if (strongest := _with_other_user(every, status, run)).other_user:
        return strongest  # one trial for all of them
    if found.seccomp and not _works(found, run):
        found = dataclasses.replace(found, seccomp=False)
    for user_namespace in (False, True):
        trial = dataclasses.replace(found, namespaces=True, user_namespace=user_namespace)
        if not _works(trial, run):
            continue
        for name in ("private_proc", "read_only_system"):
            stronger = dataclasses.replace(trial, **{name: True})
            trial = stronger if _works(stronger, run) else trial
        return _with_other_user(trial, status, run)
    return found


@functools.cache
def isolates_ranks() -> bool:
    """Return whether several ranks can have a network here that nothing else is in."""
    found = isolation_features()
    return found.namespaces and found.read_only_system and _works(found, run, ranks=True)


def _works(trial: IsolationFeatures, run: Run, ranks: bool = False) -> bool:
    """Return whether `true` runs with these features."""
    policy = Policy(features=trial, ranks=ranks, minimal_root=ranks)
    return run(["/bin/true"], policy, timeout=20).returncode == 0


_USER_TRIAL = """
import glob, importlib.util, os, sys
for path in glob.glob(sys.argv[1] + "/**/*.py", recursive=True):
    open(path).close()
open(importlib.util.find_spec("torch").origin).close()
open("/proc/self/comm").close()
open("its own", "w").close()
nodes = (node for name in ("[0-9]*", "ctl", "-uvm") for node in glob.glob("/dev/nvidia" + name))
sys.exit(not all(os.access(node, os.R_OK | os.W_OK) for node in nodes))
"""


def _with_other_user(found: IsolationFeatures, status: str, run: Run) -> IsolationFeatures:
    """Add an unprivileged user for each process, where the judge is root and such a user works.

    The user must be able to read files that the judge writes, Python, PyTorch and this package, and
    to open the GPUs.
    """
    if not found.read_only_system or found.user_namespace:
        return found
    values = dict(line.partition(":\t")[::2] for line in status.splitlines())
    missing = USER_CAPABILITIES & ~int(values.get("CapEff", "0"), 16)
    if missing or int(values.get("Umask", "077"), 8) & 0o055:
        return found
    trial = dataclasses.replace(found, other_user=True)
    package = str(Path(__file__).resolve().parents[1])
    with tempfile.TemporaryDirectory("-arena") as scratch:
        policy = Policy(
            features=trial,
            readable=(sys.prefix, sys.base_prefix, package),
            writable=(scratch,),
            scratch_bytes=1 << 20,
            gpu=True,
            gpu_files=tuple(map(str, DEVICES.glob("nvidia*"))),
            unprivileged_user=True,
        )
        argv = [sys.executable, "-I", "-c", _USER_TRIAL, package]
        completed = run(argv, policy, timeout=20, cwd=scratch)
    return trial if completed.returncode == 0 else found
