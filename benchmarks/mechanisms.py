"""Mechanisms of the judge that can be turned off by themselves, for `ablation.py` alone.

Each is turned off by patches of the judge in this process, so that the judge has no switch.
"""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from evaluation.bench import turns
from evaluation.bench.anticheat import (
    arriving_inputs,
    prefetched_inputs,
    staged_inputs,
    window_checks,
)
from evaluation.bench.memory import cuda_ipc, ring
from evaluation.bench.memory.layout import Layout
from evaluation.bench.process.freezer import Freezer
from evaluation.bench.process.handle import ProcessHandle
from evaluation.device_kind import CPU, GPU
from evaluation.errors import SubmissionError
from evaluation.types import Reason

BOTH = (CPU, GPU)


@dataclass(frozen=True)
class Mechanism:
    """One mechanism: how to turn it off, and where its refusals are raised."""

    name: str
    title: str
    kinds: tuple[str, ...]
    off: Callable[[pytest.MonkeyPatch], None]
    raised_in: frozenset[str] = frozenset()
    """Functions, as `module.function`, of which one is on the way of each of its refusals."""
    within: frozenset[str] = frozenset()
    """Functions that are all on the way, where others use the same check."""


class Refusals:
    """Where each refusal was raised, also one that a gate caught itself."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        """Record every SubmissionError that is raised while the patch holds."""
        self._frames: dict[str, set[str]] = {}
        raised = SubmissionError.__init__

        def recorded(error: SubmissionError, reason: Reason, message: str, *rest: Any) -> None:
            raised(error, reason, message, *rest)
            self._frames[message] = {
                f"{Path(frame.filename).stem}.{frame.name}" for frame in traceback.extract_stack()
            }

        patch.setattr(SubmissionError, "__init__", recorded)

    def clear(self) -> None:
        self._frames.clear()

    def mechanism(self, message: str, hidden: bool = False) -> str | None:
        """Return the name of the mechanism that refused with a message; None for any other.

        On a `hidden` case the public message says less: then any refusal since `clear` counts.
        """
        some = [self._frames[message]] if message in self._frames else []
        for frames in [*some, *(reversed(self._frames.values()) if hidden else ())]:
            for mechanism in MECHANISMS:
                if mechanism.raised_in & frames and mechanism.within <= frames:
                    return mechanism.name
        return None


def _nothing(*ignored: object, **also_ignored: object) -> None:
    return None


def _no_launch_order(patch: pytest.MonkeyPatch) -> None:
    made = window_checks.WindowChecks.__init__

    def make(self: Any, *arguments: Any) -> None:
        made(self, *arguments)
        self._samples = None
        self.moments = self._late_inputs.moments

    patch.setattr(window_checks.WindowChecks, "__init__", make)


class _NoLateInputs:
    """Stands in for the late inputs of a window, of which there are none."""

    launches: tuple[int, ...] = ()
    moments: tuple[Any, ...] = ()

    def __init__(self, *ignored: object) -> None: ...

    def write_decoys(self) -> None: ...

    def inject_missing(self) -> None: ...

    def in_time(self) -> list[int]:
        return []


def _no_late_inputs(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(window_checks, "LateInputs", _NoLateInputs)


def _no_staged_inputs(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(staged_inputs, "check", _nothing)


def _no_prefetch_check(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(prefetched_inputs.PrefetchCheck, "check", _nothing)


def _no_arriving_inputs(patch: pytest.MonkeyPatch) -> None:
    def no_runs(*ignored: object, **also_ignored: object) -> list[float]:
        return []

    patch.setattr(arriving_inputs.ArrivingInputs, "_launches_ns", no_runs)


def _no_go_token(patch: pytest.MonkeyPatch) -> None:
    """Start windows on a CPU by a request, as on a GPU."""

    def run(
        self: ProcessHandle,
        first: int,
        count: int,
        observe: Callable[[], None] = _nothing,
        replay: bool = False,
        sampler: Callable[[Callable[[], bool]], None] = _nothing,
    ) -> int:
        message = {"do": "run", "first": first, "count": count, "replay": replay}
        return self.request(message, observe=observe, sampler=sampler)

    patch.setattr(ProcessHandle, "prepare", lambda self, first, count: 0)
    patch.setattr(ProcessHandle, "run", run)


def _no_poison(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ring, "unwritten", lambda values, secret: torch.zeros_like(values, dtype=bool))


def _no_values(patch: pytest.MonkeyPatch) -> None:
    verify = ring.BufferRing.verify
    signature = inspect.signature(verify)

    def without_values(*arguments: Any, **named: Any) -> None:
        bound = signature.bind(*arguments, **named)
        bound.arguments["sample"] = 0
        verify(*bound.args, **bound.kwargs)

    patch.setattr(ring.BufferRing, "verify", without_values)


def _no_slot_order(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Layout, "shuffled", lambda self: self)


def _no_suspension(patch: pytest.MonkeyPatch) -> None:
    def found(self: Freezer, max_seconds: float) -> bool:
        self.pids = tuple(self.find())
        return True

    patch.setattr(Freezer, "suspend", _nothing)
    patch.setattr(Freezer, "wait_suspended", found)
    patch.setattr(ProcessHandle, "check_suspended", _nothing)


def _no_suspended_time(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ProcessHandle, "check_suspended", _nothing)


def _no_idle_test(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ProcessHandle, "require_idle", _nothing)


def _no_overhead(patch: pytest.MonkeyPatch) -> None:
    def nothing(*ignored: Any) -> float:
        return 0.0

    patch.setattr(turns, "hidden_ns", nothing)


def _no_l2_reset(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(cuda_ipc, "reset_persisting_l2", _nothing)


MECHANISMS = (
    Mechanism(
        "launch-order",
        "Launch-order samples",
        (GPU,),
        _no_launch_order,
        frozenset({"launch_order.add", "window_checks.begin"}),
    ),
    Mechanism(
        "late-inputs",
        "Late inputs",
        BOTH,
        _no_late_inputs,
        frozenset({"window_checks.check"}),
    ),
    Mechanism(
        "prefetch-check",
        "Prefetch check",
        (GPU,),
        _no_prefetch_check,
        frozenset({"prefetched_inputs.check"}),
    ),
    Mechanism(
        "staged-inputs",
        "Staged-input check",
        BOTH,
        _no_staged_inputs,
        frozenset({"staged_inputs.check"}),
    ),
    Mechanism(
        "arriving-inputs",
        "Delay by arriving inputs",
        (GPU,),
        _no_arriving_inputs,
        frozenset({"arriving_inputs.charged_ns", "arriving_inputs._launches_ns"}),
    ),
    Mechanism("go-token", "Go token", (CPU,), _no_go_token),
    Mechanism(
        "values",
        "Values of timed launches, drawn in secret",
        BOTH,
        _no_values,
        frozenset({"ring.verify_launches"}),
    ),
    Mechanism(
        "poison",
        "Poison in the outputs of timed launches",
        BOTH,
        _no_poison,
        frozenset({"ring.verify"}),
    ),
    Mechanism("slot-order", "Slots in a secret order in memory", BOTH, _no_slot_order),
    Mechanism("suspension", "Suspension between turns", BOTH, _no_suspension),
    Mechanism(
        "suspended-time",
        "Processor time while suspended",
        BOTH,
        _no_suspended_time,
        frozenset({"handle.check_suspended"}),
    ),
    Mechanism(
        "idle-test",
        "Idle GPU after a reply",
        (GPU,),
        _no_idle_test,
        frozenset({"handle.require_idle"}),
    ),
    Mechanism("overhead", "Overhead beyond the baseline's", BOTH, _no_overhead),
    Mechanism("l2-reset", "Reset of persisting L2 lines", (GPU,), _no_l2_reset),
)
"""In the order in which a refusal is attributed: the first that is on its way."""
