"""What an event may say: one typed body per kind, in one discriminated union."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Status(Body):
    """The run changed state, or waits: its place in the queue, why, and whose fault an end is."""

    kind: Literal["status"] = "status"
    state: str
    reason: str = ""
    fault: str = ""
    queue: str = ""
    queue_position: int | None = None


class SpanBegin(Body):
    """Something that has an end begins: a turn, a subagent, a submission, an evaluation."""

    kind: Literal["span_begin"] = "span_begin"
    span_kind: Literal["turn", "subagent", "submission", "evaluation"]
    title: str = ""
    round: int | None = None
    scope: str = ""
    content_hash: str = ""
    files: dict[str, int] = Field(default_factory=dict, description="Bytes of each file.")
    note: str = ""


class SpanEnd(Body):
    kind: Literal["span_end"] = "span_end"
    span_kind: Literal["turn", "subagent", "submission", "evaluation"]
    ok: bool | None = None
    duration_ms: float | None = None
    round: int | None = None
    verdict: str = ""
    reason: str = ""
    message: str = ""


class Usage(BaseModel):
    model_config = ConfigDict(extra="forbid")

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0


class Message(Body):
    kind: Literal["message"] = "message"
    role: Literal["system", "user", "assistant"]
    text: str
    reasoning: str = ""
    model: str = ""
    stop_reason: str = ""
    usage: Usage | None = None
    cost_usd: float | None = None
    latency_ms: float | None = None


class ToolCall(Body):
    kind: Literal["tool_call"] = "tool_call"
    tool: str
    arguments: dict[str, Any] = Field(default_factory=dict)
    cwd: str = ""


class ToolResult(Body):
    """`call` is the id of the tool_call event that it answers."""

    kind: Literal["tool_result"] = "tool_result"
    call: str = ""
    tool: str = ""
    ok: bool
    exit_code: int | None = None
    duration_ms: float | None = None
    output: str = ""
    error: str = ""


class OutputChunk(Body):
    """Text of a stream from `offset` on; the same offset twice is the same text."""

    kind: Literal["output_chunk"] = "output_chunk"
    stream: Literal["stdout", "stderr"]
    offset: int = Field(ge=0)
    text: str


class FileEdit(Body):
    kind: Literal["file_edit"] = "file_edit"
    path: str
    operation: Literal["create", "modify", "delete"]
    before_hash: str = ""
    after_hash: str = ""
    diff: str = ""


class Diagnostic(BaseModel):
    model_config = ConfigDict(extra="forbid")

    file: str
    line: int
    severity: str = "error"
    message: str


class CompilerOutput(Body):
    kind: Literal["compiler_output"] = "compiler_output"
    tool: str
    arch: str = ""
    ok: bool
    duration_ms: float
    text: str = ""
    diagnostics: list[Diagnostic] = Field(default_factory=list)
    resources: dict[str, dict[str, float]] = Field(default_factory=dict)
    listings: dict[str, str] = Field(default_factory=dict)


class ProfiledKernel(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str
    duration_us: float
    bandwidth_share: float | None = None
    compute_share: float | None = None
    occupancy: float | None = None
    stalls: dict[str, float] = Field(default_factory=dict)


class ProfilerOutput(Body):
    kind: Literal["profiler_output"] = "profiler_output"
    tool: str
    kernels: list[ProfiledKernel] = Field(default_factory=list)
    intensity: float | None = None
    tflops: float | None = None
    text: str = ""


class GateResult(Body):
    kind: Literal["gate_result"] = "gate_result"
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
    detail: dict[str, Any] = Field(default_factory=dict)


class Metric(Body):
    """A number that was measured, with its interval and the best of its name so far."""

    kind: Literal["metric"] = "metric"
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
    detail: dict[str, Any] = Field(default_factory=dict)


class Limit(Body):
    kind: Literal["limit"] = "limit"
    name: str
    limit: float | None = None
    used: float | None = None
    text: str = ""


class Interrupt(Body):
    kind: Literal["interrupt"] = "interrupt"
    text: str
    by: str = ""


class Log(Body):
    kind: Literal["log"] = "log"
    text: str
    level: Literal["debug", "info", "warning", "error"] = "info"
    stream: str = ""


class Error(Body):
    kind: Literal["error"] = "error"
    message: str
    type: str = ""
    fault: str = ""
    traceback: str = ""


class Note(Body):
    kind: Literal["note"] = "note"
    text: str
    detail: dict[str, Any] = Field(default_factory=dict)


EventBody = Annotated[
    Status
    | SpanBegin
    | SpanEnd
    | Message
    | ToolCall
    | ToolResult
    | OutputChunk
    | FileEdit
    | CompilerOutput
    | ProfilerOutput
    | GateResult
    | Metric
    | Limit
    | Interrupt
    | Log
    | Error
    | Note,
    Field(discriminator="kind"),
]

MAX_REV = 2**31 - 1
MAX_DEPTH = 32

_adapter: TypeAdapter[EventBody] = TypeAdapter(EventBody)


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
    visibility: str = "public"
    producer_seq: int | None = None


class BadEvent(ValueError):
    """A producer sent what is no event: a body that its kind does not allow, or too deep."""


def checked_body(draft: EventDraft) -> dict[str, Any]:
    """The body as its kind's model gives it, all fields present, without the kind itself."""
    if type(draft.rev) is not int or not 0 <= draft.rev <= MAX_REV:
        raise BadEvent(f"event {draft.kind!r}: rev is a number, 0 to {MAX_REV}")
    if _deeper_than(MAX_DEPTH, draft.body):
        raise BadEvent(f"event {draft.kind!r}: nested more than {MAX_DEPTH} deep")
    try:
        parsed = _adapter.validate_python({**draft.body, "kind": draft.kind})
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
        raise BadEvent(f"event {draft.kind!r}: {problems}") from error
    return parsed.model_dump(mode="json", exclude={"kind"})


def _deeper_than(depth: int, body: Mapping[str, Any]) -> bool:
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
