"""Schemas of a run's events: one body per kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from arena.runs.strict import MAX_INTEGER, Int, Mismatch, Number, Strict, between, derived, read
from arena.text import repaired
from evaluation import types
from evaluation.types import Profile

MAX_TOKENS, MAX_USD = 10**12, 10**6
"""Of one message; the cost of a run is their sum."""
SpanKind = Literal["turn", "subagent", "submission", "evaluation"]
Tokens = Annotated[int, between(0, MAX_TOKENS)]


class Status(Strict):
    """Change of a run's state, with its reason and fault, or its place in the queue."""

    state: str
    reason: str = ""
    fault: str = ""
    queue: str = ""
    queue_position: Int | None = None


class SpanBegin(Strict):
    """Start of a turn, a subagent, a submission or an evaluation."""

    span_kind: SpanKind
    title: str = ""
    round: Int | None = None
    scope: str = ""
    content_hash: str = ""
    files: dict[str, Int] = {}
    """Bytes of each file."""
    note: str = ""


class SpanEnd(Strict):
    span_kind: SpanKind
    ok: bool | None = None
    duration_ms: Number | None = None
    round: Int | None = None
    verdict: str = ""
    reason: str = ""
    message: str = ""


class Usage(Strict):
    """Tokens of a call: cached and written ones are part of the input, reasoning of the output."""

    input_tokens: Tokens = 0
    output_tokens: Tokens = 0
    cached_tokens: Tokens = 0
    cache_write_tokens: Tokens = 0
    reasoning_tokens: Tokens = 0


class Message(Strict):
    role: Literal["system", "user", "assistant"]
    text: str
    reasoning: str = ""
    model: str = ""
    stop_reason: str = ""
    usage: Usage | None = None
    cost_usd: Annotated[Number, between(0, MAX_USD)] | None = None
    latency_ms: Number | None = None


class ModelCall(Strict):
    """A call of a model through the gateway. A replayed one cost nothing again.

    The usage of an `estimated` one is an upper bound: its answer was not read to the end, or
    names no usage.
    """

    provider: str
    wire: str
    model: str = ""
    """Model that answered."""
    requested_model: str = ""
    status: Int = 0
    usage: Usage | None = None
    cost_usd: Annotated[Number, between(0, MAX_USD)] | None = None
    latency_ms: Number | None = None
    first_byte_ms: Number | None = None
    stop_reason: str = ""
    retries: Int = 0
    replayed: bool = False
    error: str = ""
    estimated: bool = False


class ModelProgress(Strict):
    """A call of a model under way; its `model_call` replaces it. `tokens` are an estimate."""

    provider: str
    model: str = ""
    tokens: Tokens = 0
    latency_ms: Number | None = None
    first_byte_ms: Number | None = None


class TodoItem(Strict):
    text: str
    status: Literal["pending", "in_progress", "completed", "cancelled"] = "pending"


class TodoList(Strict):
    """Plan of an agent, whole each time that it changes."""

    items: list[TodoItem]


class RawOutput(Strict):
    """Output of a harness as it was, a part at a time."""

    part: Int
    text: str


class ToolCall(Strict):
    tool: str
    arguments: dict[str, Any] = {}
    cwd: str = ""


class ToolResult(Strict):
    """Result of a tool call; `call` is the id of the tool_call event.

    `ok` is null where nothing states whether it succeeded.
    """

    call: str = ""
    tool: str = ""
    ok: bool | None
    exit_code: Int | None = None
    duration_ms: Number | None = None
    output: str = ""
    error: str = ""


class OutputChunk(Strict):
    """Text of a stream from `offset` on; an offset is sent once."""

    stream: Literal["stdout", "stderr"]
    offset: Annotated[int, between(0, MAX_INTEGER)]
    text: str


class FileEdit(Strict):
    path: str
    operation: Literal["create", "modify", "delete"]
    before_hash: str = ""
    after_hash: str = ""
    diff: str = ""


Diagnostic = derived("Diagnostic", types.Diagnostic, Strict, severity=(str, "error"))
CompilerOutput = derived(
    "CompilerOutput",
    types.CompilerOutput,
    Strict,
    arch=(str, ""),
    text=(str, ""),
    diagnostics=(list[Diagnostic], []),  # type: ignore[valid-type]
    resources=(dict[str, dict[str, Number]], {}),
)
ProfilerOutput = derived(
    "ProfilerOutput",
    Profile,
    Strict,
    omit=("reason",),
    tool=(str, ...),
    case=(str, ""),
    round=(Int | None, None),
    intensity=(Number | None, None),
    tflops=(Number | None, None),
    text=(str, ""),
)
GateResult = derived(
    "GateResult",
    types.GateResult,
    Strict,
    omit=("private", "compiler", "measurements"),
    reason=(str, ""),
    round=(Int | None, None),
    scope=(str, ""),
)


class Metric(Strict):
    """A measured number with its interval, and the best so far."""

    name: str
    value: Number | None
    unit: str = ""
    low: Number | None = None
    high: Number | None = None
    case: str = ""
    round: Int | None = None
    scope: str = ""
    hardware: str = ""
    baseline: str = ""
    best: Number | None = None
    detail: dict[str, Any] = {}


class Limit(Strict):
    name: str
    limit: Number | None = None
    used: Number | None = None
    text: str = ""


class Interrupt(Strict):
    text: str
    by: str = ""


class Log(Strict):
    text: str
    level: Literal["debug", "info", "warning", "error"] = "info"
    stream: str = ""


class Error(Strict):
    message: str
    type: str = ""
    fault: str = ""
    traceback: str = ""


class Note(Strict):
    text: str
    detail: dict[str, Any] = {}


BODIES: dict[str, type[Strict]] = {
    "status": Status,
    "span_begin": SpanBegin,
    "span_end": SpanEnd,
    "message": Message,
    "model_call": ModelCall,
    "model_progress": ModelProgress,
    "todo_list": TodoList,
    "raw_output": RawOutput,
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
"""Schema of the body of each kind of event."""

AGENT = "agent"
"""Actor of the events that an agent records."""
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
    actor: str = AGENT
    producer_seq: int | None = None


class BadEvent(ValueError):
    """Raised for a draft whose body is nested too deep or does not fit its kind."""


def checked_body(draft: EventDraft) -> dict[str, Any]:
    """Return the body with all fields of its kind, and text that can be stored.

    Raises: BadEvent.
    """
    if type(draft.rev) is not int or not 0 <= draft.rev <= MAX_REV:
        raise BadEvent(f"event {draft.kind!r}: rev is a number, 0 to {MAX_REV}")
    if deeper_than(MAX_DEPTH, draft.body):
        raise BadEvent(f"event {draft.kind!r}: nested more than {MAX_DEPTH} deep")
    if draft.kind not in BODIES:
        raise BadEvent(f"event {draft.kind!r}: there is no such kind")
    try:
        return read(BODIES[draft.kind], _repaired(dict(draft.body))).model_dump()
    except Mismatch as error:
        raise BadEvent(f"event {draft.kind!r}: {error}") from error


def _repaired(value: Any) -> Any:
    """Return JSON data with each text, names included, as it can be stored."""
    if isinstance(value, str):
        return repaired(value)
    if isinstance(value, dict):
        return {_repaired(name): _repaired(each) for name, each in value.items()}
    return [_repaired(each) for each in value] if isinstance(value, list) else value


def deeper_than(depth: int, body: Any) -> bool:
    """Return whether `body` is nested to `depth` levels or more."""
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
