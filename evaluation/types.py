"""Shared types that cross module and process boundaries: frozen, typed, serialisable as JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints


class Split(StrEnum):
    """Visibility of a case.

    `seen` is shown to the agent, `unseen` is written but never shown, `sampled` is drawn while
    judging.
    """

    SEEN = "seen"
    UNSEEN = "unseen"
    SAMPLED = "sampled"

    @property
    def hidden(self) -> bool:
        return self is not Split.SEEN


class GateName(StrEnum):
    INTEGRITY = "integrity"
    COMPILE = "compile"
    CORRECTNESS = "correctness"
    PERFORMANCE = "performance"
    GENERALIZATION = "generalization"


class Verdict(StrEnum):
    """Conclusion of a gate.

    `broken` is the arena's fault and never counts against a candidate. `inconclusive` is nobody's:
    the machine could not measure. `specialised` is a candidate for a problem of a public suite that
    is right at the suite's sizes, where it is timed, and not at another one.
    """

    PASSED = "passed"
    SPECIALISED = "specialised"
    FAILED = "failed"
    REJECTED = "rejected"
    DISPUTED = "disputed"
    SKIPPED = "skipped"
    INCONCLUSIVE = "inconclusive"
    BROKEN = "broken"


class Reason(StrEnum):
    """Class of failure of a gate; a message says more."""

    BAD_SOURCE = "BAD_SOURCE"
    UNSUPPORTED = "UNSUPPORTED"
    BUILD_ERROR = "BUILD_ERROR"
    MISSING_ENTRY = "MISSING_ENTRY"
    WRONG_SHAPE = "WRONG_SHAPE"
    WRONG_DTYPE = "WRONG_DTYPE"
    WRONG_VALUES = "WRONG_VALUES"
    NON_FINITE = "NON_FINITE"
    OUT_OF_BOUNDS = "OUT_OF_BOUNDS"
    INPUT_MUTATED = "INPUT_MUTATED"
    ALIASED_OUTPUT = "ALIASED_OUTPUT"
    STALE_OUTPUT = "STALE_OUTPUT"
    CALL_ERROR = "CALL_ERROR"
    CRASH = "CRASH"
    TIMEOUT = "TIMEOUT"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    FORBIDDEN = "FORBIDDEN"
    PROTOCOL = "PROTOCOL"
    HIDDEN_CASE = "HIDDEN_CASE"
    FASTER_THAN_ROOFLINE = "FASTER_THAN_ROOFLINE"
    NO_DEVICE = "NO_DEVICE"
    NO_ISOLATION = "NO_ISOLATION"
    MACHINE_BUSY = "MACHINE_BUSY"
    JUDGE_ERROR = "JUDGE_ERROR"


@dataclass(frozen=True)
class Case:
    """One configuration of an operator.

    `symbols` are the sizes and scalars that `task.toml` names. `kind` is the case's purpose: edge,
    scale-up, scale-down, misaligned, asymmetric, production, nominal or boundary.
    """

    name: str
    split: Split
    kind: str
    dtype: str
    symbols: Mapping[str, int | float]

    def __getitem__(self, symbol: str) -> Any:
        return self.symbols[symbol]


@dataclass(frozen=True)
class Argument:
    """One argument of the entry point, in calling order.

    `role` is input, output or scalar. `dtype` is a torch dtype name, `dtype` itself for the case's
    own, or for scalars `int64` / `float32`. `shape` holds symbol names, integers and products such
    as `heads*head_dim`. The judge draws an input from the half-open range `bounds` of numbers and
    symbols, if there is one, and else as normal values times `scale`.
    """

    name: str
    role: str
    dtype: str
    shape: tuple[str | int, ...] = ()
    bounds: tuple[int | float | str, ...] = ()
    scale: float = 1.0
    structured: bool = False
    """True for an input that is drawn whole for each launch: parts of it are no valid input."""
    compare: str = ""
    """The `Comparison` of an output; empty for a bound on its error, or equal whole numbers."""
    parameter: str = ""
    """Parameter of a suite's module that it stands for, such as `conv.weight`; else empty."""


def calling_order(arguments: Sequence[Argument]) -> list[Argument]:
    """Return the arguments of a host function of Triton: all tensors, then the scalars."""
    return sorted(arguments, key=lambda argument: argument.role == "scalar")


class Comparison(StrEnum):
    """Comparison of an output other than by its value and an allowed error.

    `rounded`: a whole number may differ where roundings decide it. `property`: `check` of the
    reference measures what outputs must have in common with the inputs. `distribution`: it is
    random, and `distribution` of the reference says how.
    """

    ROUNDED = "rounded"
    PROPERTY = "property"
    DISTRIBUTION = "distribution"


BufferSet = Mapping[str, Any]
"""The arguments of one launch by name: `torch.Tensor` views of shared memory, sizes and scalars."""

Launch = Callable[[int, int], None]
"""Launches slots `first`, `first + 1`, ... modulo their number, `count` times.

On a GPU it is asynchronous, on PyTorch's current stream; on a CPU the launches are done.
"""


@dataclass(frozen=True)
class Diagnostic:
    """One message of a compiler."""

    file: str
    line: int
    severity: str
    message: str


@dataclass(frozen=True)
class CompilerOutput:
    """One compiler invocation: `resources` by kernel, and `listings` by format, such as `ptx`."""

    tool: str
    arch: str
    ok: bool
    duration_ms: float
    text: str
    diagnostics: tuple[Diagnostic, ...] = ()
    resources: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    listings: Mapping[str, str] = field(default_factory=dict)
    reused: bool = False  # from an earlier build, whose duration is no part of this verdict


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """Candidate against live baseline on one case.

    Times are medians in microseconds per launch. `speedup` has the 95 % interval `low` to `high`.
    `gbps` and `tflops` follow the operator's cost model. `roofline_share` is roofline time over
    candidate time. All three are None for a whole model, which has no cost model.
    """

    case: str
    split: Split
    kind: str
    dtype: str
    symbols: Mapping[str, int | float]
    baseline: str
    candidate_us: float
    baseline_us: float
    speedup: float
    low: float
    high: float
    gbps: float | None = None
    tflops: float | None = None
    roofline_share: float | None = None
    warm_us: float | None = None
    blocks: int
    noisy: bool
    eager_us: float | None = None
    """Time of a launch without a CUDA graph; None where it was not measured."""
    captured: bool | None = None
    """Whether the candidate's launches on a GPU were replayed as one CUDA graph."""
    memory_bytes: int | None = None
    """Most GPU memory that the candidate allocated itself, beyond its inputs and outputs."""
    baseline_memory_bytes: int | None = None


@dataclass(frozen=True)
class KernelProfile:
    """One kernel at one launch configuration: means over its `calls`; None for unknown values.

    `duration_us` is of one call. Shares are of the sustained peak, 0 to 1: `bandwidth_share` of
    the DRAM, `compute_share` of the multiprocessors (SM), `occupancy` of their warps.
    `shared_bytes` are a block's. `stalls` has the share of a warp's cycles by reason.
    """

    name: str
    duration_us: float
    calls: int = 1
    bandwidth_share: float | None = None
    compute_share: float | None = None
    occupancy: float | None = None
    registers: float | None = None
    shared_bytes: float | None = None
    grid: str = ""
    block: str = ""
    stalls: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Profile:
    """The kernels of a submission on one seen case, the longest in total first.

    Without kernels, `reason` and `message` say why. With kernels, `message` says what is missing.
    """

    case: str
    tool: str = ""
    kernels: tuple[KernelProfile, ...] = ()
    message: str = ""
    reason: Reason | None = None
    text: str = ""
    """The kernels as a table."""


DURATION = "duration_ms"
"""Key in `GateResult.private` of the duration of a gate that used hidden cases."""


@dataclass(frozen=True)
class GateResult:
    """Result of one gate.

    `message` and `detail` are public; `private` may name hidden cases and is for staff only.
    `passed` of `total` counts the gate's own checks (cases for correctness and generalization).
    A gate that used hidden cases has no public duration, and no count where it has not passed: a
    candidate could signal their sizes by either.
    """

    gate: GateName
    verdict: Verdict
    reason: Reason | None = None
    message: str = ""
    rule: str = ""
    passed: int = 0
    total: int = 0
    duration_ms: float = 0.0
    detail: Mapping[str, Any] = field(default_factory=dict)
    private: Mapping[str, Any] = field(default_factory=dict)
    compiler: tuple[CompilerOutput, ...] = ()
    measurements: tuple[Measurement, ...] = ()

    @property
    def took_ms(self) -> float:
        """Return its duration, which is for staff only where the gate used hidden cases."""
        return float(self.private.get(DURATION, self.duration_ms))

    @property
    def cause(self) -> str | None:
        """Return the reason of the first failure, which is for staff only on hidden cases."""
        found: str | None = self.private.get("reason", self.reason)
        return found

    @property
    def used_hidden(self) -> bool:
        return DURATION in self.private


@dataclass(frozen=True)
class Interval:
    """A speedup with its 95 % interval."""

    speedup: float
    low: float
    high: float


@dataclass(frozen=True)
class TaskCheck:
    """One check of a task; `message` says what was found, and what to do where it is not `ok`."""

    name: str
    ok: bool
    message: str


@dataclass(frozen=True)
class Report:
    """A whole evaluation: its gates, their summary, and the fingerprint of the judge."""

    task: str
    task_hash: str
    judge_version: str
    verdict: Verdict
    reason: Reason | None
    message: str
    gates: tuple[GateResult, ...]
    seen: Interval | None
    unseen: Interval | None
    noisy: bool
    fingerprint: Mapping[str, Any]
    seconds: Mapping[str, float]
    roofline_share: float | None = None
    """None for what has no cost model, such as a whole model."""
    aka_score: float | None = None
    """AgentKernelArena's score; None for a module of a live model, which it does not rate."""


def to_json(value: Any) -> Any:
    """Return a value of this module as plain JSON data; NaN and infinities become null."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_json(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json(item) for item in value]
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return None
    if isinstance(value, StrEnum):
        return value.value
    return value


F = TypeVar("F")


def from_json(fact: type[F], data: Mapping[str, Any]) -> F:
    """Return a `fact` from its JSON data, the inverse of `to_json`; unknown fields are ignored."""
    hints = get_type_hints(fact)
    names = [f.name for f in dataclasses.fields(fact) if f.name in data]  # type: ignore[arg-type]
    return fact(**{name: _value(hints[name], data[name]) for name in names})


def _value(hint: Any, value: Any) -> Any:
    parts = [part for part in get_args(hint) if part is not NoneType]
    if value is None or (not parts and not isinstance(hint, type)):
        return value
    if get_origin(hint) is tuple:
        return tuple(_value(parts[0], item) for item in value)
    if get_origin(hint) is Mapping:
        return {name: _value(parts[1], item) for name, item in value.items()}
    if isinstance(hint, UnionType) and len(parts) == 1:
        return _value(parts[0], value)
    if dataclasses.is_dataclass(hint):
        return from_json(hint, value)  # type: ignore[arg-type]
    return hint(value) if isinstance(hint, type) and issubclass(hint, StrEnum) else value
