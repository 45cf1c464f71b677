"""What an event may say: one typed body per kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from arena.runs.transfer.shapes import Mismatch, read

body = dataclass(frozen=True, kw_only=True)

MOST_TOKENS, MOST_USD = 10**12, 1e6
"""Of one message; what a run cost is their sum."""


@body
class Status:
    """The run changed state, or waits: its place in the queue, why, and whose fault an end is."""

    state: str
    reason: str = ""
    fault: str = ""
    queue: str = ""
    queue_position: int | None = None


@body
class SpanBegin:
    """Something that has an end begins: a turn, a subagent, a submission, an evaluation."""

    span_kind: Literal["turn", "subagent", "submission", "evaluation"]
    title: str = ""
    round: int | None = None
    scope: str = ""
    content_hash: str = ""
    files: dict[str, int] = field(default_factory=dict)
    """Bytes of each file."""
    note: str = ""


@body
class SpanEnd:
    span_kind: Literal["turn", "subagent", "submission", "evaluation"]
    ok: bool | None = None
    duration_ms: float | None = None
    round: int | None = None
    verdict: str = ""
    reason: str = ""
    message: str = ""


@body
class Usage:
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0

    def __post_init__(self) -> None:
        for name, tokens in vars(self).items():
            if not 0 <= tokens <= MOST_TOKENS:
                raise Mismatch(f"usage.{name} should be from 0 to {MOST_TOKENS}")


@body
class Message:
    role: Literal["system", "user", "assistant"]
    text: str
    reasoning: str = ""
    model: str = ""
    stop_reason: str = ""
    usage: Usage | None = None
    cost_usd: float | None = None
    latency_ms: float | None = None

    def __post_init__(self) -> None:
        if self.cost_usd is not None and not 0 <= self.cost_usd <= MOST_USD:
            raise Mismatch(f"cost_usd should be from 0 to {MOST_USD:g}")


@body
class ToolCall:
    tool: str
    arguments: dict[str, Any] = field(default_factory=dict)
    cwd: str = ""


@body
class ToolResult:
    """`call` is the id of the tool_call event that it answers."""

    call: str = ""
    tool: str = ""
    ok: bool
    exit_code: int | None = None
    duration_ms: float | None = None
    output: str = ""
    error: str = ""


@body
class OutputChunk:
    """Text of a stream from `offset` on; the same offset twice is the same text."""

    stream: Literal["stdout", "stderr"]
    offset: int
    text: str

    def __post_init__(self) -> None:
        if self.offset < 0:
            raise Mismatch("offset should be 0 or more")


@body
class FileEdit:
    path: str
    operation: Literal["create", "modify", "delete"]
    before_hash: str = ""
    after_hash: str = ""
    diff: str = ""


@body
class Diagnostic:
    file: str
    line: int
    severity: str = "error"
    message: str


@body
class CompilerOutput:
    tool: str
    arch: str = ""
    ok: bool
    duration_ms: float
    text: str = ""
    diagnostics: list[Diagnostic] = field(default_factory=list)
    resources: dict[str, dict[str, float]] = field(default_factory=dict)
    listings: dict[str, str] = field(default_factory=dict)


@body
class ProfiledKernel:
    """Means over its calls; shares are 0 to 1, `stalls` those of a warp's cycles by reason."""

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
    stalls: dict[str, float] = field(default_factory=dict)


@body
class ProfilerOutput:
    """Without kernels, `message` says why."""

    tool: str
    kernels: list[ProfiledKernel] = field(default_factory=list)
    case: str = ""
    round: int | None = None
    message: str = ""
    intensity: float | None = None
    tflops: float | None = None
    text: str = ""


@body
class GateResult:
    gate: str
    verdict: str
    reason: str = ""
    rule: str = ""
    message: str = ""
    passed: int = 0
    total: int = 0
    duration_ms: float = 0
    round: int | None = None
    scope: str = ""
    detail: dict[str, Any] = field(default_factory=dict)


@body
class Metric:
    """A number that was measured, with its interval and the best of its name so far."""

    name: str
    value: float | None
    unit: str = ""
    low: float | None = None
    high: float | None = None
    case: str = ""
    round: int | None = None
    scope: str = ""
    hardware: str = ""
    baseline: str = ""
    best: float | None = None
    detail: dict[str, Any] = field(default_factory=dict)


@body
class Limit:
    name: str
    limit: float | None = None
    used: float | None = None
    text: str = ""


@body
class Interrupt:
    text: str
    by: str = ""


@body
class Log:
    text: str
    level: Literal["debug", "info", "warning", "error"] = "info"
    stream: str = ""


@body
class Error:
    message: str
    type: str = ""
    fault: str = ""
    traceback: str = ""


@body
class Note:
    text: str
    detail: dict[str, Any] = field(default_factory=dict)


BODIES: dict[str, type] = {
    "status": Status,
    "span_begin": SpanBegin,
    "span_end": SpanEnd,
    "message": Message,
    "tool_call": ToolCall,
    "tool_result": ToolResult,
    "output_chunk": OutputChunk,
    "file_edit": FileEdit,
    "compiler_output": CompilerOutput,
    "profiler_output": ProfilerOutput,
    "gate_result": GateResult,
    "metric": Metric,
    "limit": Limit,
    "interrupt": Interrupt,
    "log": Log,
    "error": Error,
    "note": Note,
}
"""The body of each kind of event."""

MAX_REV = 2**31 - 1
MAX_DEPTH = 32


@dataclass(frozen=True)
class EventDraft:
    """An event before it has a number.

    `id` names the logical event: a later draft with the same id replaces it on screen. With a
    `producer_seq`, a batch may be sent again and changes nothing.
    """

    kind: str
    body: Mapping[str, Any] = field(default_factory=dict)
    id: str | None = None
    rev: int = 0
    span: str = ""
    parent: str = ""
    actor: str = "agent"
    producer_seq: int | None = None


class BadEvent(ValueError):
    """A producer sent what is no event: a body that its kind does not allow, or too deep."""


def checked_body(draft: EventDraft) -> dict[str, Any]:
    """The body as its kind has it, all fields present."""
    if type(draft.rev) is not int or not 0 <= draft.rev <= MAX_REV:
        raise BadEvent(f"event {draft.kind!r}: rev is a number, 0 to {MAX_REV}")
    if deeper_than(MAX_DEPTH, draft.body):
        raise BadEvent(f"event {draft.kind!r}: nested more than {MAX_DEPTH} deep")
    if draft.kind not in BODIES:
        raise BadEvent(f"event {draft.kind!r}: there is no such kind")
    try:
        return asdict(read(BODIES[draft.kind], draft.body))
    except Mismatch as error:
        raise BadEvent(f"event {draft.kind!r}: {error}") from error


def deeper_than(depth: int, body: Any) -> bool:
    """Whether something in `body` lies so deep, or deeper."""
    level: list[Any] = [body]
    for _ in range(depth):
        level = [child for value in level for child in _children(value)]
        if not level:
            return False
    return True


def _children(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        return list(value.values())
    return value if isinstance(value, list) else []
